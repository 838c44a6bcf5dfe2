"""What MongoDB cannot store is named, with where it is and a way out."""

from __future__ import annotations

import dataclasses
import enum
from collections.abc import Iterator, Mapping
from datetime import UTC, date, datetime, timedelta
from decimal import Decimal
from pathlib import Path
from typing import Any
from uuid import uuid4

import bson
import pytest
from bson import Decimal128, ObjectId

from tontine.storable import unstorable


class Colour(enum.Enum):
    RED = 1


@dataclasses.dataclass
class Point:
    x: int = 0


class Ndarray:
    pass


Ndarray.__name__ = "ndarray"
Loop: list[Any] = []
Loop.append(Loop)


class Angry(Mapping[str, Any]):
    """A value whose own code raises when it is looked into."""

    def __getitem__(self, key: str) -> Any:
        raise ZeroDivisionError

    def __iter__(self) -> Iterator[str]:
        raise ZeroDivisionError

    def __len__(self) -> int:
        return 1


@pytest.mark.parametrize(
    ("value", "said"),
    [
        (
            Decimal("0.5"),
            (
                "is a Decimal, which MongoDB cannot store: convert it with str(), or to a "
                "bson.Decimal128"
            ),
        ),
        ({1, 2}, "is a set, which MongoDB cannot store: convert it with list() or sorted()"),
        (Path("a"), "convert it with str()"),
        (
            date(2030, 1, 1),
            "is a date, which MongoDB cannot store: pass a datetime, or its isoformat()",
        ),
        (timedelta(1), "pass its total_seconds()"),
        (Colour.RED, "is a Colour, which MongoDB cannot store: pass its `value`"),
        (Point(), "is a Point, which MongoDB cannot store: convert it with dataclasses.asdict()"),
        (Ndarray(), "is a ndarray, which MongoDB cannot store: convert it with its tolist()"),
        (range(3), "convert it with list()"),
        (
            object(),
            (
                "is an object, which MongoDB cannot store: convert it to text, numbers, lists and "
                "dictionaries"
            ),
        ),
        (print, "pass its name, and look it up in the task"),
        (2**64, "is a number beyond 64 bits"),
        ("\ud800", "is text with half characters"),
        ({1: 2}, "has the key 1, and keys must be text: convert it with str()"),
        ({"a\0": 2}, "which holds what no text of MongoDB can"),
        (Loop, "is nested too deep, or inside itself"),
        (Angry(), "is an Angry, which MongoDB cannot store"),
    ],
    ids=lambda value: type(value).__name__ if not isinstance(value, str) else "",
)
def test_the_value_is_named_with_its_place_and_a_way_out(value: Any, said: str) -> None:
    told = unstorable({"fine": [1, None], "deep": [{"it": value}]}, "args")
    assert told is not None
    assert said in told
    assert told.startswith("`args['deep'][0]['it']")


def test_what_can_be_stored_is_nobodys_problem() -> None:
    fine = {
        "a": [
            1,
            2.5,
            "x",
            None,
            True,
            b"y",
            datetime.now(UTC),
            uuid4(),
            ObjectId(),
            Decimal128("1"),
            (1, 2),
        ]
    }
    assert unstorable(fine, "args") is None
    assert bson.encode({"a": Decimal128("0.5")}), "the way out is one"


def test_a_long_way_to_it_is_cut() -> None:
    value: Any = {1}
    for _ in range(60):
        value = {"level": value}
    told = unstorable(value, "args")
    assert told is not None
    assert len(told) < 250
