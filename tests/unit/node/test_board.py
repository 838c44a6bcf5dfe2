"""The memory between a master and its workers: what one writes the other sees, without a
message."""

from __future__ import annotations

import os
import tempfile
from collections.abc import Iterator
from pathlib import Path

import pytest

from tontine.errors import ConfigError
from tontine_node.running.board import Board, Past, SlotRun

PROCESSES, SLOTS = 3, 2


@pytest.fixture
def master() -> Iterator[Board]:
    board = Board.create(PROCESSES, SLOTS)
    yield board
    board.close()


@pytest.fixture
def worker(master: Board) -> Iterator[Board]:
    """The same memory, opened as a worker opens it: by the number of the file."""
    board = Board(os.dup(master.fd), PROCESSES, SLOTS)
    yield board
    board.close()


def test_a_new_board_shows_no_lease_and_nothing_running(master: Board) -> None:
    assert master.deadline == 0.0
    assert [list(master.running(index)) for index in range(PROCESSES)] == [[], [], []]


def test_a_worker_sees_each_deadline_of_its_master(master: Board, worker: Board) -> None:
    for until in (1.5, 1e9, 0.0, 123456.789):
        master.deadline = until
        assert worker.deadline == until


def test_a_master_sees_what_a_worker_runs_and_since_when(master: Board, worker: Board) -> None:
    worker.started(1, 0, 2**62, 10.5)
    worker.started(1, 1, 7, 11.25)
    assert list(master.running(1)) == [SlotRun(2**62, 10.5), SlotRun(7, 11.25)]
    assert list(master.running(0)) == []
    assert list(master.running(2)) == []


def test_what_has_ended_is_not_running(master: Board, worker: Board) -> None:
    worker.started(1, 0, 5, 1.0)
    worker.started(1, 1, 6, 2.0)
    worker.ended(1, 0)
    assert list(master.running(1)) == [SlotRun(6, 2.0)]
    worker.started(1, 0, 8, 3.0)
    worker.ended(1, 1)
    assert list(master.running(1)) == [SlotRun(8, 3.0)]


def test_what_a_worker_ran_outlives_it(master: Board) -> None:
    worker = Board(os.dup(master.fd), PROCESSES, SLOTS)
    worker.started(2, 1, 99, 1.0)
    worker.close()
    assert list(master.running(2)) == [SlotRun(99, 1.0)]


def test_clearing_a_worker_leaves_the_others(master: Board, worker: Board) -> None:
    for index in range(PROCESSES):
        for slot in range(SLOTS):
            worker.started(index, slot, 10 * index + slot + 1, 1.0)
    worker.deadline = 9.0
    master.clear(1)
    assert [len(list(worker.running(index))) for index in range(PROCESSES)] == [2, 0, 2]
    assert worker.deadline == 9.0


def test_two_masters_have_boards_of_their_own(master: Board) -> None:
    other = Board.create(PROCESSES, SLOTS)
    other.deadline = 5.0
    other.started(0, 0, 1, 1.0)
    assert master.deadline == 0.0
    assert list(master.running(0)) == []
    other.close()


def test_the_board_has_no_name_that_could_be_left_behind(master: Board) -> None:
    assert os.fstat(master.fd).st_nlink == 0


def test_what_was_begun_is_counted_and_the_last_of_each_slot_remembered(
    master: Board, worker: Board
) -> None:
    assert master.past(1) == Past(0, frozenset())
    for seq in (5, 6):
        worker.started(1, 0, seq, 1.0)
        worker.ended(1, 0)
    worker.started(1, 1, 7, 1.0)
    assert master.past(1) == Past(3, frozenset({6, 7}))
    assert master.past(0) == master.past(2) == Past(0, frozenset())
    master.clear(1)
    assert worker.past(1) == Past(0, frozenset())


def test_only_a_worker_that_says_so_ended_at_the_deadline(master: Board, worker: Board) -> None:
    worker.started(1, 0, 5, 1.0)
    assert not any(master.ended_at_deadline(index) for index in range(PROCESSES))
    worker.mark_deadline(1)
    assert [master.ended_at_deadline(index) for index in range(PROCESSES)] == [False, True, False]
    assert list(master.running(1)) == [SlotRun(5, 1.0)]
    master.clear(1)
    assert not master.ended_at_deadline(1)


def test_what_a_fork_of_a_worker_writes_nobody_sees(master: Board, worker: Board) -> None:
    master.deadline = 7.0
    worker.started(0, 0, 5, 1.0)
    worker.detach()
    worker.ended(0, 0)
    worker.started(0, 1, 6, 1.0)
    assert worker.deadline == 7.0
    assert list(master.running(0)) == [SlotRun(5, 1.0)]


def test_a_system_without_a_place_for_temporary_files_is_told_in_one_line(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(tempfile, "tempdir", None)
    monkeypatch.setattr(tempfile, "_candidate_tempdir_list", lambda: [str(tmp_path / "nowhere")])
    with pytest.raises(ConfigError, match="mount one at /tmp, or name one with TMPDIR"):
        Board.create(PROCESSES, SLOTS)
