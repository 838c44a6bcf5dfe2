"""An operation as steps: errors reach it where it waits, and losing any answer leaves nothing in
doubt for long."""

from __future__ import annotations

import contextlib
from collections.abc import Callable
from typing import Any

import bson
import pytest
from pymongo import MongoClient

from tontine.errors import (
    ConfigError,
    DuplicateKey,
    StoreError,
    StoreUnavailable,
    SubmitInterrupted,
    TontineError,
)
from tontine.records.roster import Roster
from tontine.store import claim, control, counter, insert, members, repair, settle
from tontine.store.call import AsyncStore, Call, Operation, Store, find_one
from tontine.store.insert import Wish

DONE = bson.encode({"r": 1, "ms": bson.Int64(5)})
PING = Call("", "command", ({"ping": 1},))


def one(call: Call) -> Operation[Any]:
    return (yield call)


class ByHand:
    """Drives an operation on a real store, call by call."""

    def __init__(self, store: Store, steps: Operation[Any]) -> None:
        self.store = store
        self.steps = steps
        self.result: Any = None
        self.call: Call | None = next(steps)

    def make(self) -> Any:
        """The answer to the call that the operation waits for."""
        assert self.call is not None
        return self.store.run(one(self.call))

    def go_on(self) -> None:
        """Make the call and hand over the answer, or the refusal."""
        try:
            answer = self.make()
        except TontineError as refusal:
            self._resume(self.steps.throw, refusal)
        else:
            self._resume(self.steps.send, answer)

    def lose_the_answer(self) -> None:
        """Make the call, but let the operation hear that MongoDB did not answer."""
        with contextlib.suppress(TontineError):
            self.make()
        self._resume(self.steps.throw, StoreUnavailable("the answer was lost"))

    def lose_the_call(self) -> None:
        self._resume(self.steps.throw, StoreUnavailable("the call was lost"))

    def _resume(self, resume: Callable[[Any], Call], value: Any) -> None:
        try:
            self.call = resume(value)
        except StopIteration as end:
            self.call, self.result = None, end.value


class Forgetful(Store):
    """Makes every call, but loses the first answers."""

    def __init__(self, database: Any, losses: int) -> None:
        super().__init__(database)
        self.losses = losses
        self.made: list[str] = []

    def _once(self, call: Call) -> Any:
        answer = super()._once(call)
        self.made.append(call.method)
        if len(self.made) <= self.losses:
            raise StoreUnavailable("the answer was lost")
        return answer


@pytest.fixture
def bare(mongo_client: MongoClient[dict[str, object]], database: str) -> Store:
    """A store without any collections: enough for what is not about jobs."""
    return Store(mongo_client[database])


def hold(store: Store, count: int = 1) -> list[int]:
    seqs = [job.seq or 0 for job in store.run(insert.submit_many(Wish("t.t"), [None] * count))]
    store.run(claim.claim("x", seqs, 0))
    return seqs


def states(store: Store) -> list[str]:
    return [job["state"] for job in store.database.jobs.find().sort("seq")]


def test_an_error_is_thrown_into_the_operation_where_it_waits(bare: Store) -> None:
    def operation() -> Operation[str]:
        try:
            yield Call("", "command", ({"noSuchCommand": 1},))
        except StoreError as error:
            (yield PING)
            return f"went on after: {error}"
        return "not reached"

    assert "went on after: MongoDB answered: no such command" in bare.run(operation())
    with pytest.raises(StoreError):
        bare.run(one(Call("", "command", ({"noSuchCommand": 1},))))


async def test_both_drivers_treat_an_operation_alike(async_store: AsyncStore, store: Store) -> None:
    def operation() -> Operation[tuple[Any, str]]:
        yield Call("jobs", "insert_one", ({"_id": 1, "x": 1},))
        try:
            yield Call("jobs", "insert_one", ({"_id": 1},))
        except DuplicateKey as error:
            return (yield find_one("jobs", {"_id": 1})), error.key[0]
        return None, ""

    assert await async_store.run(operation()) == ({"_id": 1, "x": 1}, "_id")
    store.database.jobs.drop()
    assert store.run(operation()) == ({"_id": 1, "x": 1}, "_id")


def test_an_error_of_the_program_is_not_swallowed(bare: Store) -> None:
    with pytest.raises(TypeError):
        bare.run(one(Call("jobs", "no_such_method")))
    with pytest.raises(ConfigError, match="MongoDB cannot store this"):
        bare.run(one(Call("jobs", "insert_one", ({"x": object()},))))


def test_only_what_may_be_repeated_is_repeated(bare: Store) -> None:
    careful = Forgetful(bare.database, losses=1)
    with pytest.raises(StoreUnavailable):
        careful.run(one(PING))
    assert careful.made == ["command"]
    patient = Forgetful(bare.database, losses=2)
    assert patient.run(one(Call("", "command", ({"ping": 1},), repeats=True)))["ok"] == 1
    assert patient.made == ["command"] * 3
    hopeless = Forgetful(bare.database, losses=99)
    with pytest.raises(StoreUnavailable):
        hopeless.run(one(Call("", "command", ({"ping": 1},), repeats=True)))
    assert len(hopeless.made) == 4


