"""Settings: defaults, then a file, then `TONTINE_*`, then flags become frozen records, once.

Nothing else reads the environment, but for what `tontine node` lets click read there.
"""

from __future__ import annotations

import logging
import os
import re
from collections.abc import Callable, Sequence
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path
from typing import Any

import platformdirs

from . import settings
from .errors import ConfigError
from .settings import SettingsFile
from .uri import database_of, holds_a_queue
from .variables import misspelt, tell

log = logging.getLogger("tontine")

DEFAULT_DATABASE = "tontine"

_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, "w": 604800.0}
_PART = re.compile(r"(\d+(?:\.\d+)?)\s*(ms|s|m|h|d|w)\s*")


Duration = float | str | timedelta


def seconds(text: Duration) -> float:
    """A duration in seconds, from `10`, `10s`, `1h30m`, `250ms`, `7d` or a timedelta."""
    if isinstance(text, timedelta):
        return text.total_seconds()
    if isinstance(text, int | float):
        return float(text)
    words = text.strip().lower()
    if re.fullmatch(r"\d+(\.\d+)?", words):
        return float(words)
    if not re.fullmatch(f"(?:{_PART.pattern})+", words):
        raise ConfigError(f"{text!r} is not a duration: write it like 10s, 5m, 1h30m or 7d")
    return sum(float(number) * _UNITS[unit] for number, unit in _PART.findall(words))


def megabytes(text: int | str) -> int:
    """An amount of memory in megabytes, from `500`, `500MB` or `2GB`."""
    found = re.fullmatch(r"(\d+)\s*(MB|GB)?", str(text).strip(), re.IGNORECASE)
    if found is None or not int(found[1]):
        raise ConfigError(f"{text!r} is no amount of memory: write it like 500MB or 2GB")
    return int(found[1]) * (1024 if (found[2] or "").upper() == "GB" else 1)


def home() -> Path:
    """Where the embedded MongoDB and its data live: TONTINE_HOME, or the platform's user data
    directory."""
    chosen = os.environ.get("TONTINE_HOME")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir("tontine"))


def mongod_override() -> str | None:
    """The mongod that TONTINE_MONGOD names, if any."""
    return os.environ.get("TONTINE_MONGOD") or None


def testing_uri() -> str | None:
    """The MongoDB on which an application's tests may make databases, if one was named:
    TONTINE_TEST_URI first."""
    return os.environ.get("TONTINE_TEST_URI") or os.environ.get("TONTINE_URI") or None


def refuse_misspelt() -> None:
    """Refuse a variable that was meant for a setting, and is none: what it says would be lost
    without a word."""
    for name, known in misspelt(os.environ).items():
        raise ConfigError(tell(name, known))


def _warn_of_misspelt() -> None:
    """The same for an application, whose environment may be another's to set: once in a process."""
    for name, known in misspelt(os.environ).items():
        if name not in _warned:
            _warned.add(name)
            log.warning("%s", tell(name, known))


_warned: set[str] = set()


@dataclass(frozen=True, slots=True)
class Said:
    """A setting's value, and who said so."""

    value: Any = field(repr=False)
    by: str


GIVEN, DEFAULT = "given", "default"


class _Sources:
    """What was given, the environment and the file, which is read only if it is needed."""

    def __init__(self, named: str | Path | None) -> None:
        self._named = named
        self._file: SettingsFile | None = None

    @property
    def file(self) -> SettingsFile:
        if self._file is None:
            self._file = read_file(self._named)
        return self._file

    def read(self) -> None:
        """Read the file also where nothing of it is needed: a mistake in it would go unnoticed."""
        _ = self.file

    def uri(self, given: str | None) -> Said:
        return _first(
            _given("URI", given), _environment("TONTINE_URI"), lambda: self._written("uri")
        )

    def database(self, given: str | None, implied: Said | None, *, is_near: bool) -> Said:
        """A name that was said before one that a URI implies; what is nearer to the user's hand
        before the file."""
        name = _first(
            _given("database name", given),
            _environment("TONTINE_DATABASE"),
            lambda: implied if is_near else None,
            lambda: self._written("database"),
            lambda: implied,
            lambda: Said(DEFAULT_DATABASE, DEFAULT),
        )
        if re.search(r'[/\\. "$*<>:|?\x00]', name.value) or len(name.value.encode()) > 63:
            raise ConfigError(
                f'{name.value!r} cannot be a database name: no spaces or / \\ . " $ * < > : | ? '
                "in it"
            )
        return name

    def embedded(self) -> Said:
        return _first(_switch("TONTINE_EMBEDDED"), lambda: self._switched("embedded"))

    def _written(self, key: str) -> Said | None:
        value = self.file.text(key)
        return Said(value, str(self.file.path)) if value else None

    def _switched(self, key: str) -> Said | None:
        value = self.file.switch(key)
        return None if value is None else Said(value, str(self.file.path))


def _first(*ways: Callable[[], Said | None]) -> Said:
    return next((said for way in ways if (said := way()) is not None), Said(None, DEFAULT))


def _given(option: str, value: str | None) -> Callable[[], Said | None]:
    if value == "":
        raise ConfigError(f"the {option} that was given is empty: is a variable not set?")
    return lambda: Said(value, GIVEN) if value else None


