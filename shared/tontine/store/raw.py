"""Documents that go on as they came: a worker gets a job's bytes, and the master looks only at what it needs."""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

SMALL = 2048
"""Bytes. Decoding a whole document at once is quicker than field by field, if it has no large payload."""


class Raw(dict[str, Any]):
    """A document's fields, and its bytes."""

    __slots__ = ("raw",)

    def __init__(self, fields: Any, raw: bytes) -> None:
        super().__init__(fields)
        self.raw = raw


def read_all(batches: Iterable[bytes], codec: CodecOptions[Any]) -> list[Raw]:
    """The documents of some batches."""
    return [document for batch in batches for document in _read(batch, codec)]


def _read(batch: bytes, codec: CodecOptions[Any]) -> list[Raw]:
    raws = list(_cut(batch))
    if len(batch) <= SMALL * len(raws):
        try:
            return [Raw(fields, raw) for fields, raw in zip(bson.decode_all(batch, codec), raws, strict=True)]
        except (BSONError, OverflowError, UnicodeError):
            pass  # one of them has something inside that cannot be decoded, and it is not this reader's business
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
