"""What a run of the benchmark is judged by."""

from __future__ import annotations

from benchmarks.plan import full, quick
from benchmarks.record import Record, Series, ratios
from benchmarks.targets import Verdict, judge


def found(record: Record, target: str) -> Verdict | None:
    return next((one for one in judge(record, full(None, None)) if one.target == target), None)


def drained(record: Record, who: str, *rates: float, jobs: str = "20,000 jobs") -> None:
    for rate in rates:
        record.add("drain", jobs, who, rate, "jobs/s")


def test_a_ratio_is_the_median_of_the_rounds_own_ratios() -> None:
    # The machine was ten times slower in the second round, for both.
    assert ratios(Series("jobs/s", [1000, 100, 1000]), Series("jobs/s", [500, 50, 400])) == [
        2,
        2,
        2.5,
    ]
    assert ratios(Series("jobs/s", [100, 300]), Series("jobs/s", [100])) == [2]


def test_a_target_is_met_at_its_bound_and_missed_below_it() -> None:
    record = Record()
    drained(record, "Tontine", 8000, 8000, 8000)
    drained(record, "PgQueuer", 5000, 4000, 1000)
    drained(record, "Dramatiq", 2700, 2700, 2700)
    met = found(record, "drain 20,000 jobs: Tontine / PgQueuer")
    missed = found(record, "drain 20,000 jobs: Tontine / Dramatiq")
    assert met == Verdict(
        "drain 20,000 jobs: Tontine / PgQueuer", 2.0, (1.6, 8.0), "at least 2", True
    )
    assert missed is not None
    assert missed.is_met is False


def test_what_was_not_measured_is_not_judged_and_other_sizes_are_only_reported() -> None:
    record = Record()
    drained(record, "Tontine", 8000, jobs="1,000 jobs")
    drained(record, "PgQueuer", 9000, jobs="1,000 jobs")
    assert judge(record, full(None, None)) == []
    (only,) = judge(record, quick(None, (1000,)))
    assert (only.is_met, only.wanted) == (None, "as it is")


def test_the_dearest_look_up_anywhere_counts() -> None:
    record = Record()
    for nodes, keys in (("1 node", 1.0), ("32 nodes", 3.5)):
        record.add(
            "growth", f"keys per job by look-ups, {nodes}, backlog 1,000", "Tontine", keys, "keys"
        )
        record.add(
            "growth", f"keys per job by claims, {nodes}, backlog 1,000", "Tontine", 9.0, "keys"
        )
    (only,) = judge(record, full(None, None))
    assert (only.found, only.is_met) == (3.5, False)