def test_a_submit_whose_answers_are_lost_adds_its_jobs_once(store: Store) -> None:
    for losses in (1, 2):
        store.database.jobs.delete_many({})
        jobs = Forgetful(store.database, losses).run(insert.submit_many(Wish("t.t"), [None] * 3))
        assert [job["seq"] for job in store.database.jobs.find().sort("seq")] == [
            job.seq for job in jobs
        ]
    keyed = Forgetful(store.database, losses=3).run(insert.submit(Wish("t.t", key="k"), {}))
    assert not keyed.existed, "the job that is there is the one that was just added"


def test_an_insert_that_stays_unknown_says_how_much(store: Store) -> None:
    store.run(counter.raise_counter())
    submitting = ByHand(store, insert.submit_many(Wish("t.t"), [None] * 3))
    submitting.go_on()
    with pytest.raises(SubmitInterrupted) as caught:
        submitting.lose_the_answer()
    assert (caught.value.inserted, caught.value.unknown) == (0, 3)
    assert states(store) == ["queued"] * 3


def test_a_claim_that_landed_without_an_answer_is_found_to_be_ours(store: Store) -> None:
    store.run(insert.submit_many(Wish("t.t"), [None] * 3))
    store.run(claim.claim("y", [2], 0))
    claiming = ByHand(store, claim.claim("x", [1, 2, 3], 0))
    claiming.lose_the_answer()
    claiming.go_on()
    assert claiming.result == {1, 3}


def test_a_claim_that_never_arrived_is_found_to_be_nobodys(store: Store) -> None:
    store.run(insert.submit_many(Wish("t.t"), [None] * 2))
    claiming = ByHand(store, claim.claim("x", [1, 2], 0))
    delayed = claiming.call
    assert delayed is not None
    claiming.lose_the_call()
    claiming.go_on()
    assert claiming.result == set()
    store.run(one(delayed))  # it lands after all: only a reconcile can tell, and it does
    assert store.run(settle.find_held("x")).attempts == {1: 1, 2: 1}
    assert store.run(settle.release("x", {1: 1, 2: 1})) == 2


def test_a_claim_about_which_nothing_can_be_read_stays_in_doubt(store: Store) -> None:
    store.run(insert.submit(Wish("t.t"), {}))
    claiming = ByHand(store, claim.claim("x", [1], 0))
    claiming.lose_the_answer()
    with pytest.raises(StoreUnavailable):
        claiming.lose_the_call()
    assert store.run(claim.held("x", [1], 1)) == {1}, "asked again later, it is ours"


def test_a_settlement_that_landed_without_an_answer_is_accepted_when_sent_again(
    store: Store,
) -> None:
    seqs = hold(store, 3)
    for losses, seq in enumerate(seqs, start=1):
        settled = Forgetful(store.database, losses).run(settle.settle_done("x", 1, {seq: DONE}))
        assert settled == settle.Settled(accepted={seq})
    assert states(store) == ["done"] * 3


def test_a_release_that_lands_after_the_job_was_taken_again_frees_nobody(store: Store) -> None:
    (seq,) = hold(store)
    releasing = ByHand(store, settle.release("x", {seq: 1}))
    releasing.make()  # it landed, and the answer was lost...
    store.run(claim.claim("y", [seq], 1))
    releasing.go_on()  # ...so it is sent again
    assert releasing.result == 0
    assert store.database.jobs.find_one()["node"] == "y"


def test_a_repair_cut_short_is_finished_by_the_next_one(store: Store) -> None:
    hold(store, 2)
    repairing = ByHand(store, repair.repair([]))
    for _ in range(
        3
    ):  # the holders, their records, the presumption of death: and then the declarer dies
        repairing.go_on()
    repairing.steps.close()
    assert states(store) == ["working"] * 2
    assert store.run(repair.repair([])) == {"x": 2}


def test_a_node_born_between_the_reads_of_a_repair_keeps_its_jobs(store: Store) -> None:
    hold(store)
    repairing = ByHand(store, repair.repair([]))
    repairing.go_on()
    repairing.go_on()  # its record is not there...
    store.run(members.register("x", {"name": "x"}, 20))  # ...yet
    while repairing.call is not None:
        repairing.go_on()
    assert repairing.result == {}
    assert states(store) == ["working"]


def test_a_delayed_roster_write_loses_to_the_one_that_overtook_it(bare: Store) -> None:
    seen = bare.run(members.read_roster())
    joining = ByHand(bare, members.replace_roster(seen, seen.joined_by("slow")))
    bare.run(members.replace_roster(seen, seen.joined_by("quick")))
    joining.go_on()
    assert joining.result is False
    assert bare.run(members.read_roster()) == Roster(1, ("quick",))


def test_a_delayed_retry_of_an_operator_does_not_touch_the_next_life(store: Store) -> None:
    (seq,) = hold(store)
    store.run(settle.settle_done("x", 1, {seq: DONE}))
    retrying = ByHand(store, control.retry(seq))
    retrying.go_on()  # it has read the job...
    store.run(control.retry(seq))
    store.run(claim.claim("x", [seq], 1))
    store.run(settle.settle_done("x", 2, {seq: DONE}))
    retrying.go_on()  # ...and writes now
    assert (states(store), store.database.jobs.find_one()["attempt"]) == (["done"], 2)
