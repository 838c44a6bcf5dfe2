"""One change of one document, as a change stream tells it. Pure: who applies it needs no
MongoDB."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from enum import StrEnum
from types import MappingProxyType
from typing import Any, NamedTuple

Version = tuple[int, int, int]
"""The server's operation time (seconds, counter) and a place among changes of one time: what is
newer is greater."""

NEVER: Version = (0, 0, 0)
LAST = 2**31
"""The place after every change of its time."""


class DeltaKind(StrEnum):
    """What happened to the document."""

    INSERTED = "inserted"  # `fields` is all of it
    REPLACED = "replaced"  # `fields` is all of it
    CHANGED = "changed"  # `fields` were set, `removed` were removed; paths are dotted
    # A removed path that ends in a place of an array: it was cut short there.
    GONE = "gone"
    DROPPED = "dropped"  # the whole collection, or its database


class Delta(NamedTuple):
    """What changed, when and in which order. A tuple, because thousands are made every second."""

    collection: str
    kind: DeltaKind
    id: Any
    at: float
    """The server's clock, in seconds since 1970: for people."""
    version: Version
    """For putting changes in order."""
    fields: Mapping[str, Any] = MappingProxyType({})
    """Dates may come without a time zone: they are UTC, as all that MongoDB stores."""
    removed: tuple[str, ...] = ()

    @property
    def is_whole(self) -> bool:
        return self.kind is DeltaKind.INSERTED or self.kind is DeltaKind.REPLACED

    @property
    def touched(self) -> set[str]:
        """The names of the fields of the document in which something changed."""
        return {path.partition(".")[0] for path in (*self.fields, *self.removed)}


def seconds(date: datetime) -> float:
    """A date among the fields, as `at` has it; one without a time zone is UTC."""
    return (date if date.tzinfo else date.replace(tzinfo=UTC)).timestamp()
