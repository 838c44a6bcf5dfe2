"""Values of documents, whatever a driver put into them. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any


def timestamp(value: Any) -> float | None:
    """A date as seconds since 1970; None when it is no date. One without a time zone is UTC."""
    if not isinstance(value, datetime):
        return None
    return (value - _EPOCH).total_seconds() if value.tzinfo is None else value.timestamp()


_EPOCH = datetime(1970, 1, 1)


def mapping(value: Any) -> Mapping[str, Any]:
    return value if isinstance(value, Mapping) else {}


def whole(value: Any) -> int:
    if isinstance(value, float):
        return int(value) if abs(value) < 2**53 else 0
    return value if isinstance(value, int) else 0


def number(value: Any) -> float:
    return float(value) if isinstance(value, int | float) else 0.0


def date(at: float) -> datetime:
    return datetime.fromtimestamp(at, UTC)


def as_date(at: float | None) -> datetime | None:
    return None if at is None else date(at)


def key_of(id: Any) -> Any:
    """Something to find a document by, whatever a driver took as its `_id`."""
    try:
        hash(id)
    except TypeError:
        return repr(id)
    return id


def job_key(id: Any) -> Any:
    """The same for jobs, of which there are many: an ObjectId compares in Python, its bytes do
    not."""
    binary = getattr(id, "binary", None)
    return (
        key_of(id) if binary is None else b"\x07" + binary
    )  # BSON's own mark, to be no other's bytes
