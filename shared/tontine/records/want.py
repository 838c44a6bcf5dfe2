"""What an operator wants a node to load: `wants` in its record, which anybody may write. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .job import is_text


@dataclass(frozen=True, slots=True)
class Want:
    """A source, as `tontine node` takes it, and the context that is to have it."""

    source: str
    context: str | None = None
    """None is the one that was started with it, or else the first."""

    def to_document(self) -> dict[str, Any]:
        named = {} if self.context is None else {"context": self.context}
        return {"source": self.source, **named}


def read_wants(value: Any) -> tuple[Want, ...] | None:
    """What can be read of it, each source once; None when that is no list at all, or one of things
    that are no wants: only an empty one wants nothing."""
    if not isinstance(value, list):
        return None
    found: dict[str, Want] = {}
    for one in value:
        if isinstance(one, Mapping) and is_text(one.get("source")) and one["source"]:
            context = one.get("context")
            want = Want(one["source"], context if is_text(context) else None)
            found.setdefault(want.source, want)
    return tuple(found.values()) if found or not value else None


def to_documents(wants: Iterable[Want]) -> list[dict[str, Any]]:
    """As a record has them."""
    return [want.to_document() for want in wants]
