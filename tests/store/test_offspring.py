"""(1) Jobs that tasks submit: a name is given once, whichever run of the parent asks and wherever
it breaks off."""

from __future__ import annotations

import asyncio
import contextlib
import struct
from collections.abc import Mapping, Sequence
from concurrent.futures import ThreadPoolExecutor
from dataclasses import replace
from typing import Any, cast

import bson
import orjson
import pytest

from tontine.clock import SystemClock
from tontine.diagnose.why import explain
from tontine.diagnose.why import read as evidence
from tontine.errors import ChildDiffers, ConfigError, StoreUnavailable
from tontine.family import child_id
from tontine.offspring import ChildRequest
from tontine.records.job import Job
from tontine.store import insert, offspring, read
from tontine.store.call import AsyncStore, Call, Store
from tontine.store.counter import TAKEN_AT_MOST, Reserve
from tontine.store.insert import Wish
from tontine_node.claims import Entry
from tontine_node.running.offspring import AT_ONCE, Offspring
from tontine_node.running.pipe import Reports, Submit, pack_reports
from tontine_node.running.pool import Child
from tontine_node.running.workload import Workload
from tontine_node.worker.postbox import Postbox

ARGS: list[dict[str, Any]] = [{"n": 0}, {"n": 1}, {"n": 2}]
NAMES = ["1", "2", "3"]


def submit(
    store: Store,
    parent: int = 17,
    many: Sequence[Mapping[str, Any]] = ARGS,
    names: Sequence[str] = NAMES,
    *,
    is_counted: bool = True,
    **wish: Any,
) -> list[Job]:
    wanted = Wish(**{"task": "shop.mail", **wish})
    return store.run(
        offspring.submit(parent, wanted, names[: len(many)], many, is_counted=is_counted)
    )


def stored(store: Store) -> dict[Any, Any]:
    return {one["_id"]: one.get("args", {}).get("n") for one in store.database.jobs.find()}


EXPECTED = {"17/1": 0, "17/2": 1, "17/3": 2}


def test_children_are_named_after_their_parent_and_know_it(store: Store) -> None:
    jobs = submit(store)
    assert [(job.id, job.seq, job.parent, job.existed) for job in jobs] == [
        (f"17/{n}", n, 17, False) for n in (1, 2, 3)
    ]
    document = store.database.jobs.find_one({"_id": "17/1"})
    plain = store.run(insert.submit(Wish("shop.mail"), {}))
    assert document.keys() - store.database.jobs.find_one({"_id": plain.id}).keys() == {"parent"}
    assert plain.parent is None


def test_a_second_run_gets_the_jobs_of_the_first(store: Store) -> None:
    first = submit(store, many=ARGS[:2])
    second = submit(store)
    assert [(job.seq, job.existed) for job in second[:2]] == [(job.seq, True) for job in first]
    assert not second[2].existed
    assert stored(store) == EXPECTED
    store.database.jobs.update_many({}, {"$set": {"state": "done"}})
    assert [job.state for job in submit(store)] == ["done"] * 3, "also when they have ended"


def test_a_run_that_breaks_off_between_any_two_calls_leaves_none_out_and_none_twice(
    store: Store,
) -> None:
    for calls in range(1, 5):
        store.database.jobs.delete_many({})
        steps = offspring.submit(17, Wish("shop.mail"), NAMES, ARGS, is_counted=True)
        answer: Any = None
        for _ in range(calls):
            call: Call = steps.send(answer)
            answer = store._once(call)
        steps.close()
        submit(store)
        assert stored(store) == EXPECTED


def test_whichever_answer_is_lost_the_next_try_adds_what_is_missing(store: Store) -> None:
    for lost in range(1, 5):
        store.database.jobs.delete_many({})
        steps = offspring.submit(17, Wish("shop.mail"), NAMES, ARGS, is_counted=True)
        answer: Any = None
        for _ in range(lost):
            call = steps.send(answer)
            answer = store._once(call)
        with contextlib.suppress(StoreUnavailable, StopIteration):
            steps.throw(StoreUnavailable("the answer was lost"))
        submit(store)
        assert stored(store) == EXPECTED


