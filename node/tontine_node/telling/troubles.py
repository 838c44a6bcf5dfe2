"""What is wrong inside this node at the moment, for its record: what fails, since when, how often,
and why."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

from tontine.clock import wall_time
from tontine.legible import legible

WHY_KEPT = 300


@dataclass(slots=True)
class OpenTrouble:
    """One thing that has been failing, without a success in between."""

    why: str
    since: datetime
    times: int = 1


class Troubles:
    """One node's troubles, by what they keep from working. The heartbeat's thread reads them."""

    def __init__(self) -> None:
        self._known: dict[str, OpenTrouble] = {}

    def note(self, what: str, why: object) -> None:
        """It failed once more."""
        text = legible(why or type(why).__name__, WHY_KEPT)
        if (known := self._known.get(what)) is None:
            self._known[what] = OpenTrouble(text, datetime.fromtimestamp(wall_time(), UTC))
        else:
            known.why = text
            known.times += 1

    def over(self, what: str) -> None:
        """It works again."""
        if self._known:
            self._known.pop(what, None)

    def has(self, what: str) -> bool:
        """Whether it fails at the moment."""
        return what in self._known

    def __bool__(self) -> bool:
        return bool(self._known)

    def to_document(self) -> list[dict[str, Any]]:
        """As the node's record shows them."""
        known = sorted(self._known.copy().items(), key=lambda item: item[0])
        return [
            {"what": what, "why": one.why, "since": one.since, "times": one.times}
            for what, one in known
        ]