def _environment(name: str) -> Callable[[], Said | None]:
    return lambda: Said(value, name) if (value := os.environ.get(name)) else None


def _switch(name: str) -> Callable[[], Said | None]:
    words = {
        "1": True,
        "true": True,
        "yes": True,
        "on": True,
        "0": False,
        "false": False,
        "no": False,
        "off": False,
    }

    def read() -> Said | None:
        value = os.environ.get(name)
        if value and value.lower() not in words:
            raise ConfigError(f"{name} is {value!r}, and must be 1 or 0")
        return Said(words[value.lower()], name) if value else None

    return read


def read_file(named: str | Path | None = None) -> SettingsFile:
    """The file of settings: the one named, the one that TONTINE_CONFIG names, else the nearest.

    A task has none: whoever starts a node decides what its tasks may know.
    """
    if in_worker():
        return SettingsFile()
    return settings.read(str(named) if named else os.environ.get("TONTINE_CONFIG"))


def first_set(names: Sequence[str]) -> str:
    """The first of these variables that is set; the first of all if none is."""
    return next((name for name in names if os.environ.get(name)), names[0])


def file_named_by() -> str:
    """Who says which file of settings is read, if no flag does."""
    return "TONTINE_CONFIG" if os.environ.get("TONTINE_CONFIG") else DEFAULT


def places() -> dict[str, Said]:
    """What concerns the embedded MongoDB itself, and only a variable can say."""
    named = {"home": ("TONTINE_HOME", str(home())), "mongod": ("TONTINE_MONGOD", mongod_override())}
    return {
        key: Said(value, name if os.environ.get(name) else DEFAULT)
        for key, (name, value) in named.items()
    }


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Which database to speak to; no `uri` means the embedded MongoDB."""

    uri: str | None = field(default=None, repr=False)
    database: str = DEFAULT_DATABASE
    embedded: bool | None = None
    """Whether the embedded MongoDB may be used; None when nothing was said about it."""

    @classmethod
    def of(
        cls, uri: str | None = None, database: str | None = None, *, file: str | Path | None = None
    ) -> StoreConfig:
        """What was given, else the environment, else the file, else the defaults."""
        _warn_of_misspelt()
        where, name, embedded = told(uri, database, file=file)
        return cls(where.value, name.value, embedded.value)


def told(
    uri: str | None, database: str | None, *, file: str | Path | None = None
) -> tuple[Said, Said, Said]:
    """The URI, the database and whether the embedded MongoDB may be used, each with who said so."""
    sources = _Sources(file)
    if uri is None:
        sources.read()
    where = sources.uri(uri)
    path = database_of(where.value) if where.value else None
    implied = Said(path, "the path of the URI") if path else None
    name = sources.database(database, implied, is_near=where.by in (GIVEN, "TONTINE_URI"))
    return where, name, Said(None, DEFAULT) if where.value else sources.embedded()


def may_embed() -> bool | None:
    """Whether the embedded MongoDB may be used, also where another is named; None when nothing was
    said about it."""
    answer: bool | None = _Sources(None).embedded().value
    return answer


def database_for(given: str | None, of_handle: str | None) -> str:
    """The database for a connection that the application brings, and which names `of_handle`
    itself, if any."""
    _warn_of_misspelt()
    implied = (
        Said(of_handle, "the default database of the client")
        if of_handle and holds_a_queue(of_handle)
        else None
    )
    return str(_Sources(None).database(given, implied, is_near=True).value)


def in_worker() -> bool:
    """Whether this process is a node's worker, or was started by a task in one."""
    return "TONTINE_WORKER" in os.environ


def worker_environment(store: StoreConfig, *, share_uri: bool) -> dict[str, str]:
    """The environment of a node's workers. Whoever has the URI has the node's rights: tasks get it
    only if told so."""
    environment = {name: value for name, value in os.environ.items() if name != "TONTINE_URI"}
    if share_uri and store.uri:
        environment |= {"TONTINE_URI": store.uri, "TONTINE_DATABASE": store.database}
    return environment


@dataclass(frozen=True, slots=True)
class Timing:
    """The protocol's times in seconds; all but `help_after` follow the lease, the one number an
    operator sets."""

    lease_for: float = 20.0
    heartbeat_every: float = 2.0
    heartbeat_limit: float = 3.0
    margin: float = 5.0
    help_after: float = 0.5
    upkeep_every: float = 2.0

    @classmethod
    def of_lease(cls, lease: float) -> Timing:
        """The times for a lease, checked against each other."""
        if not 2.0 <= lease <= 3600.0:
            raise ConfigError(
                f"a lease of {lease:g} s cannot work: choose between 2 s and 1 h (default 20 s)"
            )
        return cls(
            lease_for=lease,
            heartbeat_every=lease / 10,
            heartbeat_limit=lease * 3 / 20,
            margin=lease / 4,
            upkeep_every=min(2.0, lease / 5),
        )

    def __post_init__(self) -> None:
        if not self.heartbeat_every + self.heartbeat_limit < self.lease_for / 3:
            raise ConfigError(
                "heartbeat interval and time limit together must stay under a third of the lease"
            )
        if not 0 < self.margin < self.lease_for:
            raise ConfigError("the margin must be shorter than the lease")

    @property
    def valid_for(self) -> float:
        """How long after a heartbeat was sent this node may start work (N4)."""
        return self.lease_for - self.margin
