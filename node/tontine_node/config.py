"""What one node was told, as one record."""

from __future__ import annotations

import os
import socket
from collections.abc import Mapping
from dataclasses import dataclass, field
from pathlib import Path

import orjson

from tontine import context_tables
from tontine.config import StoreConfig, Timing
from tontine.errors import ConfigError

from .log_style import LogStyle
from .memory import held_by_default, memory_limit

START_WITHIN = 60.0


@dataclass(frozen=True, slots=True)
class ContextConfig:
    """A named profile of workers: what they load and open, how many there are, and their limits."""

    name: str
    modules: tuple[str, ...]
    profile: str | None = None
    """Where its `tontine.Context` is, like `mail.context:mail`."""
    processes: int = 1
    slots: int = 1
    env: Mapping[str, str] = field(default_factory=dict, repr=False)
    """Variables for its workers, beside those of the node."""
    max_jobs: int | None = None
    max_memory: int | None = None
    """Bytes."""
    start_within: float = START_WITHIN
    """Seconds from the start of a worker until it is ready."""

    def argument(self) -> str:
        """What a worker must know of it, for its command line: no values of variables, which
        everybody on the machine could read there."""
        told = {"name": self.name, "modules": self.modules, "profile": self.profile}
        return orjson.dumps(told).decode()

    @classmethod
    def of_argument(cls, text: str) -> ContextConfig:
        """The same in the worker."""
        told = orjson.loads(text)
        return cls(told["name"], tuple(told["modules"]), told["profile"])


@dataclass(frozen=True, slots=True)
class NodeConfig:
    """Everything that `tontine node` can be told."""

    modules: tuple[str, ...] = ()
    """Of the context `default`, as `processes`, `slots` and the limits of workers are."""
    name: str = ""
    processes: int = 1
    slots: int = 1
    timing: Timing = field(default_factory=Timing)
    grace: float = 30.0
    listens: bool = True
    max_jobs: int | None = None
    max_memory: int | None = None
    """Bytes."""
    max_held: int = 0
    """Bytes of jobs and results that the master holds at a time; 0: by this machine's memory."""
    live_file: Path | None = None
    """Young while this node is well."""
    share_uri: bool = False
    """Whether tasks get the URI in their environment, and with it the node's rights."""
    log: LogStyle = field(default_factory=LogStyle)
    store: StoreConfig = field(default_factory=StoreConfig)
    contexts: tuple[ContextConfig, ...] = ()
    """At least one: that of the modules above, if no others are named."""
    available: tuple[str, ...] = ()
    """What it may be asked to load while it runs, beside what its contexts have (MO5)."""

    def __post_init__(self) -> None:
        if not self.modules and not self.contexts:
            raise ConfigError(
                "name at least one module with tasks, like `tontine node shop.tasks`, or contexts "
                "in tontine.toml"
            )
        if not 1 <= self.processes <= 512:
            raise ConfigError(f"--processes {self.processes} cannot work: choose 1 to 512")
        if not 1 <= self.slots <= 1024:
            raise ConfigError(f"--slots {self.slots} cannot work: choose 1 to 1024")
        if self.max_jobs is not None and self.max_jobs < 1:
            raise ConfigError("--max-jobs must be at least 1")
        if self.max_memory is not None and self.max_memory < 16 * 1024 * 1024:
            raise ConfigError(
                "--max-memory must be at least 16 MB: a worker needs about 30 MB before its "
                "first job"
            )
        if self.max_held < 0:
            raise ConfigError("--max-held must be at least 1 MB")
        if not self.max_held:
            object.__setattr__(self, "max_held", held_by_default(memory_limit()))
        if self.grace < 0:
            raise ConfigError("--grace cannot be negative")
        if self.live_file is not None and (
            self.live_file.is_dir() or not self.live_file.parent.is_dir()
        ):
            raise ConfigError(
                f"--live-file {self.live_file} cannot be: name a file in a directory that exists"
            )
        if not self.name:
            object.__setattr__(self, "name", f"{socket.gethostname().split('.')[0]}-{os.getpid()}")
        if not self.contexts:
            object.__setattr__(self, "contexts", (self._default_context(),))

    @property
    def loadable(self) -> frozenset[str]:
        """All that its workers may load."""
        return self.started_with.union(self.available)

    @property
    def started_with(self) -> frozenset[str]:
        """What its contexts load at first."""
        return frozenset(source for one in self.contexts for source in one.modules)

    def _default_context(self) -> ContextConfig:
        return ContextConfig(
            context_tables.DEFAULT,
            self.modules,
            processes=self.processes,
            slots=self.slots,
            max_jobs=self.max_jobs,
            max_memory=self.max_memory,
        )
