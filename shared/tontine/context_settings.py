"""What a settings file says of each context, as numbers: times in seconds, memory in bytes."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

from .config import megabytes, seconds
from .errors import ConfigError
from .settings import SettingsFile

_MB = 1024 * 1024
_LEAST_MEMORY = 16


def contexts_of(file: SettingsFile) -> dict[str, dict[str, Any]]:
    """The values of each context by its name and key; `ConfigError` where one cannot work."""
    return {
        name: {key: _read(file, f"contexts.{name}.{key}", key, value) for key, value in one.items()}
        for name, one in file.contexts().items()
    }


def _read(file: SettingsFile, place: str, key: str, value: Any) -> Any:
    try:
        return _READ[key](value)
    except ConfigError as error:
        raise file.refusal(place, f"cannot be that: {error}") from None


def _between(least: int, most: int) -> Callable[[int], int]:
    def read(value: int) -> int:
        if not least <= value <= most:
            raise ConfigError(f"{value} is not among {least} to {most}")
        return value

    return read


def _memory(value: int | str) -> int:
    amount = megabytes(value)
    if amount < _LEAST_MEMORY:
        raise ConfigError(f"a worker needs about 30 MB before its first job, and {value!r} is less")
    return amount * _MB


def _time(value: float | str) -> float:
    limit = seconds(value)
    if limit <= 0:
        raise ConfigError("a worker needs some time to start")
    return limit


_READ: dict[str, Callable[[Any], Any]] = {
    "modules": tuple,
    "profile": str,
    "processes": _between(1, 512),
    "slots": _between(1, 1024),
    "env": dict,
    "max_jobs": _between(1, 2**31),
    "max_memory": _memory,
    "start_within": _time,
}
