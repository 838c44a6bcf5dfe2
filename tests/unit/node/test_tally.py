"""A node's sums: by task and name, without the range that a job asked for, and no more names than
there may be."""

from __future__ import annotations

from tontine.records.counted import OF_A_NODE, Noted, Stat, stats_in
from tontine_node.settling.tally import Tally


def noted(**counts: int) -> Noted:
    one = Noted()
    for name, count in counts.items():
        one.count(name, count)
    return one


def test_a_node_where_nothing_is_counted_tells_nothing() -> None:
    assert Tally().metrics() == {}


def test_sums_are_by_task_and_name() -> None:
    tally = Tally()
    for task in ("shop.a", "shop.a@>=1.2", "shop.b"):
        tally.add(task, noted(rows=2))
    assert stats_in({"metrics": tally.metrics()}) == [
        Stat("shop.a", "rows", 4),
        Stat("shop.b", "rows", 2),
    ]


def test_values_are_merged_over_jobs() -> None:
    tally = Tally()
    for value in (1, 3):
        one = Noted()
        one.observe("ms", value)
        tally.add("t.t", one)
    (stat,) = tally.metrics()["stats"]
    assert stat == {
        "task": "t.t",
        "name": "ms",
        "n": 2,
        "sum": 4,
        "min": 1,
        "max": 3,
        "buckets": {"0": 1, "2": 1},
    }


def test_names_beyond_the_limit_are_dropped_and_told() -> None:
    tally = Tally()
    for place in range(OF_A_NODE + 5):
        tally.add(f"t.t{place}", noted(rows=1))
    of_its_job = noted(rows=1)
    of_its_job.dropped = 2
    tally.add("t.t0", of_its_job)
    told = tally.metrics()
    assert (len(told["stats"]), told["stats_dropped"]) == (OF_A_NODE, 5 + 2)
    assert told["stats"][0]["count"] == 2
