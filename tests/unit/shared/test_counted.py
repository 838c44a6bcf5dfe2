"""Counters: names and numbers that can be added up, limits, and sums that do not depend on the
order of adding."""

from __future__ import annotations

import math
import threading
from typing import Any

import bson
import orjson
import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine.current import CurrentJob
from tontine.errors import ConfigError
from tontine.records.counted import (
    BEYOND,
    LARGEST,
    NOT_POSITIVE,
    OF_A_JOB,
    Noted,
    Observed,
    Stat,
    bucket_of,
    counts_in,
    stats_in,
    summed,
    upper_bound,
)
from tontine.testing import EagerQueue, run_task
from tontine.verdict import encode, with_counts, with_time

WHOLE = st.integers(0, LARGEST)
VALUES = st.one_of(st.integers(-LARGEST, LARGEST), st.floats(-1e15, 1e15, allow_subnormal=False))


def a_job() -> CurrentJob:
    return CurrentJob("id", 1, "t.t", 1, lambda *_: None)


def observed(values: list[Any]) -> Observed:
    one = Observed()
    for value in values:
        one.add(value)
    return one


@pytest.mark.parametrize("name", ["Rows!", "", "1a", "a" * 41, "a-b", "Ä", "a\n", None, 3, "_a"])
def test_what_cannot_be_a_name_is_refused_at_the_call(name: Any) -> None:
    job = a_job()
    with pytest.raises(ConfigError, match="cannot name a counter"):
        job.count(name)
    with pytest.raises(ConfigError, match="cannot name a counter"):
        job.observe(name, 1)
    assert job.noted is None


@pytest.mark.parametrize("value", ["x", None, True, math.nan, math.inf, -1, 2**53 + 2, 1j, [1]])
def test_what_cannot_be_counted_is_refused_at_the_call_and_shown(value: Any) -> None:
    with pytest.raises(ConfigError) as refused:
        a_job().count("rows", value)
    assert str(value)[:60] in str(refused.value)
    assert "count('rows')" in str(refused.value)


@pytest.mark.parametrize("value", ["x", None, False, math.nan, -math.inf])
def test_what_cannot_be_observed_is_refused_at_the_call(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"observe\('ms'\) takes a number"):
        a_job().observe("ms", value)


def test_a_job_that_counts_nothing_has_noted_nothing() -> None:
    assert a_job().noted is None


def test_names_beyond_the_limit_are_dropped_and_told() -> None:
    job = a_job()
    for place in range(OF_A_JOB - 1):
        job.count(f"n{place}")
    job.observe("ms", 1)
    job.count("more")
    job.observe("more", 1)
    job.count("n0")
    assert job.noted is not None
    assert (len(job.noted.counts), len(job.noted.observed), job.noted.dropped) == (19, 1, 2)
    assert job.noted.counts["n0"] == 2


def test_threads_of_one_task_lose_no_count() -> None:
    job = a_job()

    def work() -> None:
        for _ in range(2000):
            job.count("rows")
            job.observe("ms", 1)

    threads = [threading.Thread(target=work) for _ in range(4)]
    for thread in threads:
        thread.start()
    for thread in threads:
        thread.join()
    assert job.noted is not None
    assert job.noted.counts == {"rows": 8000}
    assert job.noted.observed["ms"].n == 8000


@given(st.floats(min_value=1e-300, max_value=1e300))
def test_a_value_is_in_the_first_bucket_that_it_does_not_exceed(value: float) -> None:
    bucket = bucket_of(value)
    assert value <= upper_bound(bucket)
    if -20 < bucket < BEYOND:
        assert value > upper_bound(bucket - 1)


def test_a_power_of_two_is_in_its_own_bucket() -> None:
    assert [bucket_of(value) for value in (0.5, 1, 2, 2.1, 4, 0, -7)] == [
        *(-1, 0, 1, 2, 2, NOT_POSITIVE, NOT_POSITIVE)
    ]


@given(st.lists(st.lists(st.integers(-1000, 1000), max_size=5), max_size=5))
def test_merging_is_the_same_as_observing_all(groups: list[list[int]]) -> None:
    merged = Observed()
    for group in groups:
        merged.merge(observed(group))
    assert merged == observed([value for group in groups for value in group])