def test_two_runs_at_once_add_each_once(store: Store) -> None:
    """As when a node that lost its lease has not noticed yet."""
    with ThreadPoolExecutor(8) as pool:
        runs = list(pool.map(lambda _: submit(store), range(8)))
    assert stored(store) == EXPECTED
    assert len({tuple(job.seq for job in run) for run in runs}) == 1
    assert [job.existed for run in runs for job in run].count(False) == 3


def test_another_order_of_the_calls_is_refused_and_loses_nothing(store: Store) -> None:
    """What is counted as the first would take the place of another job, and that would never be
    submitted."""
    submit(store, many=ARGS[:2])
    with pytest.raises(
        ChildDiffers, match=r"17/1 \(job 1\) as shop.mail with other arguments.*name="
    ):
        submit(store, many=[{"n": 9}])
    with pytest.raises(ChildDiffers, match=r"as shop.mail, and now it is shop.bill"):
        submit(store, many=[{"n": 0}], task="shop.bill")
    assert stored(store) == {"17/1": 0, "17/2": 1}


def test_arguments_are_the_same_in_any_order_and_as_bson_has_them(store: Store) -> None:
    submit(store, many=[{"a": (1, 2), "b": float("nan")}])
    submit(store, many=[{"a": [1, 2], "b": float("nan")}])
    submit(store, parent=18, many=[{"a": 1, "b": 2}])
    submit(store, parent=18, many=[{"b": 2, "a": 1}])


def test_a_name_of_its_own_tells_a_job_whatever_its_arguments(store: Store) -> None:
    (first,) = submit(store, many=[{"n": 1}], names=["welcome"], is_counted=False)
    (second,) = submit(store, many=[{"n": 2}], names=["welcome"], is_counted=False)
    assert (first.id, second.seq, second.existed) == ("17/welcome", first.seq, True)
    with pytest.raises(ChildDiffers):
        submit(store, many=[{"n": 1}], names=["welcome"], is_counted=False, task="shop.bill")


def test_a_name_that_a_producer_has_taken_is_refused(store: Store) -> None:
    for taken in ({"parent": "me"}, {"parent": 18}, {}):
        store.database.jobs.delete_many({})
        store.database.jobs.insert_one(
            {"_id": "17/1", "task": "shop.mail", "args": {"n": 0}, **taken}
        )
        with pytest.raises(
            ConfigError, match="'17/1' is taken by a job that is no child of job 17"
        ):
            submit(store, many=ARGS[:1])
        assert stored(store) == {"17/1": 0}


def test_a_key_that_an_unfinished_job_has_gives_that_job(store: Store) -> None:
    holder = store.run(insert.submit(Wish("shop.mail", key="k"), {}))
    (found,) = submit(store, many=ARGS[:1], key="k")
    assert (found.id, found.existed) == (holder.id, True)
    store.database.jobs.update_many({}, {"$set": {"state": "done"}})
    (child,) = submit(store, many=ARGS[:1], key="k")
    assert (child.id, child.existed) == ("17/1", False)
    for state in ("working", "done"):
        store.database.jobs.update_one({"_id": "17/1"}, {"$set": {"state": state, "node": "x"}})
        (again,) = submit(store, many=ARGS[:1], key="k")
        assert (again.id, again.seq, again.existed) == ("17/1", child.seq, True)


def test_a_counter_that_was_set_back_gives_children_new_numbers(store: Store) -> None:
    jobs = store.run(insert.submit_many(Wish("t.t"), [None] * 5))
    store.database.cluster.update_one({"_id": "counter"}, {"$set": {"seq": 1}})
    reserve = Reserve()
    steps = offspring.submit(
        17, Wish("shop.mail"), ["1"], ARGS[:1], is_counted=True, reserve=reserve
    )
    (child,) = store.run(steps)
    assert child.seq not in {job.seq for job in jobs}
    assert not child.existed


