"""How far a job is, as `tontine job` shows it: one that is done is complete, whatever its task said
last."""

from __future__ import annotations

from datetime import UTC, datetime

import pytest

from tontine.cli.job import _lines


@pytest.mark.parametrize(
    ("state", "shown"), [("working", "67%"), ("failed", "67%"), ("done", "100%")]
)
def test_a_job_that_is_done_is_shown_as_complete(state: str, shown: str) -> None:
    document = {"seq": 1, "state": state, "progress": {"value": 0.67, "note": "almost"}}
    (line,) = [
        line.plain
        for line in _lines(document, datetime.now(UTC))
        if line.plain.startswith("progress")
    ]
    assert shown in line
    assert "almost" in line
