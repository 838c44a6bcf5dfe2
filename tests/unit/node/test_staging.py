"""How long a stage has run, and what a job has saved while the store does not answer."""

from __future__ import annotations

from typing import Any, cast

import bson
import pytest

from tontine.clock import SystemClock
from tontine.errors import StoreError, StoreUnavailable
from tontine.store.names import JOBS, OUTPUTS
from tontine.store.outputs import INLINE, INLINE_IN_ALL
from tontine_node.claims import Claims, Entry
from tontine_node.running.pipe import Orders, SavedValue, StageOutput, TaskFacts
from tontine_node.running.staging import Staging, time_limit
from tontine_node.running.workload import Workload
from tontine_node.staged_run import StagedRun
from tontine_node.telling.troubles import Troubles

BODY = bson.encode({"r": 1})
FACTS = TaskFacts(timeout=10.0, saves=True, stage_limits=[None, 2.0, None])


def entry(run: StagedRun | None, timeout: float | None = None) -> Entry:
    return Entry(1, 1, 0.0, task="t.t", timeout=timeout, staged=run)


def test_a_plain_job_has_the_limit_of_its_task_or_its_own() -> None:
    assert time_limit(entry(None), FACTS, 3.0, 100.0) == (3.0, 10.0)
    assert time_limit(entry(None, 5.0), FACTS, 3.0, 100.0) == (3.0, 5.0)


def test_a_stage_has_its_own_limit_from_when_it_began() -> None:
    run = StagedRun(place=1, begun=97.5, waited=1.0)
    assert time_limit(entry(run), FACTS, 6.0, 100.0) == (2.5, 2.0)
    assert time_limit(entry(run), FACTS, 6.0, 99.0) == (5.0, 10.0)


def test_the_first_stage_of_an_attempt_began_with_it() -> None:
    assert time_limit(entry(StagedRun(place=1)), FACTS, 2.5, 100.0) == (2.5, 2.0)


def test_waiting_until_an_output_is_stored_counts_in_no_limit() -> None:
    run = StagedRun(place=1, begun=90.0, waits_since=91.0)
    ran, limit = time_limit(entry(run), FACTS, 30.0, 100.0)
    assert limit is None
    run.waits_since, run.waited, run.place, run.begun = None, 9.0, 2, 100.0
    assert time_limit(entry(run), FACTS, 15.0, 100.0) == (6.0, 10.0)
    assert ran == 21.0


class Away:
    """A store that does not answer, until it does."""

    def __init__(self) -> None:
        self.is_away = True

    async def run(self, steps: Any) -> None:
        steps.close()
        if self.is_away:
            raise StoreUnavailable("away")


async def test_what_could_not_be_written_goes_with_the_end_of_the_attempt() -> None:
    store = Away()
    desk = Staging("x", cast("Any", store), SystemClock(), Claims(), Troubles())
    one = entry(None)
    workload = Workload(cast("Any", None))
    workload.sent[1] = one
    desk.take_saved(workload, [SavedValue(1, 1, 1, b"a"), SavedValue(9, 1, 1, b"not its own")])
    await desk.write_saved()
    assert desk.unwritten(one) == (1, b"a")
    assert desk.unwritten(one) is None
    desk.take_saved(workload, [SavedValue(1, 1, 2, b"b")])
    store.is_away = False
    desk._written_at = float("-inf")
    await desk.write_saved()
    assert desk.unwritten(one) is None


async def test_what_an_attempt_before_saved_does_not_go_with_the_end_of_this_one() -> None:
    desk = Staging("x", cast("Any", Away()), SystemClock(), Claims(), Troubles())
    one, workload = entry(None), Workload(cast("Any", None))
    workload.sent[1] = one
    desk.take_saved(workload, [SavedValue(1, one.attempt + 1, 1, b"of another")])
    assert desk.unwritten(one) is None


async def test_what_jobs_save_is_written_at_most_twice_a_second() -> None:
    store, clock = Away(), SystemClock()
    store.is_away = False
    desk = Staging("x", cast("Any", store), clock, Claims(), Troubles())
    one, workload = entry(None), Workload(cast("Any", None))
    workload.sent[1] = one
    desk._written_at = clock.now() + 60.0
    desk.take_saved(workload, [SavedValue(1, 1, 1, b"a")])
    await desk.write_saved()
    assert desk.unwritten(one) == (1, b"a"), "it is not written yet"


class Refusing:
    """A store that refuses twice what it takes then: an index is being made again."""

    def __init__(self) -> None:
        self.refusals = 2

    async def run(self, steps: Any) -> bool:
        steps.close()
        if self.refusals:
            self.refusals -= 1
            raise StoreError("hint provided does not correspond to an existing index")
        return False


class Noting:
    """A store that notes the first call of what it is asked for, and does nothing."""

    def __init__(self) -> None:
        self.collections: list[str] = []

    async def run(self, steps: Any) -> bool:
        self.collections.append(next(steps).collection)
        steps.close()
        return False


class Listening:
    """A worker that keeps what it is told."""

    def __init__(self) -> None:
        self.told: list[Orders] = []

    def send(self, orders: Orders) -> None:
        self.told.append(orders)


async def test_an_output_that_is_refused_for_a_moment_is_stored_all_the_same() -> None:
    desk = Staging("x", cast("Any", Refusing()), SystemClock(), Claims(), Troubles())
    one, child = entry(StagedRun()), Listening()
    workload = Workload(cast("Any", child))
    workload.sent[1] = one
    assert one.staged is not None
    await desk._keep(workload, one, one.staged, StageOutput(1, 1, 0, "fetch", "1.0", 5, BODY))
    ((answer,),) = [orders.staged for orders in child.told]
    assert (answer.seq, answer.error) == (1, None)


@pytest.mark.parametrize(
    ("size", "inline", "place"),
    [
        (INLINE, 0, JOBS),
        (INLINE + 1, 0, OUTPUTS),
        (INLINE, INLINE_IN_ALL - INLINE, JOBS),
        (INLINE, INLINE_IN_ALL - INLINE + 1, OUTPUTS),
    ],
)
async def test_an_output_is_kept_apart_when_it_or_all_of_them_are_large(
    size: int, inline: int, place: str
) -> None:
    store = Noting()
    desk = Staging("x", cast("Any", store), SystemClock(), Claims(), Troubles())
    run = StagedRun(inline=inline)
    one, workload = entry(run), Workload(cast("Any", Listening()))
    workload.sent[1] = one
    body = bson.encode({"r": b"x" * (size - len(bson.encode({"r": b""})))})
    await desk._keep(workload, one, run, StageOutput(1, 1, 0, "fetch", "1.0", 5, body))
    assert store.collections == [place]
    assert run.inline == inline + (size if place == JOBS else 0)
