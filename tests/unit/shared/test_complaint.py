"""What is wrong, in one voice: one sentence for each cause, with how many and what to do."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from tontine.rules import complaint
from tontine.rules.complaint import Outcomes, Silence, Weight, together
from tontine.rules.health import Queue

names = st.lists(st.sampled_from(["ada", "bea", "cyd", "dee", "eli", "fay", "gus"]), unique=True)


@given(names)
def test_names_are_told_or_counted(some: list[str]) -> None:
    told = together(some)
    shown = [name for name in some if name in told]
    more = len(some) - len(shown)
    assert more != 1
    assert more == 0 or told.endswith(f" and {more} more")
    assert shown == some[: len(shown)]


def test_one_task_several_and_none_that_fail() -> None:
    well, broken = Outcomes("t.well", 90, 2), Outcomes("t.broken", 1, 9, "KeyError: 'x'")
    worse = Outcomes("t.worse", 0, 50, "OSError: no")
    every = Outcomes("", 91, 11)
    assert complaint.failing([well], well) is None
    one = complaint.failing([well, broken], every)
    assert one is not None
    assert one.text == "t.broken fails: 9 of its last 10 jobs, at last KeyError: 'x'"
    assert (one.weight, one.subject) == (Weight.BAD, "t.broken")
    two = complaint.failing([well, broken, worse], every)
    assert two is not None
    assert two.text == "2 tasks fail, t.worse worst: 50 of its last 50 jobs, at last OSError: no"


def test_failures_of_long_ago_are_told_with_their_age() -> None:
    failed = Outcomes("t.mail").with_failure("OSError: no", 3000.0).with_failure("", 2990.0)
    for _ in range(8):
        failed = failed.with_failure("KeyError: 'x'", 3010.0)
    said = complaint.failing([failed], failed)
    assert said is not None
    assert said.text == (
        "t.mail fails: 10 of its last 10 jobs, the last 50 min ago with OSError: no"
    )
    assert said.short == "t.mail fails: 10 of 10 jobs, last 50 min ago"


def test_many_tasks_that_fail_a_little_are_told_together() -> None:
    little = [Outcomes(f"t.{number}", 7, 3, "E: e") for number in range(5)]
    said = complaint.failing(little, Outcomes("", 35, 15, "E: e"))
    assert said is not None
    assert said.text == "jobs fail: 15 of the last 50 jobs, at last E: e"
    assert said.weight is Weight.WARNING


def test_a_queue_says_when_it_will_be_empty() -> None:
    queue = Queue(waiting=49_000, oldest_for=2520.0)
    told = complaint.waiting_long(queue, 720.0, is_rate_known=True)
    assert (
        told.text == "49,000 jobs wait, the oldest for 42 min; at this rate it is empty in 12 min"
    )
    assert told.short == "49,000 jobs wait, the oldest for 42 min; empty in 12 min"
    told = complaint.waiting_long(queue, None, is_rate_known=True)
    assert told.text == "49,000 jobs wait, the oldest for 42 min; at this rate it is never empty"
    assert told.short == "49,000 jobs wait, the oldest for 42 min; never empty"


def test_tasks_that_nobody_has_are_one_complaint() -> None:
    assert complaint.unknown_tasks({}, 1000) is None
    two = complaint.unknown_tasks({"a.b": 1, "c.d": 3}, 1000)
    assert two is not None
    assert two.text == "4 jobs wait for 2 tasks that no live node has: c.d (3) and a.b (1)"
    many = complaint.unknown_tasks({"a.b": 1000}, 1000)
    assert many is not None
    assert many.text == "1,000 jobs or more wait for a.b, which no live node has"


def test_schedules_that_pile_up_are_one_complaint() -> None:
    assert complaint.piling({}) is None
    one = complaint.piling({"nightly": 4})
    assert one is not None
    assert one.text == "the schedule nightly piles up: 4 of its jobs have not ended"
    two = complaint.piling({"nightly": 4, "hourly": 9})
    assert two is not None
    assert "2 schedules pile up" in two.text
    assert "hourly (9) and nightly (4)" in two.text


def test_what_is_wrong_with_nodes_fits_a_small_screen_whatever_they_are_called() -> None:
    names = ["ip-10-0-12-34.eu-central-1.compute.internal-4711", "worker-7d9c6b5f4-abcde"]
    for some in (names, names[:1]):
        nodes = [Silence(name, 5000.0) for name in some]
        found = [
            complaint.silent(nodes, (), 0.0),
            complaint.silent(nodes, ["ada"], 3.0),
            complaint.unburied(nodes),
            complaint.nobody_left(nodes, 12_345),
            complaint.dead_members(some),
            complaint.standing_still(some),
            complaint.skewed(some[0], 40.0),
            complaint.no_member(dict.fromkeys(some, "paused"), 3),
            complaint.no_member(dict.fromkeys(some, "initializing"), 3),
            complaint.no_member(dict.fromkeys(some, "waiting"), 3),
        ]
        assert max(len(one.short) for one in found) <= 68


@given(st.lists(st.builds(Silence, st.sampled_from("abc"), st.floats(0, 1e6)), min_size=1), names)
def test_every_complaint_says_what_to_do(silent: list[Silence], heirs: list[str]) -> None:
    found = [
        complaint.nobody_left(silent, 3),
        complaint.nobody_left([], 1),
        complaint.silent(silent, heirs, 3.0),
        complaint.unburied(silent),
        complaint.stuck(Queue(2, 40.0, 1, 1, 40.0)),
        complaint.no_member({"ada": "paused"}, 2),
        complaint.no_member({"ada": "initializing"}, 2),
        complaint.no_member({"ada": "waiting"}, 2),
    ]
    assert all(one.advice and one.text for one in found)
    assert len({one.text for one in found}) == len(found)
