"""What a job keeps of its stages: only its holder writes it, a late or repeated write changes
nothing, and whatever is done stays done (MI5)."""

from __future__ import annotations

from typing import Any

import bson
import pytest
from bson import Int64, ObjectId
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st

from tests.store.test_settle import BROKEN, encoded, end, hold, hold_again, job
from tontine import ConfigError
from tontine.filter import Filter
from tontine.records.job import JobError
from tontine.records.stage import stages_in
from tontine.store import control, many, outputs, repair, settle
from tontine.store.call import Store
from tontine.store.outputs import PART, DoneStage

NAMES = ("fetch", "clean", "store")


def stage(place: int, value: Any = None) -> DoneStage:
    return DoneStage(place, NAMES[place], "1.0", 5, bson.encode({"r": value}))


def keep(
    store: Store, seq: int, place: int, value: Any = None, *, attempt: int = 1, **more: Any
) -> bool | None:
    apart = more.pop("apart", False)
    return store.run(
        outputs.keep_stage("x", seq, attempt, stage(place, value), apart=apart, **more)
    )


def names(store: Store, seq: int) -> list[str]:
    return [one.name for one in stages_in(job(store, seq).get("stages"))]


def test_a_stage_is_kept_with_its_output_and_the_ones_before_it(store: Store) -> None:
    (seq,) = hold(store)
    values: list[Any] = [{"$set": "$x", "a": [1, None]}, "$seq"]
    assert keep(store, seq, 0, values[0]) is False
    assert keep(store, seq, 1, values[1]) is False
    stored = job(store, seq)["stages"]
    assert [one["output"] for one in stored] == values
    facts = {"state": "done", "attempt": 1, "version": "1.0", "ms": 5, "node": "x"}
    assert all(facts.items() <= one.items() for one in stored)


def test_the_answer_says_whether_cancelling_was_asked_for(store: Store) -> None:
    (seq,) = hold(store)
    store.run(control.cancel(seq))
    assert keep(store, seq, 0) is True


def test_only_the_holder_of_the_attempt_keeps_anything(store: Store) -> None:
    first, second = hold(store, 2)
    assert store.run(outputs.keep_stage("y", first, 1, stage(0), apart=False)) is None
    assert keep(store, first, 0, attempt=2) is None
    end(store, "released", second)
    assert keep(store, second, 0) is None
    assert hold_again(store, second) == 2
    keep(store, second, 0, "mine", attempt=2)
    # A late write of the attempt before finds another in its place.
    assert keep(store, second, 0, "late") is None
    assert keep(store, second, 1, "late", apart=True) is None
    assert job(store, second)["stages"][0]["output"] == "mine"
    assert names(store, second) == ["fetch"]


@pytest.mark.parametrize("odd", [None, 7, "x", {"a": 1}, [7], [{"name": "fetch"}, None]], ids=str)
def test_odd_stages_do_not_keep_a_fresh_job_from_noting_its_own(store: Store, odd: Any) -> None:
    (seq,) = hold(store)
    store.database.jobs.update_one({"seq": seq}, {"$set": {"stages": odd}})
    keep(store, seq, 0, 1)
    assert names(store, seq) == ["fetch"]


def test_large_outputs_are_kept_apart_and_found_again(store: Store) -> None:
    (seq,) = hold(store)
    value = b"x" * (PART + 1000)
    keep(store, seq, 0, value, apart=True)
    (kept,) = stages_in(job(store, seq)["stages"])
    assert (kept.parts, "output" in job(store, seq)["stages"][0]) == (2, False)
    whole = store.run(outputs.read_output(seq, kept))
    assert whole is not None
    assert bson.decode(whole)["r"] == value
    before = list(store.database.outputs.find({}, {"data": 0}))
    keep(store, seq, 0, value, apart=True)
    assert list(store.database.outputs.find({}, {"data": 0})) == before
    store.database.outputs.delete_one({"_id.part": 1})
    assert store.run(outputs.read_output(seq, kept)) is None


