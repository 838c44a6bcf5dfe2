"""A job becomes final in one place: whatever is to happen then has one place to hang on."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tontine.records.states import FINAL, JOB_MOVES, JobState, sources
from tontine.store import end
from tontine.store.end import CANCELLABLE, FINAL_STATES

STORE = Path(end.__file__).parent
OTHERS = sorted(path for path in STORE.glob("*.py") if path.name != "end.py")
WRITES = re.compile(r"""finished_at("\s*:|=)\s*("\$\$NOW"|at\b)""")


def test_the_pattern_finds_such_a_write() -> None:
    assert WRITES.search((STORE / "end.py").read_text())


@pytest.mark.parametrize("path", OTHERS, ids=lambda path: path.name)
def test_no_other_file_of_the_store_ends_a_job(path: Path) -> None:
    assert not WRITES.search(path.read_text())


def test_its_conditions_are_those_of_the_table_of_moves() -> None:
    assert (
        sources(JOB_MOVES, JobState.CANCELLED) == sources(JOB_MOVES, JobState.FAILED) == CANCELLABLE
    )
    assert {*FINAL_STATES} == {state.value for state in FINAL}
