"""Values that nobody expects in a document, and how to write them past every check."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

import bson
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.datetime_ms import DatetimeMS
from bson.raw_bson import RawBSONDocument
from pymongo.collection import Collection
from pymongo.errors import BulkWriteError, PyMongoError

MISSING = object()
"""The field is not there."""

NOT_UTF8 = "\x01no text\x01"
"""Stands for bytes that are no text, until it is written."""
_AS_BYTES = b"\xff\xfe\xc3\x28\x80\xf0\x9f\xff\xc0"
assert len(NOT_UTF8.encode()) == len(_AS_BYTES)

LONG = "1 MB of text"

VALUES: dict[str, Any] = {
    "missing": MISSING,
    "null": None,
    "empty text": "",
    "text": "abc",
    LONG: "x" * 1024 * 1024,
    "text that is not UTF-8": NOT_UTF8,
    "0": 0,
    "-1": -1,
    "1.5": 1.5,
    "2^31": 2**31,
    "2^63-1": 2**63 - 1,
    "-2^63": -(2**63),
    "NaN": float("nan"),
    "Infinity": float("inf"),
    "-Infinity": float("-inf"),
    "true": True,
    "[]": [],
    "[1]": [1],
    "{}": {},
    "{$x: 1}": {"$x": 1},
    "{not UTF-8}": {"inner": [NOT_UTF8]},
    "ObjectId": ObjectId("64f000000000000000000000"),
    "the year 1": datetime(1, 1, 1, tzinfo=UTC),
    "the year 9999": datetime(9999, 12, 31, tzinfo=UTC),
    "a date before Python's": DatetimeMS(-(2**62)),
    "a date beyond Python's": DatetimeMS(2**62),
    "binary": Binary(b"\x00\xff", 128),
    "UUID of three bytes": Binary(b"abc", 4),
    "Decimal128 NaN": Decimal128("NaN"),
    "Decimal128 1E+6000": Decimal128("1E+6000"),
    "regex": Regex("(", "i"),
    "code": Code("1", {}),
    "MinKey": MinKey(),
    "MaxKey": MaxKey(),
    "timestamp": Timestamp(2**32 - 1, 1),
}

_REFUSED = 11000


def with_odd(document: Mapping[str, Any], **odd: str) -> dict[str, Any]:
    """The document with the odd value of that name in each of these fields."""
    changed = dict(document)
    for field, name in odd.items():
        if VALUES[name] is MISSING:
            changed.pop(field, None)
        else:
            changed[field] = VALUES[name]
    return changed


def as_written(document: Mapping[str, Any]) -> RawBSONDocument:
    """Its bytes, with those that are no text where they belong."""
    return RawBSONDocument(bson.encode(document).replace(NOT_UTF8.encode(), _AS_BYTES))


def put(collection: Collection[Any], documents: Sequence[Mapping[str, Any]]) -> int:
    """Insert documents past the validator; how many the server took: no `_id` may be an array, no
    number be twice."""
    raw = [as_written(document) for document in documents]
    try:
        collection.insert_many(raw, ordered=False, bypass_document_validation=True)
    except BulkWriteError as error:
        return int(error.details["nInserted"])
    return len(raw)


def scribble(collection: Collection[Any], where: Mapping[str, Any], field: str, name: str) -> bool:
    """Write the odd value of that name into a field of one document, past the validator; False if
    there is none."""
    value = VALUES[name]
    update = {"$unset": {field: ""}} if value is MISSING else {"$set": {field: value}}
    try:
        answer = collection.update_one(where, as_written(update), bypass_document_validation=True)
    except PyMongoError as error:
        if getattr(error, "code", None) != _REFUSED:  # an index that allows each value once
            raise
        return False
    return bool(answer.matched_count)


def number(value: int) -> Int64:
    """As numbers of jobs are stored."""
    return Int64(value)
