"""Documents that go on as they came: a worker gets a job's bytes, and the master looks only at what
it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

SMALL = 2048
"""Bytes. Decoding a whole document at once is quicker than field by field, if it has no large
payload."""


class Raw(dict[str, Any]):
    """A document's fields, and its bytes."""

    __slots__ = ("raw",)

    def __init__(self, fields: Any, raw: bytes) -> None:
        super().__init__(fields)
        self.raw = raw


class Some(list[Raw]):
    """The documents of one answer, which a server keeps to 16 MB; `is_cut` says that there would
    have been more."""

    is_cut = False


def identity(document: Raw) -> dict[str, RawBSONDocument]:
    """The condition that finds exactly this document, byte by byte: text that is not UTF-8 has no
    other way back."""
    raw = document.raw
    kind, start = raw[4], raw.index(b"\0", 5) + 1  # a server puts `_id` first
    if raw[5:start] != b"_id\0":
        raise ValueError("a document without its _id cannot be found again")
    value = raw[start : start + _size(kind, raw, start)]
    body = bytes([kind]) + b"$eq\0" + value + b"\0"
    return {"_id": RawBSONDocument((len(body) + 4).to_bytes(4, "little") + body)}


_FIXED = {
    0x01: 8,
    0x06: 0,
    0x07: 12,
    0x08: 1,
    0x09: 8,
    0x0A: 0,
    0x10: 4,
    0x11: 8,
    0x12: 8,
    0x13: 16,
    0x7F: 0,
    0xFF: 0,
}
_COUNTED = {0x02: 4, 0x0D: 4, 0x0E: 4, 0x0C: 16, 0x05: 5, 0x03: 0, 0x04: 0, 0x0F: 0}
"""What comes on top of a value that begins with its length, by BSON's number of its type."""


def _size(kind: int, raw: bytes, start: int) -> int:
    if kind in _FIXED:
        return _FIXED[kind]
    if kind == 0x0B:  # a regular expression: two texts that end with a zero
        return raw.index(b"\0", raw.index(b"\0", start) + 1) + 1 - start
    return int.from_bytes(raw[start : start + 4], "little") + _COUNTED[kind]


def read_all(batches: Iterable[bytes], codec: CodecOptions[Any]) -> list[Raw]:
    """The documents of some batches."""
    return [document for batch in batches for document in _read(batch, codec)]


def _read(batch: bytes, codec: CodecOptions[Any]) -> list[Raw]:
    raws = list(_cut(batch))
    if len(batch) <= SMALL * len(raws):
        try:
            return [
                Raw(fields, raw)
                for fields, raw in zip(bson.decode_all(batch, codec), raws, strict=True)
            ]
        except (BSONError, OverflowError, UnicodeError):
            # One of them has something inside that cannot be decoded, and it is not this reader's
            # business.
            pass
    return [read(raw, codec) for raw in raws]


def read(raw: bytes, codec: CodecOptions[Any]) -> Raw:
    """One document; what is inside its fields stays as it is."""
    return Raw(RawBSONDocument(raw, codec.with_options(document_class=RawBSONDocument)), raw)


def _cut(batch: bytes) -> Iterator[bytes]:
    start = 0
    while start < len(batch):
        end = start + int.from_bytes(batch[start : start + 4], "little")
        yield batch[start:end]
        start = end