def test_bad_wishes_are_refused_as_a_producer_would_be(store: Store) -> None:
    for wish in ({"task": ""}, {"priority": 1.5}, {"delay": -1.0}, {"key": ""}, {"timeout": 0.0}):
        with pytest.raises(ConfigError) as ours:
            submit(store, many=ARGS[:1], **wish)
        with pytest.raises(ConfigError) as theirs:
            store.run(
                insert.submit(Wish(**{"task": "shop.mail", **cast("dict[str, Any]", wish)}), {})
            )
        assert str(ours.value) == str(theirs.value)
    assert stored(store) == {}


def test_children_are_found_without_those_of_others(store: Store) -> None:
    for parent in (1, 17, 170, 171, 1700):
        submit(store, parent=parent)
    store.database.jobs.insert_many(
        [{"_id": "17/own", "task": "t.t"}, {"_id": "mine", "parent": 17, "task": "t.t"}]
    )
    store.database.jobs.update_one({"_id": "17/3"}, {"$set": {"state": "failed"}})
    found = store.run(offspring.read_children(17))
    assert (found.states, found.summary) == ({"failed": 1, "queued": 2}, "1 failed, 2 queued")
    assert [job.id for job in found.some] == ["17/3", "17/1", "17/2"], "those that failed first"
    assert store.run(offspring.read_children(2)).count == 0


def test_finding_children_reads_nothing_else(store: Store) -> None:
    for parent in (16, 17, 18):
        submit(store, parent=parent)
    (call,) = [next(offspring.read_children(17))]
    explained = store.database.command("explain", call.args[0], verbosity="executionStats")
    assert "'totalDocsExamined': 3" in str(explained)


def test_why_tells_of_the_family(store: Store) -> None:
    parent = store.run(insert.submit(Wish("shop.album"), {}))
    store.database.jobs.update_one({"_id": parent.id}, {"$set": {"state": "done", "attempt": 1}})
    child, _ = submit(store, parent=parent.seq or 0, many=ARGS[:2])
    store.database.jobs.update_one({"_id": child.id}, {"$set": {"state": "failed"}})
    told = explain(store.run(evidence.gather(parent.seq or 0)))[-1]
    assert told.sentence == "Its task submitted 2 jobs: 1 failed, 1 queued."
    assert told.advice == f"`tontine why {child.seq}` tells about one that failed"
    told = explain(store.run(evidence.gather(child.seq or 0)))[-1]
    assert told.sentence == f"The task of job {parent.seq} (shop.album), done, submitted it."
    store.database.jobs.delete_one({"_id": parent.id})
    told = explain(store.run(evidence.gather(child.seq or 0)))[-1]
    assert (
        told.sentence
        == f"The task of job {parent.seq} submitted it, and that job is no longer kept."
    )


LENGTH = struct.Struct("!I")


class Line:
    """Both ends of the line between a master and one worker that runs job 17 at attempt 2."""

    def __init__(self) -> None:
        self.postbox = Postbox(self._ask)
        child = Child(0, cast("Any", None), asyncio.StreamReader(), cast("Any", self))
        self.workload = Workload(child)
        self.workload.sent[17] = Entry(17, 2, 0.0)
        self.offspring: Offspring | None = None
        self.is_closed = False

    def _ask(self, report: Submit) -> None:
        assert self.offspring is not None
        frame = pack_reports([(16, 0.1, b"a result before it"), report])
        (head,) = LENGTH.unpack_from(frame)
        reports = Reports.unpack(orjson.loads(frame[8 : 8 + head]), frame[8 + head :])
        asyncio.get_running_loop().call_soon(self.offspring.take, self.workload, reports.submit)

    def is_closing(self) -> bool:
        return self.is_closed

    def write(self, frame: bytes) -> None:
        (head,) = LENGTH.unpack_from(frame)
        number = orjson.loads(frame[8 : 8 + head])["submitted"]
        self.postbox.take_answer(number, frame[8 + head :])


