"""Which worker gets what."""

from __future__ import annotations

import asyncio
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.eventually import eventually_async
from tontine.clock import SystemClock
from tontine.records.job import SUSPECT
from tontine.store.raw import Raw
from tontine.store.settle import Outcome
from tontine.verdict import NoResult
from tontine_node.claiming.choice import Choice
from tontine_node.claiming.taker import Taker
from tontine_node.claims import Claims, Entry, Status
from tontine_node.config import ContextConfig, NodeConfig
from tontine_node.membership.fence import Fence
from tontine_node.running.board import Board
from tontine_node.running.contexts import Contexts
from tontine_node.running.described import serving
from tontine_node.running.dispatch import Dispatcher
from tontine_node.running.limits import Limits
from tontine_node.running.pipe import (
    AttemptEnded,
    BrokenModules,
    Hello,
    Phase,
    ProgressSaid,
    Reports,
    Returned,
    SavedValue,
    Submit,
    TaskFacts,
)
from tontine_node.running.pool import Child
from tontine_node.running.staging import Staging
from tontine_node.running.workload import Workload
from tontine_node.telling.troubles import Troubles


class Ears:
    """The master's end of the line to a worker that never answers."""

    def is_closing(self) -> bool:
        return False

    def write(self, frame: bytes) -> None: ...

    def close(self) -> None: ...

    def get_extra_info(self, name: str) -> None: ...


class Gone:
    """A process that the test ends, or does not."""

    def __init__(self) -> None:
        self.pid = id(self)
        self.returncode = 7
        self.ended = asyncio.Event()

    def kill(self) -> None: ...


TASKS = {
    name: TaskFacts(on_lost, is_async=False, timeout=None, max_attempts=1, delays=[])
    for name, on_lost in (("plain", "retry"), ("careful", "fail"))
}


def new_child(index: int) -> Child:
    return Child(
        index, cast("Any", Gone()), asyncio.StreamReader(), cast("Any", Ears()), is_ready=True
    )


def hello(*tasks: str, version: str = "1", digest: str = "") -> Reports:
    """What a worker says that has these tasks."""
    named = tasks or tuple(TASKS)
    module = {"name": "m", "version": version, "digest": digest, "tasks": sorted(named)}
    return Reports(hello=[Hello([module], {name: TASKS.get(name, TaskFacts()) for name in named})])


def add_worker(dispatcher: Dispatcher, index: int) -> None:
    child = new_child(index)
    child.number = dispatcher.pool.generations.wanted
    dispatcher.pool.children[index] = child
    dispatcher.started(child)
    dispatcher.pool.take(child, hello())


def entry(seq: int, task: str) -> Entry:
    return Entry(seq, 1, 0.0, task)


@pytest.fixture
def outcomes() -> list[Outcome]:
    return []


@pytest.fixture
async def dispatcher(outcomes: list[Outcome]) -> Any:
    """Two workers of one slot each, a plain task and one that must not run twice."""
    config = NodeConfig(modules=("m",), name="n", processes=2, slots=1)
    board = Board.create(3, 1)
    dispatcher = Dispatcher(
        config,
        config.contexts[0],
        SystemClock(),
        board,
        Claims(),
        outcomes.append,
        Troubles(),
    )
    for index in range(2):
        add_worker(dispatcher, index)
    yield dispatcher
    for keeper in dispatcher.pool._keepers.values():
        keeper.cancel()
    board.close()


def sent(dispatcher: Dispatcher) -> list[list[int]]:
    return [sorted(workload.sent) for workload in dispatcher.workloads.values()]


async def test_a_job_that_must_not_run_twice_goes_only_where_a_slot_is_free(
    dispatcher: Dispatcher,
) -> None:
    dispatcher.offer([entry(seq, "careful") for seq in (1, 2, 3)])
    assert sent(dispatcher) == [[1], [2]]
    assert [held.seq for held in dispatcher.held] == [3]


