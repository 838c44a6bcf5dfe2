"""One change of one document, as a change stream tells it."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from typing import Any


@dataclass(frozen=True, slots=True)
class Change:
    """The fields that a change set (all, when the document is new), removed and cut short; names may be dotted."""

    collection: str
    operation: str
    id: Any
    fields: Mapping[str, Any] = field(default_factory=dict)
    removed: Sequence[str] = ()
    at: datetime | None = None
    """The server's wall time of it."""
    truncated: Sequence[str] = ()

    @property
    def is_whole(self) -> bool:
        return self.operation in ("insert", "replace")

    @property
    def touched(self) -> set[str]:
        """The names of the fields of the document in which something changed."""
        return {name.partition(".")[0] for name in (*self.fields, *self.removed, *self.truncated)}
