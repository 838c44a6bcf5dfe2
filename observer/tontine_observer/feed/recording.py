"""Recordings: everything a board is told, clean and redacted, one JSON object a line; `replay.py`
reads them."""

from __future__ import annotations

import contextlib
import os
from collections.abc import Callable, Mapping
from datetime import datetime
from pathlib import Path
from typing import Any, TextIO

from tontine.cli.output import json_text
from tontine.errors import ConfigError
from tontine.records.change import Delta

from ..model.heard import Deltas, Heard, Loaded, Lost, Remembered, WindowRead
from ..records.clean import HIDDEN, Cleaner, is_secret
from ..records.snapshot import Snapshot, Truth, Window
from ..records.values import timestamp

SCHEMA = 1
HEADER = "tontine-recording"
_PAYLOAD = ("args", "result", "errors", "stages", "saved")


class Recorder:
    """Writes what a board is told. A disk that is full ends the recording, not the observer."""

    def __init__(
        self,
        path: Path,
        database: str,
        clean: Cleaner,
        complain: Callable[[str], None] = lambda _: None,
    ) -> None:
        self._complain = complain
        self._clean = clean
        try:
            # It holds names of tasks and hosts: for its owner only.
            self._file: TextIO | None = os.fdopen(
                os.open(path, os.O_WRONLY | os.O_CREAT | os.O_TRUNC, 0o600), "w", encoding="utf-8"
            )
        except OSError as error:
            raise ConfigError(f"{path} cannot be written: {error.strerror}") from error
        self._write({"kind": HEADER, "schema": SCHEMA, "database": database})

    def __call__(self, heard: Heard) -> None:
        entry = _entry(heard)
        if entry is not None:
            self._write(self._encoded(entry))

    def close(self) -> None:
        if self._file is not None:
            with contextlib.suppress(OSError):
                self._file.close()
            self._file = None

    def _write(self, entry: Any) -> None:
        if self._file is None:
            return
        try:
            self._file.write(json_text(entry) + "\n")
            self._file.flush()
        except OSError as error:
            self.close()
            self._complain(f"the recording ended: {error.strerror}")

    def _encoded(self, value: Any) -> Any:
        """Clean and redacted, with dates and ids marked as such."""
        if isinstance(value, Mapping):
            return {
                self._clean.name(key): HIDDEN if is_secret(key) else self._encoded(inner)
                for key, inner in value.items()
                if key not in _PAYLOAD
            }
        if isinstance(value, list | tuple):
            return [self._encoded(inner) for inner in value]
        if isinstance(value, datetime):
            return {"$date": timestamp(value)}
        if value is None or isinstance(value, bool | int | float):
            return value
        made = getattr(value, "generation_time", None)
        if isinstance(made, datetime):
            return {"$id": str(value), "$made": made.timestamp()}
        return self._clean.value(value)


def _entry(heard: Heard) -> dict[str, Any] | None:
    match heard:
        case Loaded(snapshot, polled):
            return {"kind": "look", "polled": polled, **_snapshot(snapshot)}
        case WindowRead(window, version):
            return {"kind": "jobs", "version": version, "window": _window(window)}
        case Deltas(deltas):
            return {"kind": "changes", "changes": [_delta(delta) for delta in deltas]}
        case Truth():
            return {"kind": "count", **_truth(heard)}
        case Remembered(events):
            return {"kind": "events", "events": list(events)}
        case Lost(at, reason):
            return {"kind": "gap", "at": at, "reason": reason}
    return None


def _snapshot(one: Snapshot) -> dict[str, Any]:
    return {
        "at": one.at,
        "version": one.version,
        "nodes": list(one.nodes),
        "epoch": one.roster.epoch,
        "members": one.roster.members,
        "kinds": one.roster.to_document()["kinds"],
        "seq": one.seq,
        "counts": one.counts,
        "unnumbered": list(one.unnumbered),
        "unknown": one.unknown,
        "events": list(one.events),
        "window": _window(one.window),
        "server": [one.server.replica_set, one.server.primary],
    }


def _window(one: Window) -> dict[str, Any]:
    return {
        "documents": list(one.documents),
        "complete": one.is_complete,
        "known_from": one.known_from,
        "known": one.is_known,
    }


def _delta(one: Delta) -> list[Any]:
    # Paths stay pairs: a path has dots, and a name of a payload's own field must not be taken for
    # one.
    fields = [
        (path, value)
        for path, value in one.fields.items()
        if path.partition(".")[0] not in _PAYLOAD
    ]
    return [one.collection, one.kind.value, one.id, one.at, one.version, fields, one.removed]


def _truth(one: Truth) -> dict[str, Any]:
    waiting = [
        [rank, some.number, some.oldest_due, some.is_partial] for rank, some in one.waiting.items()
    ]
    return {
        "at": one.at,
        "version": one.version,
        "counts": one.counts,
        "seq": one.seq,
        "unnumbered": list(one.unnumbered),
        "unknown": one.unknown,
        "waiting": waiting,
        "epoch": one.epoch,
    }
