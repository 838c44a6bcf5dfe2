"""The named states that a worker had when a job began."""

from __future__ import annotations

from collections.abc import Mapping
from contextvars import ContextVar
from typing import Any

import bson
from bson.codec_options import CodecOptions, DatetimeConversion

_CODEC: CodecOptions[Any] = CodecOptions(
    tz_aware=True, uuid_representation=4, datetime_conversion=DatetimeConversion.DATETIME_AUTO
)

Versions = Mapping[str, tuple[int, bytes]]
"""What a worker has: the version of each state, and its value as {"r": value}."""


class Snapshot:
    """The states as they were when a job began; each is decoded when it is first asked for, and for
    this job alone."""

    __slots__ = ("_values", "_versions")

    def __init__(self, versions: Versions) -> None:
        self._versions = versions
        self._values: dict[str, Any] = {}

    def version(self, key: str) -> int | None:
        return self._versions[key][0] if key in self._versions else None

    def value(self, key: str) -> Any:
        if key not in self._values:
            self._values[key] = bson.decode(self._versions[key][1], _CODEC)["r"]
        return self._values[key]


_current: ContextVar[Snapshot | None] = ContextVar("tontine_states", default=None)


def current_states() -> Snapshot | None:
    """The states of the job that this code runs for; None where there were none when it began."""
    return _current.get()


def enter(snapshot: Snapshot) -> None:
    """Make it the one of this context (called before a task is run)."""
    _current.set(snapshot)
