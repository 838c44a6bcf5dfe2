"""The jobs that one worker has: which it was sent, which of them it has begun, which are to end."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field
from itertools import islice

from tontine.records.task_key import name_of
from tontine.store.settle import Outcome

from ..claims import Entry
from .pipe import Orders, TaskFacts
from .pool import REPLACED, Child

UNKNOWN = TaskFacts()
"""A task that nobody has any more, or that was sent before its worker said what it has."""


@dataclass(slots=True, eq=False)
class Workload:
    """What one worker has to do."""

    child: Child
    sent: dict[int, Entry] = field(default_factory=dict)
    """In the order of sending, which is the order in which its slots begin them."""
    reported: int = 0
    """How many of those that it had begun are no longer in `sent`."""
    served: int = 0
    is_recalled: bool = False
    """Its unstarted orders were called back: until it is idle again it gets no more than it can
    start."""
    recalls: int = 0
    """How many times it was asked for them and has not answered."""
    is_retiring: bool = False
    """It is replaced once it has nothing to do."""
    ending: dict[int, float] = field(default_factory=dict)
    """Jobs that were told to end, and when patience with them ends."""
    given_up: list[tuple[Entry, Outcome]] = field(default_factory=list)
    """Jobs for which it was killed. They are settled when it is gone: only then may they be anybody
    else's."""

    @property
    def can_work(self) -> bool:
        return self.child.can_work and not self.is_retiring

    @property
    def can_take(self) -> bool:
        """Whether to send it orders now. Not between a recall and its answer: `sent` would have
        unbegun ones before others that have begun, and after a crash nobody could tell which."""
        return self.can_work and not self.recalls

    @property
    def tasks(self) -> Mapping[str, TaskFacts]:
        """What it said that it has."""
        return {} if self.child.hello is None else self.child.hello.tasks

    def facts_of(self, entry: Entry) -> TaskFacts:
        """What its own code says of one of its jobs (MO7)."""
        return self.tasks.get(name_of(entry.task), UNKNOWN)

    def retire(self) -> None:
        """Give it nothing more, and let it end when what it runs has ended."""
        if not self.is_retiring:
            self.is_retiring = True
            if self.sent:
                self.recall()
        self.end_if_retired()

    def end_if_retired(self) -> None:
        if self.is_retiring and not self.sent:
            self.child.retire(REPLACED)

    def recall(self) -> None:
        """Ask for the orders it has not begun."""
        self.is_recalled = True
        self.recalls += 1
        self.child.send(Orders(recall=True))

    def take_report(self, seq: int) -> Entry | None:
        """An order that it had begun is over."""
        self.ending.pop(seq, None)
        if entry := self.sent.pop(seq, None):
            self.reported += 1
        return entry

    def give_up(self, entry: Entry, outcome: Outcome) -> None:
        """End one of its jobs and the worker with it: a sync task cannot be ended otherwise.

        Its neighbours go back at no cost, if they may run again.
        """
        self.child.kill("a job had to be ended")
        self.take_report(entry.seq)
        self.given_up.append((entry, outcome))

    def begun(self, count: int) -> list[int]:
        """Those of its orders that have begun, if it began so many in all."""
        return list(islice(self.sent, max(0, count - self.reported)))
