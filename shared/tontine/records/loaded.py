"""What a node's record says of the modules it has, or is to have, and of its contexts. Pure, and
tolerant of anything: whoever wrote it may have written anything."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..legible import count, legible
from .job import is_text

SERVING, LOADING, BROKEN, REFUSED = "serving", "loading", "broken", "refused"
ABSENT = (LOADING, "draining", REFUSED)
"""States in which nobody offers it."""


@dataclass(frozen=True, slots=True)
class Loaded:
    """One version of a module on one node."""

    name: str
    version: str = ""
    state: str = SERVING
    """Nodes that do not tell serve all that they have."""
    context: str = ""
    source: str = ""
    digest: str = ""
    error: str = ""
    tasks: tuple[str, ...] = ()
    authors: tuple[str, ...] = ()

    @property
    def complaint(self) -> str:
        """What is wrong with it, as the predicate of a sentence about its node; empty where nothing
        is."""
        what = legible(f"{self.name} {self.version}".strip(), 100)
        why = f": {legible(self.error, 200)}" if self.error else ""
        if self.state == BROKEN:
            return f"has a broken module, {what}{why}"
        return f"may not load {what}{why}" if self.state == REFUSED else ""


def loaded_in(record: Mapping[str, Any]) -> list[Loaded]:
    """The modules of a record, in its order; what has no name is none."""
    return [
        Loaded(
            one["name"],
            _text(one.get("version")),
            _text(one.get("state")) or SERVING,
            _text(one.get("context")),
            _text(one.get("source")),
            _text(one.get("digest")),
            _text(one.get("error")),
            _texts(one.get("tasks")),
            _texts(one.get("authors")),
        )
        for one in _listed(record.get("modules"))
        if isinstance(one, Mapping) and is_text(one.get("name"))
    ]


@dataclass(frozen=True, slots=True)
class ContextState:
    """A context of a node, as its record has it."""

    name: str
    state: str
    processes: int = 0
    ready: int = 0
    error: str = ""
    tries: int = 0
    next_at: datetime | None = None

    @property
    def is_ready(self) -> bool:
        return self.state == "ready"

    @property
    def complaint(self) -> str:
        """That it is not ready, and why, as the predicate of a sentence about its node; empty where
        it is, or where nothing has gone wrong yet."""
        if self.is_ready or not self.error:
            return ""
        tries = f" after {count(self.tries, 'try', 'tries')}" if self.tries else ""
        name, state = legible(self.name, 60), legible(self.state, 20)
        return f"has the context {name} {state}{tries}: {legible(self.error, 200)}"


def contexts_in(record: Mapping[str, Any]) -> list[ContextState]:
    """The contexts of a record; none where it does not tell of them."""
    return [
        ContextState(
            one["name"],
            _text(one.get("state")),
            _whole(one.get("processes")),
            _whole(one.get("ready")),
            _text(one.get("error")),
            _whole(one.get("tries")),
            at if isinstance(at := one.get("next_at"), datetime) else None,
        )
        for one in _listed(record.get("contexts"))
        if isinstance(one, Mapping) and is_text(one.get("name"))
    ]


def texts_in(record: Mapping[str, Any], field: str) -> tuple[str, ...]:
    """A list of texts in a record."""
    return _texts(record.get(field))


def _listed(value: Any) -> Sequence[Any]:
    return value if isinstance(value, list) else ()


def _text(value: Any) -> str:
    return value if is_text(value) else ""


def _texts(value: Any) -> tuple[str, ...]:
    return tuple(one for one in _listed(value) if is_text(one))


def _whole(value: Any) -> int:
    return value if isinstance(value, int) and not isinstance(value, bool) else 0
