"""How far a search in the store has come. Pure."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import datetime


@dataclass(frozen=True, slots=True)
class SearchProgress:
    """What was looked through, and what was found in it."""

    text: str
    """The filter."""
    at: datetime
    looked: int = 0
    total: int = 0
    """Jobs in all."""
    found: int = 0
    listed: int = 0
    """Those of them that are on the screen: the newest."""
    is_over: bool = False
    problem: str = ""
