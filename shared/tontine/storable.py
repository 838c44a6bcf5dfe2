"""Which value MongoDB cannot store, where it is, and a way out. Pure; asked only after an encoding
has failed."""

from __future__ import annotations

import dataclasses
from collections.abc import Callable, Iterable, Iterator, Mapping
from typing import Any

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError

REFUSALS = (BSONError, OverflowError, UnicodeError, RecursionError)
DEEPEST = 100
_LONGEST = 120
_CODEC: CodecOptions[Any] = CodecOptions(uuid_representation=4, tz_aware=True)

# By the names of a value's types: none of these libraries is imported for it.
_WAYS_OUT = {
    "Decimal": "convert it with str(), or to a bson.Decimal128",
    "Fraction": "convert it with str() or float()",
    "complex": "pass its `real` and `imag`",
    "set": "convert it with list() or sorted()",
    "frozenset": "convert it with list() or sorted()",
    "range": "convert it with list()",
    "generator": "convert it with list()",
    "deque": "convert it with list()",
    "dict_keys": "convert it with list()",
    "dict_values": "convert it with list()",
    "PurePath": "convert it with str()",
    "date": "pass a datetime, or its isoformat()",
    "time": "pass its isoformat()",
    "timedelta": "pass its total_seconds()",
    "Enum": "pass its `value`",
    "ndarray": "convert it with its tolist()",
    "generic": "convert it with its item()",
    "Series": "convert it with its tolist()",
    "DataFrame": "convert it with its to_dict()",
    "BaseModel": "pass its model_dump(mode='json')",
    "memoryview": "convert it with bytes()",
    "bytearray": "convert it with bytes()",
    "IOBase": "pass its path or what it holds",
}


def unstorable(value: Any, name: str) -> str | None:
    """What inside `value` cannot be stored and what to do about it, in a sentence; None when all of
    it can be."""
    if _encodes(value):
        return None
    where, culprit, reason = next(_culprits(value, name, DEEPEST), (name, value, ""))
    if not reason:
        reason = f"is {_named(culprit)}, which MongoDB cannot store: {way_out(culprit)}"
    return f"`{where if len(where) <= _LONGEST else where[:_LONGEST] + '...'}` {reason}"


def way_out(value: Any) -> str:
    """How such a value can be passed all the same."""
    if dataclasses.is_dataclass(value) and not isinstance(value, type):
        return "convert it with dataclasses.asdict()"
    for base in type(value).__mro__:
        if base.__name__ in _WAYS_OUT:
            return _WAYS_OUT[base.__name__]
    if callable(value):
        return "pass its name, and look it up in the task"
    return (
        "convert it to text, numbers, lists and dictionaries, or store it elsewhere and pass "
        "where it is"
    )


def _culprits(value: Any, where: str, levels: int) -> Iterator[tuple[str, Any, str]]:
    """Each innermost value that cannot be encoded: where it is, itself, and the reason if its type
    is not it."""
    if levels == 0:
        yield where, value, "is nested too deep, or inside itself"
    elif isinstance(value, Mapping) and (pairs := _opened(value.items)):
        for key, inner in pairs:
            if not isinstance(key, str):
                yield (
                    where,
                    value,
                    f"has the key {_short(key)}, and keys must be text: convert it with str()",
                )
            elif "\0" in key or not _encodes(key):
                yield where, value, f"has the key {key!a}, which holds what no text of MongoDB can"
            elif not _encodes(inner):
                yield from _culprits(inner, f"{where}[{key!r}]", levels - 1)
    elif isinstance(value, list | tuple) and (inside := _opened(value.__iter__)):
        for place, inner in enumerate(inside):
            if not _encodes(inner):
                yield from _culprits(inner, f"{where}[{place}]", levels - 1)
    elif isinstance(value, int):
        yield (
            where,
            value,
            (
                "is a number beyond 64 bits, which MongoDB cannot store: convert it with str() or "
                "float()"
            ),
        )
    elif isinstance(value, str):
        yield (
            where,
            value,
            "is text with half characters (surrogates), which MongoDB cannot store: pass bytes",
        )
    else:
        yield where, value, ""


def _opened(look: Callable[[], Iterable[Any]]) -> list[Any]:
    try:
        return list(look())
    except Exception:  # noqa: BLE001 - a value's own code, which may raise anything when it is looked into
        return []


def _encodes(value: Any) -> bool:
    try:
        bson.encode({"": value}, codec_options=_CODEC)
    except Exception:  # noqa: BLE001 - the same
        return False
    return True


def _named(value: Any) -> str:
    name = type(value).__name__
    return f"{'an' if name[0] in 'AEIOUaeiou' else 'a'} {name}"


def _short(value: object) -> str:
    text = repr(value)
    return text if len(text) <= 60 else text[:57] + "..."
