"""Waiting for what is no job says what is wanted."""

from __future__ import annotations

from typing import Any

import pytest

from tontine.awaiting import waiting


@pytest.mark.parametrize("jobs", [5, [5], "5", None])
def test_whoever_waits_for_a_number_is_told_to_get_the_job(jobs: Any) -> None:
    with pytest.raises(TypeError, match="get it first"):
        next(waiting(jobs, None, raises=False))
