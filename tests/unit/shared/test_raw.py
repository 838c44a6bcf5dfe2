"""Documents by batches: their fields and their very bytes, whatever one of them has inside."""

from __future__ import annotations

import struct
from typing import Any

import bson
import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tontine.store.call import DECODED
from tontine.store.raw import SMALL, Raw, read, read_all

quick = settings(max_examples=60, deadline=None)

PAYLOAD = st.one_of(st.binary(max_size=50), st.sampled_from([b"x" * SMALL, b"x" * 3 * SMALL]))
BATCHES = st.lists(st.lists(PAYLOAD, min_size=1, max_size=12), max_size=4)


def document(seq: int, payload: Any = b"") -> bytes:
    return bson.encode(
        {"_id": seq, "seq": bson.Int64(seq), "task": "t.t", "args": {"payload": payload}, "lost": 0}
    )


def with_args(seq: int, args: bytes) -> bytes:
    """The document of a job whose arguments are these bytes."""
    head, tail = bson.encode({"seq": bson.Int64(seq), "task": "t.t"}), bson.encode({"lost": 0})
    inside = head[4:-1] + b"\x03args\0" + args + tail[4:-1]
    return struct.pack("<i", len(inside) + 5) + inside + b"\0"


def nested(inside: bytes) -> bytes:
    return struct.pack("<i", len(inside) + 5) + inside + b"\0"


ODD = {
    "a type that there is not": nested(b"\x7aodd\0????"),
    "a string longer than its document": nested(
        b"\x02odd\0" + struct.pack("<i", 10_000) + b"short\0"
    ),
    "a string that is not UTF-8": nested(b"\x02odd\0" + struct.pack("<i", 4) + b"\xff\xfe\xfd\0"),
    "a name that is not UTF-8": nested(b"\x10\xff\xfe\0" + struct.pack("<i", 1)),
    "a document inside that is too long": nested(b"\x03odd\0" + struct.pack("<i", 10_000) + b"\0"),
    "a date that no calendar has": nested(b"\x09odd\0" + struct.pack("<q", 2**62)),
}


def facts(found: Raw) -> tuple[Any, ...]:
    return found["seq"], found["task"], found["lost"]


@quick
@given(BATCHES)
def test_every_document_comes_with_its_fields_and_its_bytes(batches: list[list[bytes]]) -> None:
    seqs = iter(range(1, 1000))
    documents = [[document(next(seqs), payload) for payload in batch] for batch in batches]
    found = read_all([b"".join(batch) for batch in documents], DECODED)
    expected = [one for batch in documents for one in batch]
    assert [one.raw for one in found] == expected
    assert [facts(one) for one in found] == [(seq, "t.t", 0) for seq in range(1, len(expected) + 1)]
    assert [bytes(one["args"]["payload"]) for one in found] == [
        payload for batch in batches for payload in batch
    ]


def test_nothing_is_read_from_nothing() -> None:
    assert read_all([], DECODED) == []
    assert read_all([b""], DECODED) == []


def test_a_field_that_is_not_there_is_not_there() -> None:
    (found,) = read_all([document(1)], DECODED)
    assert found.get("run_at") is None
    assert "run_at" not in found


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
@pytest.mark.parametrize("size", [0, 5 * SMALL], ids=["small", "large"])
def test_what_cannot_be_decoded_inside_one_spoils_neither_it_nor_its_neighbours(
    odd: bytes, size: int
) -> None:
    documents = [document(1, b"x" * size), with_args(2, odd), document(3), with_args(4, odd)]
    found = read_all([b"".join(documents), document(5)], DECODED)
    assert [one.raw for one in found] == [*documents, document(5)]
    assert [facts(one) for one in found] == [(seq, "t.t", 0) for seq in range(1, 6)]
    assert bytes(found[2]["args"]["payload"]) == b""
    assert bytes(found[0]["args"]["payload"]) == b"x" * size


@pytest.mark.parametrize("odd", ODD.values(), ids=ODD)
def test_one_document_alone_is_read_no_less_leniently(odd: bytes) -> None:
    found = read(with_args(7, odd), DECODED)
    assert (facts(found), found.raw) == ((7, "t.t", 0), with_args(7, odd))
