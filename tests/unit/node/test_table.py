"""The local table: the only licence to run a job."""

from __future__ import annotations

import pytest

from tontine_node.table import Entry, Status, Table


def entry(seq: int, attempt: int = 1, status: Status = Status.PENDING) -> Entry:
    return Entry(seq, attempt, 0.0, "t.t", status=status)


@pytest.fixture
def table() -> Table:
    table = Table()
    for seq, status in enumerate(Status, start=1):
        table.enter(entry(seq, attempt=2, status=status))
    return table


def test_who_waits_for_something_to_come_in_is_told_of_the_first_only() -> None:
    told: list[str] = []
    table = Table(lambda: told.append("filled"))
    for seq in (1, 2):
        table.enter(entry(seq))
    assert len(told) == 1
    table.drop(1)
    table.enter(entry(1))
    assert len(told) == 1, "it was not empty"
    table.drop(1)
    table.drop(2)
    table.enter(entry(3))
    assert len(told) == 2


def test_an_entry_starts_as_pending() -> None:
    assert Entry(1, 1, 0.0, "t.t").status is Status.PENDING


def test_every_status_is_a_licence_pending_included(table: Table) -> None:
    assert all(table.licensed(entry.seq, 2) for entry in table)
    assert {entry.status for entry in table} == set(Status)


def test_another_attempt_is_not_licensed(table: Table) -> None:
    assert not any(table.licensed(entry.seq, attempt) for entry in table for attempt in (1, 3))
    assert not table.licensed(99, 2)


def test_a_dropped_job_is_not_licensed_and_dropping_it_again_is_harmless(table: Table) -> None:
    for _ in range(2):
        table.drop(3)
        assert 3 not in table
        assert not table.licensed(3, 2)
    assert len(table) == len(Status) - 1


def test_a_new_attempt_takes_the_place_of_the_old_one(table: Table) -> None:
    table.enter(entry(1, attempt=5))
    assert table.licensed(1, 5)
    assert not table.licensed(1, 2)
    assert len(table) == len(Status)


@pytest.mark.parametrize("status", list(Status))
def test_entries_are_found_by_their_status(table: Table, status: Status) -> None:
    (found,) = table.having(status)
    assert found is table.get(found.seq)
    found.status = Status.RESULT if status is not Status.RESULT else Status.HELD
    assert table.having(status) == []


def test_the_table_can_change_while_it_is_walked(table: Table) -> None:
    for one in table:
        table.drop(one.seq)
        table.enter(entry(one.seq + 100))
    assert sorted(one.seq for one in table) == [seq + 100 for seq in range(1, len(Status) + 1)]


def test_a_table_that_holds_too_many_bytes_says_when_it_no_longer_does() -> None:
    told: list[str] = []
    table = Table(most_bytes=100, eased=lambda: told.append("eased"))
    first, second = entry(1), entry(2)
    first.raw, second.raw = b"x" * 60, b"x" * 30
    table.enter(first)
    table.enter(second)
    assert (table.bytes, table.is_full) == (90, False)
    table.grow(first, 15)
    assert (table.bytes, table.is_full) == (105, True)
    table.drop(2)
    assert (table.bytes, table.is_full, told) == (75, False, ["eased"])
    table.enter(entry(1))
    assert table.bytes == 0, "what takes the place of another takes its bytes, too"


def test_bytes_limit_how_many_more_there_is_room_for_but_one_job_of_any_size_always_fits_alone() -> None:
    table = Table(most_bytes=100)
    assert table.affordable([200, 10]) == 1
    assert table.affordable([60, 40, 1]) == 2
    one = entry(1)
    one.raw = b"x" * 70
    table.enter(one)
    assert table.affordable([20, 10, 1]) == 2
    assert table.affordable([31]) == 0


def test_what_is_being_given_back_cannot_be_claimed_until_that_is_known_to_have_landed(table: Table) -> None:
    assert not table.may_claim(1)
    assert table.may_claim(50)
    table.give_back([50, 51])
    assert not table.may_claim(50)
    table.give_back([51])
    assert (table.may_claim(50), table.may_claim(51)) == (True, False)
    table.give_back(())
    assert table.may_claim(51)
