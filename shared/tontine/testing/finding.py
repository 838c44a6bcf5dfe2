"""Which documents of an eager queue are meant: one by what names it, or all that meet filters, as
in a store."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

from ..errors import UnknownJob
from ..filter import Filter
from ..records.job import Job
from ..store.which import is_number, nothing_of, possible_ids, refuse_unclear
from .ending import Document, is_final


def find_one(documents: Mapping[int, Document], which: Any, key: str | None) -> Document:
    """The one that is meant; `UnknownJob` says what there is none of."""
    refuse_unclear(which, key)
    found = _by_itself(documents, which) if key is None else _by_key(documents, key)
    if found is None:
        raise UnknownJob(nothing_of(which, key))
    return found


def find(documents: Mapping[int, Document], filter: Filter, now: datetime) -> Iterator[Document]:
    """Those that meet the filter, newest first."""
    meant = filter.anchored(now)
    return (one for one in reversed([*documents.values()]) if meant.meets(one))


def named(documents: Mapping[int, Document], *ids: Any) -> Document | None:
    return next((one for one in documents.values() if one["_id"] in ids), None)


def _by_itself(documents: Mapping[int, Document], which: Any) -> Document | None:
    if isinstance(which, Job):
        return named(documents, which.id)
    if is_number(which):
        return documents.get(which)
    if not isinstance(which, str):
        return named(documents, which)
    by_number = documents.get(int(which)) if which.isascii() and which.isdecimal() else None
    return by_number or named(documents, *possible_ids(which))


def _by_key(documents: Mapping[int, Document], key: str) -> Document | None:
    having = [one for one in reversed([*documents.values()]) if one.get("key") == key]
    return next((one for one in having if not is_final(one)), None) or next(iter(having), None)
