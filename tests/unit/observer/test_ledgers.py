"""Failures by their kind, and tasks by what became of their jobs."""

from __future__ import annotations

import pytest

from tests.screens.still import NOW, job, node
from tontine_observer.draw.columns import arrange
from tontine_observer.feed.ledgers import read_failed
from tontine_observer.picture.failures import grouped, signature
from tontine_observer.picture.tasks import task_rows
from tontine_observer.query.filters import parse
from tontine_observer.records.clean import Cleaner
from tontine_observer.records.job import JobList
from tontine_observer.records.ledger import Failed
from tontine_observer.records.request import MOST
from tontine_observer.records.rows import job_row
from tontine_observer.stage.palette import filter_of
from tontine_observer.stage.panes.failures import COLUMNS as FAILURE_COLUMNS


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("upstream 7 did not answer in 30.5 s", "upstream # did not answer in # s"),
        ("order 1,072 at 12:03:11", "order # at #"),
        ("<X object at 0x7f3a>", "<X object at #>"),
        ("user 65a0000000000000000000af", "user #"),
        ("job 123e4567-e89b-12d3-a456-426614174000 lost", "job # lost"),
        ("decade of added beef", "decade of added beef"),
        ("", ""),
    ],
)
def test_numbers_do_not_tell_messages_apart(message: str, wanted: str) -> None:
    assert signature(message) == wanted


def test_failures_are_grouped_counted_and_dated() -> None:
    failed = [
        Failed(number, "t.a", "E", f"no {number}", 100.0 + number) for number in range(MOST + 5)
    ]
    failed += [Failed(1, "t.a", "F", "other", 50.0), Failed(2, "t.b", "E", "no 1", 60.0)]
    waiting = job(2)._replace(task="t.a", error="E: no 12")
    first, *rest = grouped(failed, [waiting, job(3)], 0.0, 2000.0)
    assert (first.task, first.kind, first.message) == ("t.a", "E", "no #")
    assert (first.count, first.first, first.last) == (MOST + 5, 100.0, 1104.0)
    assert first.seqs[0] == MOST + 4
    assert len(first.seqs) == MOST
    assert sum(first.curve) == first.count
    assert first.again == (waiting,)
    assert {(row.task, row.kind) for row in rest} == {("t.a", "F"), ("t.b", "E")}


def test_a_long_error_is_one_kind_whether_it_is_tried_again_or_not() -> None:
    clean = Cleaner()
    error = {"type": "ValueError", "message": "the upstream service answered " * 20}
    document = {"seq": 1, "task": "t.a", "state": "failed", "error": error, "finished_at": NOW}
    waiting = job_row("x", {**document, "seq": 2, "state": "queued"}, clean)
    (row,) = grouped([read_failed(document, clean)], [waiting], 0.0, 2000.0)
    assert (row.count, row.again) == (1, (waiting,))


@pytest.mark.parametrize(
    ("message", "wanted"),
    [
        ("user 7 is gone", "E: user"),
        ("the upstream service answered " * 20, "E: the upstream service answered"),
        ("at \x1b[31mred", "E: at"),
        ("token=abc is old", "E: token="),
        ('no "x" here', "E: no"),
        ("", "E"),
    ],
)
def test_the_jobs_of_a_failure_are_looked_for_by_what_the_store_has(
    message: str, wanted: str
) -> None:
    error = {"type": "E", "message": message}
    document = {"seq": 1, "task": "t.a b, c", "error": error, "finished_at": NOW}
    (row,) = grouped([read_failed(document, Cleaner())], [], 0.0, 2000.0)
    state, task, *rest = parse(filter_of(row)).terms
    assert (state.values, task.values) == (("failed",), ("t.a b, c",))
    for term in rest:
        assert term.values[0].startswith(wanted)
        assert term.values[0].removeprefix("E: ") in message
    assert bool(rest) == bool(message)


