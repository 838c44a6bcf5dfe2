"""Which worker gets what."""

from __future__ import annotations

from typing import Any, cast

import pytest

from tontine.clock import SystemClock
from tontine.store.settle import Outcome
from tontine_node.board import Board
from tontine_node.child import Child
from tontine_node.config import NodeConfig
from tontine_node.supervisor import Supervisor, TaskFacts
from tontine_node.table import Entry, Table


class Ears:
    """The master's end of the line to a worker that never answers."""

    def is_closing(self) -> bool:
        return False

    def write(self, frame: bytes) -> None: ...


class Crashed:
    returncode = 7


def entry(seq: int, task: str) -> Entry:
    return Entry(seq, 1, 0.0, task)


@pytest.fixture
def outcomes() -> list[Outcome]:
    return []


@pytest.fixture
async def supervisor(outcomes: list[Outcome]) -> Any:
    """Two workers of one slot each, a plain task and one that must not run twice."""
    config = NodeConfig(modules=("m",), name="n", processes=2, slots=1)
    board = Board.create(2, 1)
    supervisor = Supervisor(config, SystemClock(), board, Table(), outcomes.append, lambda: None)
    for index in range(2):
        child = Child(index, cast("Any", Crashed()), cast("Any", None), cast("Any", Ears()), is_ready=True)
        supervisor.children[index] = child
    supervisor.tasks = {
        name: TaskFacts(on_lost, is_async=False, timeout=None, max_attempts=1, delays=[])
        for name, on_lost in (("plain", "retry"), ("careful", "fail"))
    }
    yield supervisor
    board.close()


def sent(supervisor: Supervisor) -> list[list[int]]:
    return [sorted(child.sent) for child in supervisor.children.values()]


async def test_a_job_that_must_not_run_twice_goes_only_where_a_slot_is_free(supervisor: Supervisor) -> None:
    supervisor.offer([entry(seq, "careful") for seq in (1, 2, 3)])
    assert sent(supervisor) == [[1], [2]]
    assert [held.seq for held in supervisor.held] == [3]


async def test_others_are_sent_ahead_past_it(supervisor: Supervisor) -> None:
    supervisor.offer([entry(1, "careful"), entry(2, "careful"), entry(3, "careful"), entry(4, "plain")])
    assert sorted(map(len, sent(supervisor))) == [1, 2]
    assert [held.seq for held in supervisor.held] == [3]


async def test_a_crash_fails_only_the_one_that_had_begun(supervisor: Supervisor, outcomes: list[Outcome]) -> None:
    supervisor.offer([entry(1, "careful"), entry(2, "careful")])
    supervisor.board.started(0, 0, 1, 0.0)
    supervisor._bury(supervisor.children[0])
    assert [(one.kind, one.seq, one.final) for one in outcomes] == [("lost", 1, True)]
    assert sent(supervisor) == [[2]]