def test_stopped_between_parts_and_write_nothing_is_noted(store: Store) -> None:
    (seq,) = hold(store)
    steps = outputs.keep_stage("x", seq, 1, stage(0, b"x" * PART), apart=True)
    call = next(steps)
    while call.collection == "outputs":
        answer = store._answer(call)
        call = steps.send(answer)
    assert "stages" not in job(store, seq)
    assert len(store.run(outputs.find_outputs(seq))) == 2
    end(store, "lost", seq, error=BROKEN)
    # The next attempt has parts of its own.
    attempt = hold_again(store, seq)
    keep(store, seq, 0, b"y" * PART, attempt=attempt, apart=True)
    (kept,) = stages_in(job(store, seq)["stages"])
    whole = store.run(outputs.read_output(seq, kept))
    assert whole is not None
    assert bson.decode(whole)["r"] == b"y" * PART


class World:
    """Attempts of one job, whose writes may be made twice, late, or never."""

    def __init__(self, store: Store) -> None:
        self.store = store
        (self.seq,) = hold(store)
        self.attempt = 1
        self.late: list[tuple[int, DoneStage, bool]] = []
        self.runs: list[tuple[str, int]] = []

    def run_stage(self, fate: str, apart: bool) -> None:
        """The holder reads where it stands, runs the stage and keeps it; or dies at some point."""
        found = self.store.run(outputs.read_kept("x", {self.seq: self.attempt}))
        done = stages_in(found[self.seq].get("stages"))
        if len(done) == len(NAMES):
            return
        name = NAMES[len(done)]
        assert name not in [one.name for one in done]
        self.runs.append((name, self.attempt))
        made = DoneStage(len(done), name, "1", 1, bson.encode({"r": f"{name}{self.attempt}"}))
        if fate != "never":
            if fate in ("late", "twice"):
                self.late.append((self.attempt, made, apart))
            if fate != "late":
                self.write(self.attempt, made, apart)
        if fate in ("late", "never"):
            self.die()

    def write(self, attempt: int, made: DoneStage, apart: bool) -> None:
        before = job(self.store, self.seq).get("stages") or []
        self.store.run(outputs.keep_stage("x", self.seq, attempt, made, apart=apart))
        after = job(self.store, self.seq).get("stages") or []
        # Whatever is stored as done stays as it is.
        assert after[: len(before)] == before

    def land(self, place: int) -> None:
        if self.late:
            self.write(*self.late.pop(place % len(self.late)))

    def die(self) -> None:
        end(self.store, "released", self.seq, self.attempt)
        self.attempt = hold_again(self.store, self.seq)


STEPS = st.one_of(
    st.tuples(st.sampled_from(["well", "late", "twice", "never"]), st.booleans()),
    st.integers(0, 5),
)


@settings(
    max_examples=40, deadline=None, suppress_health_check=[HealthCheck.function_scoped_fixture]
)
@given(st.lists(STEPS, max_size=14))
def test_whatever_is_late_twice_or_lost_a_stage_that_is_done_stays_so(
    store: Store, steps: list[Any]
) -> None:
    world = World(store)
    for step in steps:
        if isinstance(step, int):
            world.land(step)
        else:
            world.run_stage(*step)
    for _ in NAMES:
        world.run_stage("well", False)
    while world.late:
        world.land(0)
    stored = stages_in(job(store, world.seq)["stages"])
    assert [one.name for one in stored] == list(NAMES)
    # Each is of a run that was really made; and the input of each came before it.
    assert [(one.name, one.attempt) for one in stored] == [
        next(run for run in world.runs if run == (one.name, one.attempt)) for one in stored
    ]
    assert [one.attempt for one in stored] == sorted(one.attempt for one in stored)


def test_a_first_write_that_lands_after_the_next_stage_changes_nothing(store: Store) -> None:
    (seq,) = hold(store)
    keep(store, seq, 0, "one")
    keep(store, seq, 1, "two")
    before = job(store, seq)
    assert keep(store, seq, 0, "one") is False
    assert job(store, seq) == before


def test_an_output_that_is_gone_is_told_and_made_again(store: Store) -> None:
    (seq,) = hold(store)
    keep(store, seq, 0)
    keep(store, seq, 1)
    error = JobError("OutputGone", "the output of stage 2 (clean) is gone: it runs again")
    for _ in range(2):  # the answer of the first is lost
        store.run(outputs.forget_stages("x", seq, 1, 1, error))
    assert names(store, seq) == ["fetch"]
    assert [one["type"] for one in job(store, seq)["errors"]] == ["OutputGone"]
    store.run(outputs.forget_stages("x", seq, 2, 0, error))
    assert names(store, seq) == ["fetch"]


