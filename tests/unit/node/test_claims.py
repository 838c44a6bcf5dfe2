"""The table of claims: the only licence to run a job."""

from __future__ import annotations

import pytest

from tontine_node.claims import Claims, Entry, Status


def entry(seq: int, attempt: int = 1, status: Status = Status.PENDING) -> Entry:
    return Entry(seq, attempt, 0.0, "t.t", status=status)


@pytest.fixture
def claims() -> Claims:
    claims = Claims()
    for seq, status in enumerate(Status, start=1):
        claims.enter(entry(seq, attempt=2, status=status))
    return claims


def test_who_waits_for_something_to_come_in_is_told_of_the_first_only() -> None:
    told: list[str] = []
    claims = Claims(lambda: told.append("filled"))
    for seq in (1, 2):
        claims.enter(entry(seq))
    assert len(told) == 1
    claims.drop(1)
    claims.enter(entry(1))
    assert len(told) == 1, "it was not empty"
    claims.drop(1)
    claims.drop(2)
    claims.enter(entry(3))
    assert len(told) == 2


def test_an_entry_starts_as_pending() -> None:
    assert Entry(1, 1, 0.0, "t.t").status is Status.PENDING


def test_every_status_is_a_licence_pending_included(claims: Claims) -> None:
    assert all(claims.licensed(entry.seq, 2) for entry in claims)
    assert {entry.status for entry in claims} == set(Status)


def test_another_attempt_is_not_licensed(claims: Claims) -> None:
    assert not any(claims.licensed(entry.seq, attempt) for entry in claims for attempt in (1, 3))
    assert not claims.licensed(99, 2)


def test_a_dropped_job_is_not_licensed_and_dropping_it_again_is_harmless(claims: Claims) -> None:
    for _ in range(2):
        claims.drop(3)
        assert 3 not in claims
        assert not claims.licensed(3, 2)
    assert len(claims) == len(Status) - 1


def test_a_new_attempt_takes_the_place_of_the_old_one(claims: Claims) -> None:
    claims.enter(entry(1, attempt=5))
    assert claims.licensed(1, 5)
    assert not claims.licensed(1, 2)
    assert len(claims) == len(Status)


@pytest.mark.parametrize("status", list(Status))
def test_entries_are_found_by_their_status(claims: Claims, status: Status) -> None:
    (found,) = claims.having(status)
    assert found is claims.get(found.seq)
    found.status = Status.RESULT if status is not Status.RESULT else Status.HELD
    assert claims.having(status) == []


def test_the_table_can_change_while_it_is_walked(claims: Claims) -> None:
    for one in claims:
        claims.drop(one.seq)
        claims.enter(entry(one.seq + 100))
    assert sorted(one.seq for one in claims) == [seq + 100 for seq in range(1, len(Status) + 1)]


def test_a_table_that_holds_too_many_bytes_says_when_it_no_longer_does() -> None:
    told: list[str] = []
    claims = Claims(most_bytes=100, eased=lambda: told.append("eased"))
    first, second = entry(1), entry(2)
    first.raw, second.raw = b"x" * 60, b"x" * 30
    claims.enter(first)
    claims.enter(second)
    assert (claims.bytes, claims.is_full) == (90, False)
    claims.grow(first, 15)
    assert (claims.bytes, claims.is_full) == (105, True)
    claims.drop(2)
    assert (claims.bytes, claims.is_full, told) == (75, False, ["eased"])
    claims.enter(entry(1))
    assert claims.bytes == 0, "what takes the place of another takes its bytes, too"


def test_bytes_limit_how_many_more_there_is_room_for_but_one_job_of_any_size_fits_alone() -> None:
    claims = Claims(most_bytes=100)
    assert claims.affordable([200, 10]) == 1
    assert claims.affordable([60, 40, 1]) == 2
    one = entry(1)
    one.raw = b"x" * 70
    claims.enter(one)
    assert claims.affordable([20, 10, 1]) == 2
    assert claims.affordable([31]) == 0


def test_what_is_being_given_back_cannot_be_claimed_until_that_is_known_to_have_landed(
    claims: Claims,
) -> None:
    assert not claims.may_claim(1)
    assert claims.may_claim(50)
    claims.give_back([50, 51])
    assert not claims.may_claim(50)
    claims.give_back([51])
    assert (claims.may_claim(50), claims.may_claim(51)) == (True, False)
    claims.give_back(())
    assert claims.may_claim(51)
