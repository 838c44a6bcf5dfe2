"""The rows of jobs, from their documents and from the changes of these. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tontine.records.states import JobState

from .clean import Cleaner
from .job import JobRow
from .values import mapping, number, timestamp, whole


def job_row(id: Any, document: Mapping[str, Any], clean: Cleaner) -> JobRow:
    """The row of a job's document."""
    every = [clean.name(id), *_BLANK]
    _write(every, document, clean)
    return JobRow._make(every)


def changed_row(
    row: JobRow, change: Mapping[str, Any], removed: Iterable[str], clean: Cleaner, at: float | None = None
) -> JobRow:
    """The row after a change of its document: fields that were set, and names of fields that were removed.

    A change that claims the job does so `at` that time.
    """
    # Thousands of rows change every second: values by their places, and one row made of them.
    every = list(row)
    for name in removed:
        for place, value in _NOTHING.get(name, ()):
            every[place] = value
    _write(every, change, clean)
    if at is not None and every[_STATE] == JobState.WORKING and every[_ATTEMPT] != row.attempt:
        every[_CLAIMED_AT] = at
    return JobRow._make(every)


def _write(every: list[Any], change: Mapping[str, Any], clean: Cleaner) -> None:
    for name, value in change.items():
        if (plain := _PLAIN.get(name)) is not None:
            place, read = plain
            every[place] = read(value)
        elif (text := _TEXTS.get(name)) is not None:
            place, otherwise = text
            every[place] = otherwise if value is None else clean.name(value)
        elif (write := _WRITERS.get(name)) is not None:
            write(every, value, clean)


_PLACES = {name: place for place, name in enumerate(JobRow._fields)}


_STATE, _ATTEMPT, _CLAIMED_AT = (_PLACES[name] for name in ("state", "attempt", "claimed_at"))


_BLANK = JobRow(id="", seq=None, task="?", state=JobState.QUEUED.value)[1:]


def _error(every: list[Any], value: Any, clean: Cleaner) -> None:
    error = mapping(value)
    kind, message = error.get("type"), error.get("message")
    if error:
        text = clean.text(f"{kind}: {message}" if kind and message else kind or message or "")
    else:
        text = "" if value is None else clean.text(value)
    every[_PLACES["error"]] = text


def _progress(every: list[Any], value: Any, clean: Cleaner) -> None:
    known = mapping(value)
    every[_PLACES["progress"]] = number(known.get("value")) if known else None
    every[_PLACES["progress_note"]] = clean.text(known.get("note") or "")


def _progress_note(every: list[Any], value: Any, clean: Cleaner) -> None:
    every[_PLACES["progress_note"]] = clean.text(value or "")


def _seq(value: Any) -> int | None:
    return value if isinstance(value, int) else None


_READERS: dict[str, Callable[[Any], Any]] = {
    "seq": _seq,
    **dict.fromkeys(("attempt", "fails", "lost", "priority"), whole),
    "cancel": bool,
    **dict.fromkeys(("run_at", "created_at", "started_at", "finished_at"), timestamp),
}


_PLAIN = {name: (_PLACES[name], read) for name, read in _READERS.items()} | {
    "progress.value": (_PLACES["progress"], number)
}


_TEXTS = {
    name: (_PLACES[name], otherwise)
    for name, otherwise in {"task": "?", "state": JobState.QUEUED.value, "node": "", "key": ""}.items()
}


_WRITERS: dict[str, Callable[[list[Any], Any, Cleaner], None]] = {
    "error": _error,
    "progress": _progress,
    "progress.note": _progress_note,
}


_LACKING: dict[str, dict[str, Any]] = {
    "state": {"state": JobState.QUEUED.value},
    "node": {"node": ""},
    "key": {"key": ""},
    "cancel": {"cancel": False},
    "priority": {"priority": 0},
    "error": {"error": ""},
    "progress": {"progress": None, "progress_note": ""},
    "progress.note": {"progress_note": ""},
    **{name: {name: None} for name in ("run_at", "created_at", "started_at", "finished_at", "seq")},
}
"""What a row says when its document no longer has a field."""


_NOTHING = {name: [(_PLACES[one], value) for one, value in values.items()] for name, values in _LACKING.items()}