def test_what_a_job_keeps_survives_every_way_back_into_the_queue(store: Store) -> None:
    for kind in ("retry", "released", "lost"):
        (seq,) = hold(store)
        keep(store, seq, 0, kind)
        end(store, kind, seq, error=BROKEN, saved=(1, bson.encode({"r": kind})))
        attempt = hold_again(store, seq)
        kept = store.run(outputs.read_kept("x", {seq: attempt}))[seq]
        assert kept["stages"][0]["output"] == kind
        assert kept["saved"]["value"] == kind
        assert store.run(outputs.read_kept("x", {seq: attempt + 1})) == {}


def test_retrying_a_failed_job_keeps_its_stages_and_a_done_one_begins_anew(store: Store) -> None:
    failed, done = hold(store, 2)
    for seq in (failed, done):
        keep(store, seq, 0)
        keep(store, seq, 1)
    saved = (1, bson.encode({"r": 1}))
    end(store, "failed", failed, error=BROKEN, saved=saved)
    end(store, "done", done, result=encoded(1), saved=saved)
    for seq in (failed, done):
        assert job(store, seq)["saved"]["value"] == 1
        store.run(control.retry(seq))
    assert names(store, failed) == ["fetch", "clean"]
    assert job(store, failed)["saved"]["value"] == 1
    assert job(store, done).keys().isdisjoint({"stages", "saved", "counts"})


def test_a_retry_from_a_stage_clears_it_and_those_after_it(store: Store) -> None:
    failed, done, odd = hold(store, 3)
    for seq in (failed, done):
        keep(store, seq, 0)
        keep(store, seq, 1)
    end(store, "failed", failed, error=BROKEN, saved=(1, bson.encode({"r": 1})))
    end(store, "done", done, result=encoded(1))
    end(store, "failed", odd, error=BROKEN)
    with pytest.raises(ConfigError, match="fetch, clean are done"):
        store.run(control.retry(failed, stage="store"))
    store.run(control.retry(failed, stage="clean"))
    store.run(control.retry(done, stage="fetch"))
    assert names(store, failed) == ["fetch"]
    assert "saved" not in job(store, failed)
    assert "stages" not in job(store, done)
    store.database.jobs.update_one({"seq": odd}, {"$set": {"stages": "x"}})
    with pytest.raises(ConfigError, match=r"no node has said that t\.t has stages"):
        store.run(control.retry(odd, stage="fetch"))
    announce(store, "fetch", "clean")
    store.run(control.retry(odd, stage="fetch"))
    assert "stages" not in job(store, odd)


@pytest.mark.parametrize("apart", [False, True])
def test_a_stage_whose_write_landed_is_done_also_if_its_node_died_before_the_answer(
    store: Store, apart: bool
) -> None:
    (seq,) = hold(store, node="gone")

    def write(node: str, attempt: int, place: int, value: str) -> bool | None:
        steps = outputs.keep_stage(node, seq, attempt, stage(place, value), apart=apart)
        return store.run(steps)

    write("gone", 1, 0, "fetched")  # nobody hears the answer
    store.run(repair.repair([]))
    assert job(store, seq)["state"] == "queued"
    attempt = hold_again(store, seq)
    kept = store.run(outputs.read_kept("x", {seq: attempt}))[seq]
    (done,) = stages_in(kept["stages"])
    assert (done.name, done.attempt) == ("fetch", 1), "the next attempt begins after it"
    if apart:
        output = store.run(outputs.read_output(seq, done))
        assert output == stage(0, "fetched").body
    else:
        assert kept["stages"][0]["output"] == "fetched"
    assert write("gone", 1, 0, "again") is None, "what the dead node repeats comes too late"
    assert write("x", attempt, 1, "cleaned") is False
    assert [one.attempt for one in stages_in(job(store, seq)["stages"])] == [1, attempt]


def announce(store: Store, *stages: str, state: str = "waiting") -> None:
    """A node says which stages its code has."""
    module = {"name": "t", "state": "serving", "stages": [{"task": "t.t", "names": list(stages)}]}
    record = {"_id": str(ObjectId()), "state": state, "modules": [module]}
    store.database.nodes.insert_one({**record, "beat": 1})