def test_a_task_with_a_range_is_had_by_those_with_a_version_inside_it() -> None:
    (version,) = {one.version for one in node(0).modules}
    rows = tuple(
        job(number)._replace(state="queued", task=f"shop.resize@{wanted}")
        for number, wanted in enumerate([f"=={version}", f"!={version}"])
    )
    listed = task_rows(JobList(rows), [node(0)], NOW.timestamp(), None, is_whole=True)
    found = {row.name.partition("@")[2]: row for row in listed}
    assert found[f"=={version}"].nodes == (node(0).name,)
    assert found[f"!={version}"].nodes == ()


def test_a_task_shows_what_waits_what_failed_and_who_has_it() -> None:
    now = NOW.timestamp()
    rows = tuple(job(number) for number in range(70))
    found = {row.name: row for row in task_rows(JobList(rows), [node(0)], now, None, is_whole=True)}
    assert set(found) == {"shop.mail", "shop.report", "shop.resize"}
    mine = [row for row in rows if row.task == "shop.resize"]
    ended = [row for row in mine if not row.is_open]
    task = found["shop.resize"]
    assert task.queued == sum(row.state == "queued" for row in mine)
    first = min(row.created_at or now for row in rows)
    assert task.rate == pytest.approx(len(ended) / min(600, now - first))
    assert task.failing == sum(row.state == "failed" for row in ended) / len(ended)
    assert task.run_p50 == pytest.approx(2.2)
    assert task.wait_p50 == pytest.approx(1.0)
    assert (task.nodes, task.versions) == (("node-00",), ("1.2.0",))
    assert found["shop.report"].nodes == ()


def test_rates_are_of_the_time_in_which_every_end_was_heard_of() -> None:
    now = NOW.timestamp()
    ended = tuple(
        job(0)._replace(id=str(number), seq=number, finished_at=now - 10 * number)
        for number in range(100)
    )
    listed = JobList(ended, is_complete=False, is_whole=False, ended_since=now - 55)
    (task,) = task_rows(listed, [], now, {}, is_whole=True)
    assert task.rate == pytest.approx(6 / 55)
    listed = JobList(ended, is_complete=False, is_whole=False, ended_since=now)
    (task,) = task_rows(listed, [], now, {ended[0].task: 1}, is_whole=True)
    assert (task.rate, task.failing) == (None, None)


def test_where_not_all_queued_jobs_are_known_the_stores_count_is_shown() -> None:
    listed = JobList((job(2),), is_complete=False, is_whole=False)
    queued = {"shop.report": 12_345, "x.y": 3}
    rows = task_rows(listed, [], NOW.timestamp(), queued, is_whole=False)
    assert {row.name: row.queued for row in rows} == queued
    assert all(row.is_partial for row in rows)
    rows = task_rows(listed, [], NOW.timestamp(), None, is_whole=True)
    assert [row.queued for row in rows] == [None]


@pytest.mark.parametrize("started_at", [None, 1900.0])
def test_jobs_that_are_tried_again_have_no_moment_of_failing(started_at: float | None) -> None:
    waiting = job(2)._replace(task="t.a", error="E: no 12", started_at=started_at)
    failed = [Failed(1, "t.b", "F", "other", 50.0)]
    first, second = grouped(failed, [waiting], 0.0, 2000.0)
    assert (first.task, first.last) == ("t.b", 50.0)
    assert (second.task, second.first, second.last) == ("t.a", None, None)


def test_rates_of_a_young_queue_are_of_its_age() -> None:
    now = NOW.timestamp()
    ended = [
        job(0)._replace(seq=number, state="done", created_at=now - 50, finished_at=now - 20)
        for number in range(100)
    ]
    (task,) = task_rows(JobList(tuple(ended), is_whole=True), [], now, None, is_whole=True)
    assert task.rate == pytest.approx(2.0)


def test_on_a_small_screen_an_error_has_most_of_the_room() -> None:
    widths = {place.column.name: place.width for place in arrange(FAILURE_COLUMNS, 76)}
    assert widths["error"] >= 28
    assert widths["error"] > widths["task"] + 10
