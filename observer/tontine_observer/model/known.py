"""What is known of a deployment, in the parts that keep it: `intake` writes them, the board reads
them. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable

from ..records.clean import Cleaner
from ..records.link import Link
from ..records.pane import Pane
from ..records.snapshot import ServerFacts, Truth
from ..records.timeline import Epoch
from .changelog import Changelog
from .heard import Heard
from .jobs import JobTable
from .nodes import Lives
from .pulse import TickWatch
from .tally import Tally
from .times import Times

Tap = Callable[[Heard], None]


class Known:
    """Everything that was heard and read, and how it is heard."""

    def __init__(self, database: str, clean: Cleaner | None = None) -> None:
        self.database = database
        self.clean = clean or Cleaner()
        self.link = Link()
        self.server = ServerFacts()
        self.seq = 0
        """The highest number that was given."""
        self.jobs = JobTable(self.clean)
        self.lives = Lives(self.clean)
        self.tally = Tally(self.clean)
        self.log = Changelog(self.clean)
        self.times = Times()
        self.pulse = TickWatch()
        self.truth: Truth | None = None
        """What was counted last."""
        self.settled_at: dict[str, float] = {}
        """When each node's counters last grew, where the changes of its jobs are not followed."""
        self.heard_at = 0.0
        """The newest moment of the server's clock that is known."""
        self.told_at = 0.0
        """The moment of the last change: it only grows."""
        self.watched_from: float | None = None
        """Since when nothing was missed; None while it is not watched."""
        self.taps: list[Tap] = []
        """Who else wants to hear of everything that comes in: a recording, a stream of lines."""
        self._generations: Counter[Pane] = Counter()

    @property
    def roster(self) -> Epoch:
        """The roster as it is now."""
        return self.lives.epochs[-1] if self.lives.epochs else Epoch(0.0, 0, ())

    def flowed(self) -> int:
        """About how many changes jobs have been through in all: they get a number, are claimed and
        are settled."""
        settled = sum(fact.done + fact.failed for fact in self.lives.facts().values())
        return self.seq + 2 * settled

    def tell(self, heard: Heard) -> None:
        """Pass on what came in."""
        for tap in self.taps:
            tap(heard)

    def touch(self, *panes: Pane, by: int = 1) -> None:
        """Something in these panes is new."""
        for pane in panes:
            self._generations[pane] += by

    def generation(self, pane: Pane) -> int:
        """Grows with everything that is new in a pane, by how much there is of it."""
        return self._generations[pane]
