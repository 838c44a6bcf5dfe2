"""The rows of jobs, from their documents and from the changes of these. Pure.

Thousands of rows change every second: their values are read into places of a list, by tables, and
one row made of it.
"""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from typing import Any

from tontine.records.states import JobState

from .clean import Cleaner
from .job import JobRow
from .values import mapping, number, timestamp, whole

_QUEUED = JobState.QUEUED.value
_BLANK = JobRow(id="", seq=None, task="?", state=_QUEUED)[1:]
_PLACES = {name: place for place, name in enumerate(JobRow._fields)}
_STATE, _ATTEMPT, _CLAIMED_AT = _PLACES["state"], _PLACES["attempt"], _PLACES["claimed_at"]
_ERROR, _PROGRESS, _PROGRESS_NOTE = _PLACES["error"], _PLACES["progress"], _PLACES["progress_note"]


def job_row(id: Any, document: Mapping[str, Any], clean: Cleaner) -> JobRow:
    """The row of a job's document."""
    values = [clean.name(id), *_BLANK]
    _write(values, document, clean)
    return JobRow._make(values)


def changed_row(
    row: JobRow,
    change: Mapping[str, Any],
    removed: Iterable[str],
    clean: Cleaner,
    at: float | None = None,
) -> JobRow:
    """The row after a change of its document: fields that were set, and names of fields that were
    removed.

    A change that claims the job does so `at` that time.
    """
    values = list(row)
    for name in removed:
        for place, value in _WITHOUT.get(name, ()):
            values[place] = value
    _write(values, change, clean)
    if at is not None and values[_STATE] == JobState.WORKING and values[_ATTEMPT] != row.attempt:
        values[_CLAIMED_AT] = at
    return JobRow._make(values)


def _write(values: list[Any], change: Mapping[str, Any], clean: Cleaner) -> None:
    for name, value in change.items():
        if (plain := _PLAIN.get(name)) is not None:
            place, read = plain
            values[place] = read(value)
        elif (text := _TEXTS.get(name)) is not None:
            place, otherwise = text
            values[place] = otherwise if value is None else clean.name(value) or otherwise
        elif (write := _WRITERS.get(name)) is not None:
            write(values, value, clean)


def _seq(value: Any) -> int | None:
    return value if isinstance(value, int) else None


def error_text(value: Any, clean: Cleaner) -> str:
    """Type and message of an error that says both; whatever else it is, as text."""
    error = mapping(value)
    kind, message = error.get("type"), error.get("message")
    if kind and message:
        value = f"{kind}: {message}"
    elif error:
        value = kind or message
    return "" if value is None else clean.text(value)


def _write_error(values: list[Any], value: Any, clean: Cleaner) -> None:
    values[_ERROR] = error_text(value, clean)


def _write_progress(values: list[Any], value: Any, clean: Cleaner) -> None:
    progress = mapping(value)
    values[_PROGRESS] = number(progress.get("value")) if progress else None
    _write_progress_note(values, progress.get("note"), clean)


def _write_progress_note(values: list[Any], value: Any, clean: Cleaner) -> None:
    values[_PROGRESS_NOTE] = clean.text(value or "")


_PLAIN: dict[str, tuple[int, Callable[[Any], Any]]] = {
    "seq": (_PLACES["seq"], _seq),
    "cancel": (_PLACES["cancel"], bool),
    "progress.value": (_PROGRESS, number),
    **{name: (_PLACES[name], whole) for name in ("attempt", "fails", "lost", "priority")},
    **{
        name: (_PLACES[name], timestamp)
        for name in ("run_at", "created_at", "started_at", "finished_at")
    },
}
"""Where the value of a field goes, and how it is read."""
_TEXTS = {
    "task": (_PLACES["task"], '""'),
    "state": (_STATE, _QUEUED),
    "node": (_PLACES["node"], ""),
    "key": (_PLACES["key"], ""),
    "schedule": (_PLACES["schedule"], ""),
}
"""Where the text of a field goes, and what stands for none."""
_WRITERS: dict[str, Callable[[list[Any], Any, Cleaner], None]] = {
    "error": _write_error,
    "progress": _write_progress,
    "progress.note": _write_progress_note,
}
_WITHOUT: dict[str, list[tuple[int, Any]]] = {
    "state": [(_STATE, _QUEUED)],
    "node": [(_PLACES["node"], "")],
    "key": [(_PLACES["key"], "")],
    "cancel": [(_PLACES["cancel"], False)],
    "priority": [(_PLACES["priority"], 0)],
    "error": [(_ERROR, "")],
    "progress": [(_PROGRESS, None), (_PROGRESS_NOTE, "")],
    "progress.note": [(_PROGRESS_NOTE, "")],
    **{
        name: [(_PLACES[name], None)]
        for name in ("run_at", "created_at", "started_at", "finished_at", "seq")
    },
}
"""What a row says when its document no longer has a field."""