async def test_what_a_fence_ends_has_what_it_saved_whichever_context_it_ran_in(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    clock, store = SystemClock(), cast("Any", None)
    dispatcher.staging = Staging("x", store, clock, dispatcher.claims, Troubles())
    killed = Entry(1, 1, 0.0, "elsewhere.saves", status=Status.KILLED)
    dispatcher.claims.enter(killed)
    workload = Workload(new_child(0))
    workload.sent[1] = killed
    dispatcher.staging.take_saved(workload, [SavedValue(1, 1, 3, b"page 7")])
    contexts = Contexts.__new__(Contexts)
    contexts.dispatchers = [dispatcher]
    beat = cast("Any", SimpleNamespace(failed_since_renewal=True))
    Fence(clock, beat, dispatcher.claims, contexts).release_killed()
    assert [(one.kind, one.saved) for one in outcomes] == [("released", (3, b"page 7"))]


async def test_it_goes_nowhere_before_the_record_says_so(dispatcher: Dispatcher) -> None:
    noted: set[str] = set()
    dispatcher.is_noted = noted.__contains__
    dispatcher.offer([entry(1, "careful"), entry(2, "plain")])
    assert sent(dispatcher) == [[2], []]
    noted.add("careful")
    dispatcher.dispatch()
    assert sent(dispatcher) == [[2], [1]]


async def test_what_may_be_claimed_is_noted_and_its_states_were_read(
    dispatcher: Dispatcher,
) -> None:
    noted: set[str] = set()
    choice = Choice(Claims(), dispatcher, noted.__contains__, lambda: ["careful@>=1", "plain@>=2"])
    assert choice.open_keys() == {"plain"}
    noted.add("careful@>=1")
    assert choice.open_keys() == {"plain", "careful@>=1"}
    dispatcher.unread = lambda: frozenset({"plain"})
    assert choice.open_keys() == {"careful@>=1"}


@pytest.mark.parametrize("task", ["plain", "gone", "plain@>=2", "careful"])
async def test_a_suspect_is_claimed_like_others_only_if_its_task_may_be(
    dispatcher: Dispatcher, task: str
) -> None:
    """One whose task was just dropped would be claimed and given back, and one that must not run
    twice could (MI2, MO7)."""
    asked: list[Any] = []

    class Asked:
        async def run(self, steps: Any, *, causal: bool) -> set[int]:
            asked.append(steps)
            return set()

    claims, clock = dispatcher.claims, dispatcher.clock
    choice = Choice(claims, dispatcher, lambda _: False, list)
    rest: Any = (dispatcher, None, choice, Troubles(), lambda: True, lambda _: None)
    taker = Taker("n", cast("Any", Asked()), clock, claims, *rest)
    await taker.take([Raw({"seq": 1, "task": task, "attempt": 2, "lost": SUSPECT}, b"{}")])
    assert len(asked) == (task == "plain")
    assert choice.passed_over is (task != "plain"), "it is looked for again"


async def test_others_are_sent_ahead_past_it(dispatcher: Dispatcher) -> None:
    dispatcher.offer(
        [entry(1, "careful"), entry(2, "careful"), entry(3, "careful"), entry(4, "plain")]
    )
    assert sorted(map(len, sent(dispatcher))) == [1, 2]
    assert [held.seq for held in dispatcher.held] == [3]


async def test_one_that_may_not_start_late_is_checked_for_a_free_slot_by_the_server_s_time(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    now = datetime(2026, 1, 1, tzinfo=UTC)
    dispatcher.server_now = lambda: now
    entries = [entry(seq, "plain") for seq in (1, 2, 3, 4)]
    for one, seconds in zip(entries, (-1, 60, 60, 60), strict=True):
        one.start_by = now.timestamp() + seconds
    dispatcher.offer(entries)
    assert kinds(outcomes) == {1: "late"}
    assert sent(dispatcher) == [[2], [3]], "none is sent ahead of a slot"
    now += timedelta(seconds=61)
    end_of = dispatcher.workloads[0].sent.pop(2)
    dispatcher.dispatch()
    assert kinds(outcomes) == {1: "late", 4: "late"}, "it waited here for too long"
    assert end_of.seq == 2


async def test_without_a_beat_nobody_knows_the_server_s_time_and_the_store_decides(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    one = entry(1, "plain")
    one.start_by = datetime(2026, 1, 1, tzinfo=UTC).timestamp()
    dispatcher.offer([one])
    assert sent(dispatcher) == [[1], []]
    dispatcher.pool.children[0].kill_reason = "it is replaced"
    dispatcher.pool._bury(dispatcher.pool.children[0])
    assert [(one.kind, one.begun) for one in outcomes] == [("released", True)], (
        "it may have begun, so it was in time"
    )


async def test_a_crash_fails_only_the_one_that_had_begun(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    dispatcher.offer([entry(1, "careful"), entry(2, "careful")])
    dispatcher.board.started(0, 0, 1, 0.0)
    dispatcher.pool._bury(dispatcher.pool.children[0])
    assert [(one.kind, one.seq, one.final) for one in outcomes] == [("lost", 1, True)]
    assert sent(dispatcher) == [[2]]


async def until(check: Callable[[], bool]) -> None:
    async def look() -> bool:
        return check()

    await eventually_async(look)


def end(child: Child) -> None:
    child.process.ended.set()
    child.reader.feed_eof()


def kinds(outcomes: list[Outcome]) -> dict[int, str]:
    return {one.seq: one.kind for one in outcomes}


def crash(dispatcher: Dispatcher, orders: list[int], begun: list[int]) -> None:
    """A worker of one slot gets these orders, begins some of them and crashes before it reports on
    any."""
    if 0 not in dispatcher.workloads:
        add_worker(dispatcher, 0)
    for seq in orders:
        dispatcher.workloads[0].sent[seq] = entry(seq, "plain")
    for seq in begun:
        dispatcher.board.started(0, 0, seq, 0.0)
        dispatcher.board.ended(0, 0)
    dispatcher.pool._bury(dispatcher.pool.children[0])


async def test_a_job_that_ends_its_worker_right_after_it_returned_is_lost(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    crash(dispatcher, [1, 2, 3], begun=[1, 2])
    assert kinds(outcomes) == {1: "released", 2: "lost", 3: "released"}


async def test_one_that_had_returned_before_is_spared_twice(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    """What it left running may have ended the worker, or its neighbour did, which is claimed alone
    from then on."""
    for neighbour in (2, 3, 4):
        crash(dispatcher, [1, neighbour, 9], begun=[1, neighbour])
    assert [one.kind for one in outcomes if one.seq == 1] == ["released", "released", "lost"]
    assert {one.kind for one in outcomes if one.seq == 9} == {"released"}, "it never began"


async def test_an_exit_code_is_no_excuse(dispatcher: Dispatcher, outcomes: list[Outcome]) -> None:
    dispatcher.pool.children[0].process.returncode = 75
    crash(dispatcher, [1], begun=[1])
    assert kinds(outcomes) == {1: "lost"}


async def test_what_a_worker_ran_that_ended_itself_at_the_deadline_is_not_to_blame(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    dispatcher.board.mark_deadline(0)
    crash(dispatcher, [1, 2], begun=[1])
    assert not outcomes, "it is given back when the lease is back"


async def test_no_order_goes_out_between_a_recall_and_its_answer(dispatcher: Dispatcher) -> None:
    """Or nobody could tell after a crash which of the orders had begun."""
    for workload in dispatcher.workloads.values():
        workload.recall()
    dispatcher.offer([entry(1, "plain")])
    assert sent(dispatcher) == [[], []]
    dispatcher.heard(dispatcher.pool.children[1], Reports(returned=[Returned([])]))
    assert sent(dispatcher) == [[], [1]]


async def test_workers_that_sigkill_does_not_end_are_left_and_keep_their_jobs(
    dispatcher: Dispatcher, outcomes: list[Outcome], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tontine_node.running.pool.END_WITHIN", 0.1)
    dispatcher.pool.children.clear()
    dispatcher.workloads.clear()

    async def spawn(index: int, config: NodeConfig, context: ContextConfig, board: Board) -> Child:
        return new_child(index)

    dispatcher.pool.spawn = spawn
    dispatcher.pool.keep_workers()
    await until(lambda: len(dispatcher.pool.children) == 2)
    stuck, other = dispatcher.pool.children.values()
    dispatcher.workloads[stuck.index].sent[1] = entry(1, "plain")
    dispatcher.workloads[other.index].sent[2] = entry(2, "plain")
    end(other)
    assert await dispatcher.pool.kill_all("the node stops") == [stuck.process.pid]
    assert kinds(outcomes) == {2: "released"}
    assert "SIGKILL" in dispatcher.pool._troubles.to_document()[0]["why"]
    dispatcher.pool.keep_workers()
    await until(lambda: len(dispatcher.pool.children) == 2)
    assert dispatcher.pool.children[stuck.index] is stuck, (
        "nobody takes its place before it has ended"
    )
    end(stuck)
    await until(lambda: dispatcher.pool.children.get(stuck.index) not in (stuck, None))
    assert kinds(outcomes) == {1: "released", 2: "released"}


async def test_a_worker_that_cannot_be_started_is_tried_again_and_again(
    dispatcher: Dispatcher, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tontine_node.running.process.PAUSE", 0.001)
    dispatcher.pool.children.clear()
    dispatcher.workloads.clear()
    failures = iter(
        [OSError(24, "Too many open files"), RuntimeError("can't start new thread"), MemoryError()]
        * 2
    )

    async def spawn(index: int, config: NodeConfig, context: ContextConfig, board: Board) -> Child:
        if error := next(failures, None):
            raise error
        return new_child(index)

    dispatcher.pool.spawn = spawn
    dispatcher.pool.keep_workers()  # also the first time that is waited out
    await until(lambda: len(dispatcher.pool.children) == 2)
    (trouble,) = dispatcher.pool._troubles.to_document()
    assert (trouble["what"], trouble["times"]) == ("workers", 6)
    hello = Reports(hello=[Hello([], {})])
    for child in dispatcher.pool.children.values():
        assert dispatcher.pool._troubles
        dispatcher.pool.take(child, hello)
    assert not dispatcher.pool._troubles


async def test_requests_of_tasks_come_before_the_ends_in_their_frame_and_each_gets_its_body(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    workload = dispatcher.workloads[0]
    workload.sent = {1: entry(1, "plain"), 2: entry(2, "plain")}
    asked: list[Any] = []
    dispatcher.take_requests = lambda workload, requests: asked.append(
        (sorted(workload.sent), requests)
    )
    head = {"done": [[1], [0.1], [3]], "submit": [[1, 2, 1, 6]]}
    dispatcher.heard(workload.child, Reports.unpack(head, b"one" + b"asking"))
    assert asked == [([1, 2], [Submit(1, 2, 1, b"asking")])]
    assert [outcome.result for outcome in outcomes] == [b"one"]


async def test_what_a_task_said_last_goes_with_its_outcome(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    dispatcher.offer([entry(seq, "careful") for seq in (1, 2)])  # one for each
    (first, second) = dispatcher.pool.children.values()
    dispatcher.heard(first, Reports(progress=[ProgressSaid(1, 0.5, "half")]))
    said = [ProgressSaid(1, 0.67, "most"), ProgressSaid(2, 0.1, "not its own")]
    dispatcher.heard(first, Reports(done=[(1, 0.1, b"")], progress=said))
    dispatcher.heard(second, Reports(ended=[AttemptEnded(2, 0.1, NoResult("failed", "E", "m"))]))
    assert [(one.seq, one.progress) for one in outcomes] == [(1, (0.67, "most")), (2, None)]
    assert not dispatcher.said.progress


@pytest.mark.parametrize(("retries", "kind"), [(True, "retry"), (False, "failed")])
async def test_a_task_says_whether_it_is_tried_again_when_it_ran_too_long(
    dispatcher: Dispatcher, outcomes: list[Outcome], retries: bool, kind: str
) -> None:
    for child in dispatcher.pool.children.values():
        assert child.hello is not None
        child.hello.tasks["plain"] = TaskFacts("retry", False, 0.5, 3, [1.0, 2.0], retries)
    dispatcher.offer([entry(1, "plain")])
    child = next(workload.child for workload in dispatcher.workloads.values() if workload.sent)
    dispatcher.board.started(child.index, 0, 1, dispatcher.clock.now() - 60)
    Limits([dispatcher], dispatcher.clock).look()
    assert not outcomes, "the worker may still run it"
    dispatcher.pool._bury(child)
    assert [(one.kind, one.delay) for one in outcomes] == [(kind, 1.0 if retries else 0.0)]


def say(dispatcher: Dispatcher, index: int, reports: Reports, order: int) -> Child:
    """A worker is started in a place, and says what it has."""
    child = new_child(index)
    child.is_ready, child.number = False, dispatcher.pool.generations.wanted
    child.order = order
    dispatcher.pool.children[index] = child
    dispatcher.started(child)
    dispatcher.pool.take(child, reports)
    return child


async def test_a_worker_with_newer_code_gets_all_new_jobs_and_the_others_end(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    old = dispatcher.pool.children[0]
    dispatcher.offer([entry(1, "plain")])
    assert sent(dispatcher) == [[1], []]
    say(dispatcher, 2, hello("plain", "new", version="2"), order=9)
    assert dispatcher.workloads[0].is_retiring
    assert dispatcher.pool.children[1].kill_reason, "it had nothing to do"
    assert not old.kill_reason, "it runs a job"
    dispatcher.offer([entry(2, "new"), entry(3, "plain")])
    assert sent(dispatcher) == [[1], [], [2, 3]]
    dispatcher.heard(old, Reports(done=[(1, 0.1, b"")]))
    assert old.kill_reason
    assert kinds(outcomes) == {1: "done"}


async def test_a_context_whose_new_workers_died_is_not_ready_because_an_old_one_still_works(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    """Reloaded during a long job, and the new code cannot be loaded a second time."""
    dispatcher.offer([entry(1, "plain")])
    new = say(dispatcher, 2, hello(version="2"), order=9)
    assert dispatcher.pool.is_ready
    dispatcher.pool._bury(new)
    loading = new_child(2)
    loading.is_ready, loading.number = False, dispatcher.pool.generations.wanted
    dispatcher.pool.children[2] = loading
    dispatcher.started(loading)
    assert sorted(dispatcher.workloads[0].sent) == [1], "it runs as long as it takes"
    assert (dispatcher.pool.ready, dispatcher.pool.newest, dispatcher.room()) == (0, None, 0)
    assert serving(dispatcher).is_ready is False


async def test_a_worker_that_is_worn_is_no_reason_to_leave_the_offer(
    dispatcher: Dispatcher,
) -> None:
    """One like it comes after it."""
    dispatcher.offer([entry(1, "plain"), entry(2, "plain")])
    for workload in dispatcher.workloads.values():
        workload.retire()
    assert serving(dispatcher).is_ready
    assert dispatcher.room() <= 0


async def test_nothing_is_claimed_for_a_worker_that_still_loads(dispatcher: Dispatcher) -> None:
    with_both = dispatcher.room()
    dispatcher.pool.children[1].is_ready = False
    assert dispatcher.room() < with_both


async def test_workers_that_get_jobs_have_one_code_also_while_others_are_asked_for(
    dispatcher: Dispatcher,
) -> None:
    """A worker was replaced after the files changed, and new ones were asked for before it was
    ready: it has the number of the others, and is not like them (MI3)."""
    late = new_child(2)
    late.number, late.order = dispatcher.pool.generations.wanted, 3
    dispatcher.pool.children[2] = late
    dispatcher.started(late)
    dispatcher.pool.generations.ask()
    dispatcher.pool.take(late, hello(version="2"))
    working = [one for one in dispatcher.workloads.values() if one.can_work]
    assert [one.child for one in working] == [late]
    dispatcher.offer([entry(1, "plain@>=2"), entry(2, "plain@>=2"), entry(3, "plain@<2")])
    assert set(working[0].sent) | {one.seq for one in dispatcher.held} == {1, 2}


async def test_what_is_held_and_newer_code_lacks_goes_back(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    dispatcher.offer([entry(seq, "careful") for seq in (1, 2, 3)])
    say(dispatcher, 2, hello("plain", version="2"), order=9)
    assert kinds(outcomes) == {3: "released"}
    dispatcher.offer([entry(4, "careful")])
    assert kinds(outcomes) == {3: "released", 4: "released"}, "a claim that came late"
    assert dispatcher.careful_tasks == ["careful"], "as long as an old worker has it"
    dispatcher.pool._bury(dispatcher.pool.children[0])
    assert kinds(outcomes)[1] == "lost", "by what its own worker said of it"


async def test_an_unknown_task_is_no_fault_of_the_job_and_ends_its_worker(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    refused = NoResult("refused", "UnknownTask", "no module here has it")
    dispatcher.offer([entry(1, "plain")])
    child = dispatcher.pool.children[0]
    dispatcher.heard(child, Reports(ended=[AttemptEnded(1, 0.0, refused)]))
    assert [(one.seq, one.kind, one.begun) for one in outcomes] == [(1, "released", False)]
    assert child.kill_reason, "it is replaced"
    assert "plain" in dispatcher.tasks
    dispatcher.offer([entry(2, "plain")])
    other = dispatcher.pool.children[1]
    dispatcher.heard(other, Reports(ended=[AttemptEnded(2, 0.0, refused)]))
    assert list(dispatcher.tasks) == ["careful"], "twice within a minute"
    assert "failed" not in kinds(outcomes).values()
    say(dispatcher, 2, hello(), order=9)
    assert list(dispatcher.tasks) == ["careful"], "the same code once more"
    say(dispatcher, 0, hello(digest="mended"), order=10)
    assert sorted(dispatcher.tasks) == ["careful", "plain"]


async def test_what_is_dropped_is_taken_back_from_workers_and_comes_back_when_it_is_wanted(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    dispatcher.offer([entry(seq, "careful") for seq in (1, 2, 3)] + [entry(4, "plain")])
    dispatcher.drop(frozenset({"m"}))
    assert dispatcher.tasks == {}
    assert kinds(outcomes) == {3: "released"}
    for workload in list(dispatcher.workloads.values()):
        assert workload.recalls == 1
        begun, *rest = sorted(workload.sent)
        dispatcher.board.started(workload.child.index, 0, begun, 0.0)
        dispatcher.heard(workload.child, Reports(returned=[Returned(rest)]))
    assert kinds(outcomes) == {3: "released", 4: "released"}
    dispatcher.drop(frozenset())
    assert sorted(dispatcher.tasks) == ["careful", "plain"]


async def test_a_range_is_served_by_versions_inside_it_only(
    dispatcher: Dispatcher, outcomes: list[Outcome]
) -> None:
    dispatcher.offer([entry(1, "plain@>=1,<2"), entry(2, "plain@>=2")])
    assert sent(dispatcher) == [[1], []]
    assert kinds(outcomes) == {2: "released"}


async def test_a_connection_that_cannot_be_opened_is_no_reason_to_give_up(
    outcomes: list[Outcome],
) -> None:
    """MC3: only what cannot be loaded ends a node at its start; before, the third failure did."""
    config = NodeConfig(modules=("m",), name="n")
    board = Board.create(2, 1)
    context = config.contexts[0]
    dispatcher = Dispatcher(
        config, context, SystemClock(), board, Claims(), outcomes.append, Troubles()
    )
    pool = dispatcher.pool
    phases: tuple[Phase, ...] = ("connection", "configure")
    for phase in phases * 3:
        child = new_child(0)
        dispatcher.started(child)
        pool.take(child, Reports(broken=[BrokenModules("no server", phase)]))
    assert (pool.crashes, pool.last_crash, pool.refusal) == (6, "no server", "")
    pool.take(child, Reports(broken=[BrokenModules("no module", "import")]))
    assert pool.refusal == "no module"
    board.close()
