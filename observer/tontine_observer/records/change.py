"""One line of what happened. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime
from enum import StrEnum

from .pane import Target


class ChangeKind(StrEnum):
    """What kind of thing happened; the changes pane filters by these."""

    NODE = "node"
    EPOCH = "epoch"
    ERROR = "error"  # a job that failed
    REQUEST = "request"  # of an operator
    JOB = "job"
    GAP = "gap"  # of the recording: something may be missing
    NOTE = "note"  # said by the demo, or of a kind this version does not know


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the changes pane."""

    at: datetime
    kind: ChangeKind
    subject: str
    """Whom or what it is about, as shown: a node's name, `E14`, `#4889`."""
    text: str
    target: Target | None = None
    times: int = 1
    """How many like it were folded into this one."""
    last: str = ""
    """Whom or what the last of these was about; all else is the first's."""
