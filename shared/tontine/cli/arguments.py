"""A task's arguments as a command takes them: JSON, with MongoDB's Extended JSON for what JSON has
no word for."""

from __future__ import annotations

import json
import sys
from collections.abc import Mapping
from pathlib import Path
from typing import Any, NoReturn

from ..errors import ConfigError
from ..legible import legible

LIKE = '\'{"image": "a.png"}\''


def read_arguments(text: str) -> dict[str, Any]:
    """The arguments in a text, in a file (`@mail.json`) or from stdin (`-`)."""
    return read_object(text, "ARGS_JSON", "the task's keyword arguments", LIKE)


def read_object(text: str, name: str, holding: str, like: str) -> dict[str, Any]:
    """The same for an object that is called `name` and should hold something."""
    what, source = _read(text, name)
    try:
        # Not orjson, which makes a float of a whole number that is too large to store.
        value = json.loads(source, parse_constant=_refuse, object_pairs_hook=_each_once)
    except (ValueError, RecursionError) as error:
        raise ConfigError(
            f"{what} is no JSON ({legible(error, 200)}): write it like {like}"
        ) from None
    if not isinstance(value, dict):
        shown = legible(source.decode(errors="replace").strip(), 40)
        raise ConfigError(f"{what} must be an object with {holding}, not {shown}")
    # A dollar in the text, or escaped: most arguments have none and need not be looked through.
    is_extended = b"$" in source or b"\\u0024" in source
    return (
        {name: _extended(one, name, what) for name, one in value.items()} if is_extended else value
    )


def _read(text: str, name: str) -> tuple[str, bytes]:
    if text == "-":
        return "what stdin gave", sys.stdin.buffer.read()
    if not text.startswith("@"):
        return name, text.encode("utf-8", "surrogateescape")
    file = text[1:]
    try:
        return legible(file, 200), Path(file).read_bytes()
    except (OSError, ValueError) as error:
        why = getattr(error, "strerror", None) or error
        raise ConfigError(
            f"{name} in {legible(file, 200)!r} cannot be read: {legible(why, 200)}"
        ) from None


def _refuse(constant: str) -> NoReturn:
    raise ValueError(f"{constant} is not allowed")


def _each_once(pairs: list[tuple[str, Any]]) -> dict[str, Any]:
    """Of two steps, or arguments, with one name, the first would go without a word."""
    value = dict(pairs)
    if len(value) < len(pairs):
        names = [name for name, _ in pairs]
        double = next(name for name in names if names.count(name) > 1)
        raise ValueError(f"{double!r} is there twice in one object")
    return value


def _extended(value: Any, path: str, what: str) -> Any:
    """What a value of parsed JSON stands for; one that is wrong is named by its place."""
    if isinstance(value, list):
        return [_extended(one, f"{path}[{place}]", what) for place, one in enumerate(value)]
    if not isinstance(value, dict):
        return value
    inner = {name: _extended(one, f"{path}.{name}", what) for name, one in value.items()}
    if not any(name.startswith("$") for name in inner):
        return inner
    return _of_bson(inner, path, what)


def _of_bson(value: Mapping[str, Any], path: str, what: str) -> Any:
    from bson import json_util

    options = json_util.JSONOptions(tz_aware=True, uuid_representation=4)
    try:
        return json_util.object_hook(value, options)
    except Exception as error:  # noqa: BLE001 - bson raises errors of many types for what it cannot read
        shown = legible(json.dumps(value, default=str), 80)
        raise ConfigError(
            f"{what}: `{legible(path, 100)}` is no Extended JSON ({legible(error, 120)}): {shown}; "
            'write it like {"$date": "2030-01-31T06:00:00Z"} or {"$oid": '
            '"65f0c0ffee65f0c0ffee65f0"}'
        ) from None
