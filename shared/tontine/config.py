"""Settings: defaults, then `TONTINE_*`, then flags become frozen records, once. Nothing else reads the environment."""

from __future__ import annotations

import os
import re
from dataclasses import dataclass, field
from datetime import timedelta
from pathlib import Path

import platformdirs

from .errors import ConfigError

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


def home() -> Path:
    """Where the embedded MongoDB and its data live: TONTINE_HOME, or the platform's user data directory."""
    chosen = os.environ.get("TONTINE_HOME")
    return Path(chosen).expanduser() if chosen else Path(platformdirs.user_data_dir("tontine"))


def mongod_override() -> str | None:
    """The mongod that TONTINE_MONGOD names, if any."""
    return os.environ.get("TONTINE_MONGOD") or None


def testing_uri() -> str | None:
    """The MongoDB on which an application's tests may make databases, if one was named: TONTINE_TEST_URI first."""
    return os.environ.get("TONTINE_TEST_URI") or os.environ.get("TONTINE_URI") or None


@dataclass(frozen=True, slots=True)
class StoreConfig:
    """Which database to speak to; no `uri` means the embedded MongoDB."""

    uri: str | None = field(default=None, repr=False)
    database: str = DEFAULT_DATABASE

    @classmethod
    def of(cls, uri: str | None = None, database: str | None = None) -> StoreConfig:
        """What was given, else the environment, else the defaults."""
        for option, value in (("URI", uri), ("database name", database)):
            if value == "":
                raise ConfigError(f"the {option} that was given is empty: is a variable not set?")
        name = database or os.environ.get("TONTINE_DATABASE") or DEFAULT_DATABASE
        if re.search(r'[/\\. "$*<>:|?\x00]', name) or len(name.encode()) > 63:
            raise ConfigError(f'{name!r} cannot be a database name: no spaces or / \\ . " $ * < > : | ? in it')
        return cls(uri or os.environ.get("TONTINE_URI") or None, name)


def in_worker() -> bool:
    """Whether this process is a node's worker, or was started by a task in one."""
    return "TONTINE_WORKER" in os.environ


def worker_environment(store: StoreConfig, *, share_uri: bool) -> dict[str, str]:
    """The environment of a node's workers. Whoever has the URI has the node's rights: tasks get it only if told so."""
    environment = {name: value for name, value in os.environ.items() if name != "TONTINE_URI"}
    if share_uri and store.uri:
        environment |= {"TONTINE_URI": store.uri, "TONTINE_DATABASE": store.database}
    return environment


@dataclass(frozen=True, slots=True)
class Timing:
    """The protocol's times in seconds; all but `help_after` follow the lease, the one number an operator sets."""

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
            raise ConfigError(f"a lease of {lease:g} s cannot work: choose between 2 s and 1 h (default 20 s)")
        return cls(
            lease_for=lease,
            heartbeat_every=lease / 10,
            heartbeat_limit=lease * 3 / 20,
            margin=lease / 4,
            upkeep_every=min(2.0, lease / 5),
        )

    def __post_init__(self) -> None:
        if not self.heartbeat_every + self.heartbeat_limit < self.lease_for / 3:
            raise ConfigError("heartbeat interval and time limit together must stay under a third of the lease")
        if not 0 < self.margin < self.lease_for:
            raise ConfigError("the margin must be shorter than the lease")

    @property
    def valid_for(self) -> float:
        """How long after a heartbeat was sent this node may start work (N4)."""
        return self.lease_for - self.margin