@pytest.fixture
async def line() -> Line:
    return Line()


def request(attempt: int = 2, **wish: Any) -> ChildRequest:
    wish = {"task": "shop.mail", **wish}
    return ChildRequest(17, attempt, wish, ["1"], [bson.encode({"n": 0})], is_counted=True)


async def test_the_master_answers_when_the_job_is_there(
    line: Line, async_store: AsyncStore, store: Store
) -> None:
    line.offspring = Offspring(async_store, SystemClock())
    for existed in (False, True):
        (job,) = await asyncio.wrap_future(line.postbox.ask(request()))
        assert (job.id, job.existed, job.parent) == ("17/1", existed, 17)
        assert job.seq == store.database.jobs.find_one({"_id": "17/1"})["seq"]
    with pytest.raises(ConfigError, match="`priority` must be a whole number"):
        await asyncio.wrap_future(line.postbox.ask(request(priority=1.5)))
    assert line.offspring.tasks == set()


async def test_an_attempt_that_the_master_does_not_run_submits_nothing(
    line: Line, async_store: AsyncStore, store: Store
) -> None:
    line.offspring = Offspring(async_store, SystemClock())
    for attempt in (1, 3):
        with pytest.raises(Exception, match=f"job 17: attempt {attempt} is no longer this node's"):
            await asyncio.wrap_future(line.postbox.ask(request(attempt)))
    line.workload.sent.clear()
    with pytest.raises(Exception, match="attempt 2 is no longer"):
        await asyncio.wrap_future(line.postbox.ask(request()))
    assert stored(store) == {}


async def test_requests_side_by_side_do_not_waste_numbers(
    line: Line, async_store: AsyncStore, store: Store
) -> None:
    """Who shares a reserve of numbers takes as many as all others at once, and most become
    holes."""
    line.offspring = Offspring(async_store, SystemClock())
    asked = [replace(request(), names=[str(n)]) for n in range(1, 101)]
    await asyncio.gather(*(asyncio.wrap_future(line.postbox.ask(one)) for one in asked))
    assert len(stored(store)) == 100
    assert (
        store.database.cluster.find_one({"_id": "counter"})["seq"] <= 100 + AT_ONCE * TAKEN_AT_MOST
    )


class Away(AsyncStore):
    """A store that does not answer so many calls."""

    calls = 0

    async def _once(self, call: Call) -> Any:
        self.calls -= 1
        if self.calls >= 0:
            raise StoreUnavailable("no server")
        return await super()._once(call)


async def test_a_store_that_is_away_is_waited_for_but_not_for_ever(
    line: Line, async_store: AsyncStore, store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    away = Away(async_store.database)
    away.calls = 2
    line.offspring = Offspring(away, SystemClock())
    await asyncio.wrap_future(line.postbox.ask(request()))
    assert stored(store) == {"17/1": 0}
    away.calls = 10_000
    monkeypatch.setattr("tontine_node.running.offspring.PATIENCE", 0.3)
    with pytest.raises(
        StoreUnavailable,
        match=r"MongoDB did not take shop.mail from job 17 within 0.3 s: no server",
    ):
        await asyncio.wrap_future(line.postbox.ask(request()))


async def test_what_breaks_in_the_master_is_answered_too(
    line: Line, async_store: AsyncStore
) -> None:
    line.offspring = Offspring(async_store, SystemClock())
    with pytest.raises(Exception, match="no_such_field"):
        await asyncio.wrap_future(line.postbox.ask(request(no_such_field=1)))


def test_a_child_is_read_by_its_id(store: Store) -> None:
    submit(store, many=ARGS[:1])
    document = store.run(read.read_by_id(child_id(17, "1")))
    assert document is not None
    assert Job.from_document(document).parent == 17
