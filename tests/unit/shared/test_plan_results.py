"""Results of jobs that were just settled are not read again."""

from __future__ import annotations

from typing import Any

import bson
import pytest

from tontine.records.plan import JobFact, PlanPlace
from tontine.records.states import JobState
from tontine.store.call import Operation
from tontine.store.plans.values import Results

PLACE = PlanPlace(7, "get")


def without_the_store(operation: Operation[Any]) -> Any:
    """What it comes to without a call; a call is a mistake."""
    with pytest.raises(StopIteration) as end:
        pytest.fail(f"it asks for {next(operation)}")
    return end.value.value


@pytest.mark.parametrize("result", [5, None, {"a": [1, 2]}])
def test_what_was_settled_as_done_is_known(result: Any) -> None:
    results = Results()
    results.know([JobFact(PLACE, JobState.DONE, outcome=bson.encode({"r": result, "ms": 1}))])
    without_the_store(results.fetch([PLACE.id]))
    assert without_the_store(results.of(PLACE.id)) == result


def test_what_was_settled_otherwise_is_asked_for() -> None:
    results = Results()
    results.know([JobFact(PLACE, JobState.QUEUED, outcome=bson.encode({"r": 5}))])
    results.know([JobFact(PLACE, JobState.DONE)])
    assert next(results.of(PLACE.id)).args == ({"_id": PLACE.id},)