@pytest.mark.parametrize(
    ("done", "code", "stage", "kept"),
    [
        (0, ["fetch", "clean", "store"], "fetch", 0),
        (0, ["fetch", "clean", "store"], "clean", None),
        (0, ["fetch", "clean", "store"], "nonsense", None),
        (1, ["fetch", "clean", "store"], "clean", 1),
        (1, ["fetch", "clean", "store"], "store", None),
        (2, ["fetch", "clean", "store"], "store", 2),
        (2, ["fetch", "tidy", "store"], "tidy", 1),  # renamed: by its new name
        (2, ["fetch", "tidy", "store"], "clean", 1),  # and by its old one
        (2, ["get", "clean", "store"], "clean", 0),
        (2, ["get", "clean", "store"], "store", None),
        (2, [], "nonsense", None),
    ],
)
def test_a_retry_from_a_stage_keeps_what_the_code_of_today_has_too(
    store: Store, done: int, code: list[str], stage: str, kept: int | None
) -> None:
    (seq,) = hold(store)
    for place in range(done):
        keep(store, seq, place)
    end(store, "failed", seq, error=BROKEN)
    if code:
        announce(store, "fetch", "clean", "nonsense", state="dead")
        announce(store, *code)
    if kept is None:
        with pytest.raises(ConfigError, match=f"cannot begin at stage '{stage}'"):
            store.run(control.retry(seq, stage=stage))
        assert job(store, seq)["state"] == "failed"
    else:
        store.run(control.retry(seq, stage=stage))
        assert names(store, seq) == ["fetch", "clean"][:kept]


def test_of_what_is_saved_the_newest_stays_also_when_an_older_write_is_late(store: Store) -> None:
    (seq,) = hold(store)

    def save(number: int, attempt: int = 1) -> None:
        body = bson.encode({"r": [number]})
        store.run(outputs.write_saved("x", [(seq, attempt, (number, body))]))

    save(2)
    save(1)
    save(3, attempt=2)
    assert job(store, seq)["saved"] == {"attempt": 1, "n": 2, "value": [2]}
    end(store, "retry", seq, error=BROKEN, saved=(3, bson.encode({"r": [3]})))
    attempt = hold_again(store, seq)
    save(4)
    assert job(store, seq)["saved"]["value"] == [3]
    save(1, attempt)
    assert job(store, seq)["saved"] == {"attempt": attempt, "n": 1, "value": [1]}


def test_a_job_that_saves_nothing_has_no_part_of_it_in_its_settlement() -> None:
    outcome = settle.Outcome("failed", 1, 1, error=BROKEN)
    update = next(settle.settle_each("x", [outcome])).args[0]
    assert "saved" not in str(update)
    assert "stages" not in str(update)


def put(store: Store, seq: int, days: float) -> None:
    identity = {"seq": Int64(seq), "stage": "fetch", "attempt": 1, "part": 0}
    at = {"$subtract": ["$$NOW", round(days * 86_400_000)]}
    store.database.outputs.update_one(
        {"_id": identity}, [{"$set": {"data": b"x", "at": at}}], upsert=True
    )


def test_old_outputs_go_unless_somebody_goes_on_from_them(store: Store) -> None:
    working, queued, done, new = hold(store, 4)
    end(store, "released", queued)
    end(store, "done", done, result=encoded(1))
    end(store, "done", new, result=encoded(1))
    gone = 10**6
    for seq in (working, queued, done, gone):
        put(store, seq, 8)
    put(store, new, 6)
    assert store.run(outputs.remove_old_outputs()) == 2
    left = {one["_id"]["seq"] for one in store.database.outputs.find()}
    assert left == {working, queued, new}
    assert store.run(outputs.remove_old_outputs()) == 0


def test_purging_a_job_removes_its_outputs(store: Store) -> None:
    first, second = hold(store, 2)
    for seq in (first, second):
        put(store, seq, 0)
    end(store, "done", first, result=encoded(1))
    ago = {"$set": {"finished_at": job(store, first)["created_at"].replace(year=2020)}}
    store.database.jobs.update_one({"seq": first}, ago)
    assert store.run(many.purge(Filter.of(state="done"))).count == 1
    assert [one["_id"]["seq"] for one in store.database.outputs.find()] == [second]
