"""What a node says of its modules and contexts, clean. Pure."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass
from typing import Any

from tontine.records.loaded import ABSENT, BROKEN, SERVING, contexts_in, loaded_in

from .clean import Cleaner
from .values import timestamp


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """One version of a module that a node has, or is to have."""

    name: str
    version: str
    tasks: tuple[str, ...]
    state: str = SERVING
    context: str = ""
    source: str = ""
    digest: str = ""
    error: str = ""

    @property
    def is_offered(self) -> bool:
        """Whether its node claims jobs of it."""
        return self.state not in ABSENT

    @property
    def is_faulty(self) -> bool:
        return self.state in (BROKEN, "refused")


@dataclass(frozen=True, slots=True)
class ContextRow:
    """A context of a node."""

    name: str
    state: str
    processes: int = 0
    ready: int = 0
    error: str = ""
    tries: int = 0
    next_at: float | None = None
    """When it is tried again, by the server's clock."""

    @property
    def is_faulty(self) -> bool:
        """Whether it is not ready, and something has gone wrong."""
        return self.state != "ready" and bool(self.error)


def module_rows(record: Mapping[str, Any], clean: Cleaner) -> tuple[ModuleRow, ...]:
    return tuple(
        ModuleRow(
            clean.name(one.name),
            clean.name(one.version),
            tuple(map(clean.name, one.tasks)),
            clean.name(one.state),
            clean.name(one.context),
            clean.text(one.source),
            clean.name(one.digest),
            clean.text(one.error, 1000),
        )
        for one in loaded_in(record)
    )


def context_rows(record: Mapping[str, Any], ahead: float, clean: Cleaner) -> tuple[ContextRow, ...]:
    """Of a node whose clock is so many seconds ahead of the server's."""
    return tuple(
        ContextRow(
            clean.name(one.name),
            clean.name(one.state),
            one.processes,
            one.ready,
            clean.text(one.error, 1000),
            one.tries,
            None if (at := timestamp(one.next_at)) is None else at - ahead,
        )
        for one in contexts_in(record)
    )