@given(st.dictionaries(st.sampled_from("abc"), WHOLE), st.lists(VALUES, min_size=1, max_size=8))
def test_what_was_noted_is_the_same_after_the_pipe_and_after_the_store(
    counts: dict[str, Any], values: list[Any]
) -> None:
    noted = Noted(counts, {"ms": observed(values)}, 3)
    assert Noted.from_row(orjson.loads(orjson.dumps(noted.to_row()))) == noted
    stats = [
        Stat("t.t", "ms", noted.observed["ms"]),
        *(Stat("t.t", *one) for one in counts.items()),
    ]
    record = {"metrics": {"stats": [one.to_document() for one in stats]}}
    assert stats_in(bson.decode(bson.encode(record))) == stats


@given(st.lists(WHOLE, min_size=1, max_size=3000))
def test_a_sum_can_always_be_stored(counts: list[int]) -> None:
    noted = Noted()
    for count in [LARGEST] * 600 + counts:
        noted.count("rows", count)
    bson.encode(noted.counts)


def test_sums_are_by_task_and_name_and_kind() -> None:
    found = summed(
        [
            Stat("b.b", "n", 1),
            Stat("a.a", "n", 2),
            Stat("a.a", "n", observed([4])),
            Stat("a.a", "n", 0.5),
            Stat("a.a", "n", observed([1])),
        ]
    )
    assert found == [
        Stat("a.a", "n", 2.5),
        Stat("a.a", "n", observed([1, 4])),
        Stat("b.b", "n", 1),
    ]


ODD: list[Any] = [None, 1, "x", [], {}, {"task": 1, "name": "n", "count": 1}, {"task": "t"}]
ODD += [{"task": "t", "name": "N!", "count": 1}, {"task": "t", "name": "n", "count": "x"}]
ODD += [{"task": "t", "name": "n", "n": 1, "sum": math.nan, "min": 0, "max": 0}]


def test_odd_rows_of_a_record_are_left_out() -> None:
    good = {"task": "t", "name": "n", "count": 1}
    odd = {"task": "t", "name": "o", "n": 1, "sum": 1, "min": 1, "max": 1, "buckets": {"x": 1}}
    assert stats_in({"metrics": {"stats": [*ODD, good]}}) == [Stat("t", "n", 1)]
    assert stats_in({"metrics": {"stats": [odd]}}) == [Stat("t", "o", Observed(1, 1, 1, 1, {}))]
    for record in ({}, {"metrics": 7}, {"metrics": {"stats": {"a": 1}}}):
        assert stats_in(record) == []
    assert counts_in({"a": 1, "b": "x", "c": math.nan, "d": True}) == {"a": 1}
    assert counts_in([1]) == {}


@given(st.dictionaries(st.sampled_from("abc"), st.integers(0, 2**53)))
def test_counts_stand_beside_the_result_and_the_time(counts: dict[str, int]) -> None:
    result = encode({"x": [1]})
    assert isinstance(result, bytes)
    whole = bson.decode(with_time(with_counts(result, counts), 0.25))
    assert whole == {"r": {"x": [1]}, "c": counts, "ms": 250}


def counting() -> None:
    from tontine import current_job

    current_job().count("rows", 5)
    current_job().observe("ms", 3.2)


def test_a_task_that_runs_inline_shows_what_it_counted() -> None:
    run = run_task(counting)
    assert run.counts == {"rows": 5}
    assert run.observed["ms"].sum == 3.2


def test_jobs_of_an_eager_queue_have_their_counts() -> None:
    from tontine import Module, current_job

    shop = Module("shop")

    @shop.task(max_attempts=2, backoff=lambda _: 0.0)
    def count() -> None:
        current_job().count("rows", current_job().attempt)
        if current_job().attempt == 1:
            raise ValueError("not counted")

    queue = EagerQueue(shop)
    job = queue.wait(queue.submit("shop.count"))
    assert (job.state, job.counts) == ("done", {"rows": 2})
    assert queue.retry(job).counts == {}
