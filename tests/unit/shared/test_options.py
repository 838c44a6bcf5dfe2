"""The keywords of every call that submits."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tontine.options import given


def test_durations_come_in_seconds_and_what_is_none_says_nothing() -> None:
    at = datetime(2026, 1, 1, tzinfo=UTC)
    assert given({"delay": "2m", "timeout": 3, "key": None, "run_at": at}) == {
        "delay": 120.0,
        "timeout": 3.0,
        "run_at": at,
    }


@pytest.mark.parametrize(("name", "hint"), [("dely", "; was 'delay' meant?"), ("colour", "")])
def test_a_keyword_that_there_is_not_is_refused_with_the_one_that_was_meant(
    name: str, hint: str
) -> None:
    with pytest.raises(TypeError, match="unexpected keyword") as refused:
        given({name: 1})
    assert str(refused.value) == f"submit got an unexpected keyword argument '{name}'{hint}"
