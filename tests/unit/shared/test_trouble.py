"""What a record says is wrong inside its node, whoever wrote it."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from hypothesis import given
from hypothesis import strategies as st

from tontine.diagnose.doctor.backlog import Unnumbered
from tontine.diagnose.doctor.nodes import NodesSeen, judge_inside
from tontine.records.node import Sighting
from tontine.records.roster import Roster
from tontine.records.trouble import TROUBLES_READ, Trouble, read_troubles

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def test_a_trouble_is_told_as_a_sentence() -> None:
    settling = Trouble("settling", "document too large", ago(40), 12)
    assert (
        settling.told(NOW)
        == "has not been able to store outcomes for 40 s (12 tries): document too large"
    )
    assert Trouble("dreaming").told(NOW) == "has not been able to go on with dreaming"


def test_a_wrong_clock_of_the_node_does_not_change_how_long_a_trouble_lasts() -> None:
    ahead = timedelta(hours=1)
    record: dict[str, Any] = {"_id": "a-1", "state": "working", "lease": 20.0, "now": NOW}
    record["lease_until"] = NOW + timedelta(seconds=18)  # it has beaten two seconds ago
    record["metrics"] = {"clock": ago(2) + ahead, "workers": 1, "workers_wanted": 4, "bytes": 2**20}
    record["troubles"] = [{"what": "claiming", "why": "no", "since": ago(30) + ahead, "times": 7}]
    seen = Sighting.from_document(record)
    assert seen.troubles == (Trouble("claiming", "no", ago(30), 7),)
    assert (seen.lacks_workers, seen.bytes) == ("has only 1 of its 4 workers", 2**20)


def test_what_is_no_trouble_is_left_out_and_what_is_one_is_made_legible() -> None:
    odd = [
        5,
        {},
        {"what": "\x1b[2J" * 100, "why": {"a": "\u202e"}, "since": "then", "times": True},
        {"what": "fence"},
    ]
    first, second = read_troubles(odd)
    assert len(first.what) < 200
    assert "\x1b" not in first.what
    assert "\u202e" not in first.why
    assert (first.since, first.times, second) == (None, 1, Trouble("fence"))
    assert len(read_troubles([{"what": f"loop {place}"} for place in range(1000)])) == TROUBLES_READ
    assert read_troubles({"what": "claiming"}) == ()
    assert read_troubles(None) == ()


ANYTHING = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats()
    | st.text(max_size=20)
    | st.datetimes(timezones=st.just(UTC))
    | st.sampled_from(["dead", "working", "claiming"]),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=5,
)
FIELDS = (
    "state",
    "desired",
    "share",
    "slots",
    "running",
    "modules",
    "lease",
    "beat",
    "tick",
    "lease_until",
    "troubles",
)
METRICS = ("crashes", "last_crash", "workers", "workers_wanted", "bytes", "clock")
TROUBLES = st.lists(
    st.fixed_dictionaries({}, optional=dict.fromkeys(("what", "why", "since", "times"), ANYTHING))
)


@given(
    record=st.fixed_dictionaries({}, optional=dict.fromkeys(FIELDS, ANYTHING)),
    metrics=ANYTHING | st.fixed_dictionaries({}, optional=dict.fromkeys(METRICS, ANYTHING)),
    troubles=TROUBLES,
)
def test_whatever_is_in_a_record_it_is_read_and_judged(
    record: Any, metrics: Any, troubles: Any
) -> None:
    record = {"troubles": troubles, **record, "_id": "a-1", "now": NOW, "metrics": metrics}
    seen = Sighting.from_document(record)
    look = NodesSeen(NOW, (seen,), Roster(1, ("a-1",)), {}, Unnumbered((), None, NOW))
    assert judge_inside([look, look]).sentence
