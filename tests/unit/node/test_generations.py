"""Generations of workers, tries of a context, and tasks that workers lack: pure rules."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tontine_node.running.generations import Code, Generations, code_of
from tontine_node.running.tries import FIRST_PAUSE, GOOD_AFTER, LONGEST_PAUSE, Tries
from tontine_node.running.unknown import SOON, UnknownTasks


def code(digest: str) -> Code:
    return code_of([{"name": "m", "version": "1", "digest": digest, "tasks": ["m.t"]}])


def test_workers_with_the_same_code_are_one_generation() -> None:
    generations = Generations()
    assert [generations.said(1, order, code("a")) for order in (1, 2, 3)] == [1, 1, 1]
    assert generations.wanted == 1


def test_one_that_has_other_code_begins_the_next() -> None:
    generations = Generations()
    generations.said(1, 1, code("a"))
    assert generations.said(1, 2, code("b")) == 2
    assert generations.wanted == 2, "so those of the first are replaced"
    assert generations.said(2, 3, code("b")) == 2


def test_also_when_it_has_the_same_files_and_other_tasks_or_another_version() -> None:
    one = {"name": "m", "version": "1", "digest": "a", "tasks": ["m.t"]}
    assert code_of([one]) != code_of([one | {"version": "2"}])
    assert code_of([one]) != code_of([one | {"tasks": ["m.t", "m.u"]}])
    assert code_of([one]) == code_of([{**one, "source": "elsewhere"}])


def test_one_that_was_started_before_and_is_late_with_old_code_begins_none() -> None:
    generations = Generations()
    assert generations.said(1, 2, code("new")) == 1
    assert generations.said(1, 1, code("old")) == 0, "it is replaced"
    assert generations.wanted == 1


def test_what_is_asked_for_meanwhile_only_raises_the_target() -> None:
    generations = Generations()
    generations.said(1, 1, code("a"))
    assert generations.ask() == 2
    assert generations.ask() == 3
    assert generations.said(2, 2, code("b")) == 2, "it is of no interest any more what that has"
    assert generations.said(3, 3, code("a")) == 3
    assert generations.wanted == 3


@given(st.lists(st.tuples(st.sampled_from("abc"), st.booleans(), st.integers(0, 2)), max_size=40))
def test_workers_of_the_wanted_generation_always_have_one_code(
    happenings: list[tuple[str, bool, int]],
) -> None:
    """Whatever they say, whenever they were started, and whatever was asked for meanwhile (MI2)."""
    generations = Generations()
    started: list[tuple[int, int]] = []
    said: dict[int, set[str]] = {}
    for order, (digest, is_asked, late) in enumerate(happenings, 1):
        started.append((generations.wanted, order))
        if is_asked:
            generations.ask()
        if len(started) > late:
            number, when = started.pop(-1 - late)
            before = generations.wanted
            mine = generations.said(number, when, code(digest))
            assert generations.wanted >= before
            if mine == generations.wanted:
                said.setdefault(mine, set()).add(digest)
    assert all(len(digests) == 1 for digests in said.values())


def test_tries_are_made_after_one_two_four_seconds_and_so_on_to_sixty() -> None:
    tries, now = Tries(), 0.0
    for number, pause in enumerate((1, 2, 4, 8, 16, 32, 60, 60), 1):
        tries.failed(now, now + 0.5, f"no. {number}")
        now += 0.5
        assert tries.count(now) == number
        assert 0.8 * pause <= tries.next_at - now <= pause
        now = tries.next_at
    assert tries.error == "no. 8"
    assert (FIRST_PAUSE, LONGEST_PAUSE) == (1.0, 60.0)


def test_workers_that_were_started_together_fail_together() -> None:
    tries = Tries()
    for ended in (1.0, 1.1, 1.2):
        tries.failed(0.5, ended, "no")
    assert tries.count(2.0) == 1


def test_a_worker_that_gets_ready_ends_the_pause_and_a_minute_of_it_the_count() -> None:
    tries = Tries()
    for now in (0.0, 10.0, 20.0):
        tries.failed(now, now + 1, "no")
    tries.ready(30.0)
    assert (tries.error, tries.next_at) == ("", float("-inf"))
    assert tries.count(30.0 + GOOD_AFTER - 1) == 3
    tries.failed(50.0, 51.0, "again")
    assert tries.count(51.0) == 4, "that was no minute"
    tries.ready(60.0)
    assert tries.count(60.0 + GOOD_AFTER) == 0
    tries.failed(200.0, 201.0, "again")
    assert tries.count(201.0) == 1


def test_old_workers_at_work_do_not_shorten_the_pauses_of_new_ones_that_fail() -> None:
    tries = Tries()
    tries.ready(0.0)
    for now in (100.0, 200.0, 300.0):
        tries.failed(now, now + 1, "new files are broken")
    assert tries.count(302.0) == 3


def test_a_task_is_broken_the_second_time_within_a_minute() -> None:
    unknown = UnknownTasks()
    assert not unknown.note("m.a", 0.0)
    assert not unknown.note("m.b", 1.0)
    assert not unknown.note("m.a", SOON + 1), "that was long ago"
    assert unknown.note("m.a", SOON + 2)
    assert not unknown.note("m.a", SOON + 3), "it is known by now"
    assert unknown.broken == {"m.a"}
    unknown.forget()
    assert not unknown.broken
    assert not unknown.note("m.a", SOON + 4)
