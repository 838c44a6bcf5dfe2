"""What happened, as one tells it: a death with its heirs and the jobs it held is one story, and so
is a start, a stop, a pause and a rolling restart. Pure.

A story is made of what is heard, in whichever order: of records, rosters, jobs and events. It is
told anew with everything that is added to it.
"""

from __future__ import annotations

from collections.abc import Hashable, Iterator, Mapping, Sequence
from dataclasses import dataclass, field
from enum import StrEnum

from tontine.legible import count, duration
from tontine.records.states import JobState
from tontine.rules.complaint import together

from ..records.job import JobRow

STORIES_KEPT = 1_000
BACK_WITHIN, ROLLING_WITHIN = 120.0, 120.0
"""Seconds: a node that is back in the first was restarted; restarts so close together are one."""
MISTAKEN_WITHIN = 60.0
NUMBERS_SHOWN = 3
STOPPED, EXPIRED = "stopped", "lease expired"


class Plot(StrEnum):
    """What a story is about."""

    START = "start"
    END = "end"
    PAUSE = "pause"
    RESUME = "resume"
    RESTART = "restart"


@dataclass(slots=True)
class Story:
    """One of them, as far as it is known."""

    plot: Plot
    node: str
    name: str
    at: float
    told_at: float
    """When something was last added to it."""
    told: str = ""
    """How it was told last."""
    is_over: bool = False
    """It has come to what it is about: joined, dead, paused."""
    why: str = ""
    heirs: tuple[str, ...] | None = None
    """The members after it; None while the roster has not changed."""
    held: dict[Hashable, str] = field(default_factory=dict)
    """Jobs that a dead node held, and what became of each: a state, or who has it."""
    numbers: tuple[int, ...] = ()
    """Of the same jobs."""
    is_followed: bool = False
    """Whether it is known what it held."""
    given_back: int = 0
    names: list[str] = field(default_factory=list)
    """Of a restart: who is back."""
    paused_at: float = float("-inf")
    """Of a resumption: when the pause began that it ends."""

    @property
    def is_death(self) -> bool:
        return self.plot is Plot.END and self.is_over and self.why != STOPPED

    @property
    def rescued(self) -> int:
        """Jobs of a dead node that others have, or have ended."""
        if not self.is_followed:
            return self.given_back
        return len(self.held) - self.lost - self.waiting

    @property
    def lost(self) -> int:
        return sum(fate in (JobState.FAILED, "") for fate in self.held.values())

    @property
    def waiting(self) -> int:
        return sum(fate in (JobState.QUEUED, JobState.WORKING) for fate in self.held.values())

    def text(self) -> str:
        match self.plot:
            case Plot.START:
                return self._start()
            case Plot.PAUSE:
                return f"paused{self._share()}" if self.is_over else "finishes, then pauses"
            case Plot.RESUME:
                is_back = self.is_over or self.heirs is not None
                return f"works again{self._size()}" if is_back else "is to work again"
            case Plot.RESTART:
                return self._restart()
        return self._death() if self.is_death else self._stop()

    def _start(self) -> str:
        if self.heirs is not None:
            return f"joined{self._size()}"
        return "started" if self.is_over else "is starting"

    def _restart(self) -> str:
        if len(self.names) == 1:
            return f"restarted in {duration(self.told_at - self.at)}{self._size()}"
        took = duration(self.told_at - self.at)
        return f"rolling restart: {together(self.names, 6)} are back, in {took}"

    def _stop(self) -> str:
        verb = "stopped" if self.is_over else "finishes, then stops"
        return f"{verb}{self._share()}"

    def _death(self) -> str:
        why = "" if self.why in (EXPIRED, "") else f" ({self.why})"
        return f"died{why}{self._holding()}{self._inheritance()}"

    def _holding(self) -> str:
        if not self.is_followed:
            return f" holding {count(self.given_back, 'job')}" if self.given_back else ""
        if not self.held:
            return " holding nothing"
        if len(self.numbers) == len(self.held) <= NUMBERS_SHOWN:
            return " holding " + " ".join(f"#{seq}" for seq in sorted(self.numbers))
        return f" holding {count(len(self.held), 'job')}"

    def _inheritance(self) -> str:
        if self.heirs is not None and not self.heirs:
            return ", and nobody is left to inherit"
        takers = sorted({fate for fate in self.held.values() if fate not in _STATES})
        if self.held and not self.waiting:
            them = "it" if len(self.held) == 1 else "them"
            if takers:
                return f": {together(takers)} {_have(takers)} {them}, {self.lost} lost"
            return (
                f": {them} ended elsewhere, {self.lost} lost"
                if not self.lost
                else (f", {self.lost} lost")
            )
        share = self._share()
        if self.waiting and share:
            return f"{share}, {count(self.waiting, 'job')} to be claimed again"
        return share or ": its share is to be inherited"

    def _share(self) -> str:
        if self.heirs is None:
            return ""
        return f": {together(self.heirs)} {_have(self.heirs)} its share" if self.heirs else ""

    def _size(self) -> str:
        return "" if self.heirs is None else f": {count(len(self.heirs), 'member')} now"


_STATES = {*(state.value for state in JobState), ""}


def _have(names: Sequence[str]) -> str:
    return "has" if len(names) == 1 else "have"


class Stories:
    """All stories, by node and plot."""

    def __init__(self) -> None:
        self._stories: dict[tuple[str, Plot], Story] = {}
        self._held: dict[Hashable, Story] = {}
        """Jobs of the dead that nobody has claimed again yet."""
        self.mistaken: list[Story] = []
        """Those that turned out to be others."""

    @property
    def has_orphans(self) -> bool:
        """Whether anybody should be told of every change of a job."""
        return bool(self._held)

    def started(self, at: float, node: str, name: str, *, is_ready: bool) -> Story:
        story = self._of(Plot.START, at, node, name)
        return self._add(story, at, is_over=story.is_over or is_ready)

    def pausing(self, at: float, node: str, name: str, *, is_done: bool) -> Story:
        self._stories.pop((node, Plot.RESUME), None)
        story = self._instead(Plot.END, Plot.PAUSE, at, node, name)
        return self._add(story, at, is_over=story.is_over or is_done)

    def resuming(self, at: float, node: str, name: str, *, is_done: bool) -> Story:
        pause = self._stories.pop((node, Plot.PAUSE), None)
        story = self._instead(Plot.START, Plot.RESUME, at, node, name)
        if pause is not None:
            story.paused_at = pause.at
        return self._add(story, at, is_over=story.is_over or is_done)

    def stopping(self, at: float, node: str, name: str) -> Story:
        return self._add(self._of(Plot.END, at, node, name), at)

    def died(
        self,
        at: float,
        node: str,
        name: str,
        why: str,
        held: Mapping[Hashable, JobRow] | None = None,
    ) -> Story:
        """A node's end; `held` where it is known what it held."""
        story = self._of(Plot.END, at, node, name)
        if held is not None and not story.is_followed:
            story.is_followed = True
            story.held = dict.fromkeys(held, JobState.WORKING.value)
            story.numbers = tuple(row.seq for row in held.values() if row.seq is not None)
            self._held.update(dict.fromkeys(held, story))
        return self._add(story, at, is_over=True, why=why or story.why)

    def gave_back(self, at: float, node: str, name: str, jobs: int) -> Story:
        """Jobs of a dead node went back to the queue."""
        story = self._of(Plot.END, at, node, name)
        return self._add(story, at, given_back=story.given_back + jobs)

    def job_moved(self, at: float, key: Hashable, row: JobRow | None, holder: str) -> Story | None:
        """What became of a job, if a dead node held it."""
        story = self._held.get(key)
        if story is None:
            return None
        fate = "" if row is None else row.state
        if row is not None and row.state == JobState.WORKING:
            if row.node == story.node:
                return None
            fate = holder
        if fate == story.held.get(key):
            return None
        story.held[key] = fate
        if fate != JobState.QUEUED:
            del self._held[key]
        return self._add(story, at)

    def roster(
        self, at: float, new: Sequence[str], old: Sequence[str], names: Mapping[str, str]
    ) -> Iterator[Story]:
        """A new roster belongs to the stories of those who came and went."""
        heirs = tuple(names.get(one, one) for one in new)
        for node in [one for one in new if one not in old]:
            start = self._stories.get((node, Plot.START))
            resumed = self._stories.get((node, Plot.RESUME))
            has_joined = start is not None and start.heirs is not None
            is_back = has_joined or (resumed is not None and at >= resumed.paused_at)
            plot = Plot.RESUME if is_back else Plot.START
            story = self._of(plot, at, node, names.get(node, node))
            yield self._add(story, at, heirs=heirs)
        for node in [one for one in old if one not in new]:
            plot = Plot.PAUSE if (node, Plot.PAUSE) in self._stories else Plot.END
            story = self._of(plot, at, node, names.get(node, node))
            yield self._add(story, at, heirs=heirs)

    def restart(self, back: Story) -> tuple[Story, list[Story]] | None:
        """The story of a restart that somebody's return makes, and those that it takes the place
        of; None when it is none."""
        if back.plot is not Plot.START or back.heirs is None:
            return None
        ends = [
            one
            for one in self._stories.values()
            if one.plot is Plot.END
            and one.name == back.name
            and one.node != back.node
            and one.is_over
            and not one.is_death
            and 0 <= back.at - one.at < BACK_WITHIN
        ]
        if not ends:
            return None
        end = ends[-1]
        rolling = self._rolling(end.at)
        if rolling is None:
            rolling = self._of(Plot.RESTART, end.at, end.node, end.name)
        if back.name not in rolling.names:
            rolling.names.append(back.name)
        for story in (end, back):
            self._stories.pop((story.node, story.plot), None)
        return self._add(rolling, back.told_at, heirs=back.heirs), [end, back]

    def _rolling(self, at: float) -> Story | None:
        """A restart that goes on at that moment."""
        known = [one for one in self._stories.values() if one.plot is Plot.RESTART]
        return next((one for one in reversed(known) if at - one.told_at < ROLLING_WITHIN), None)

    def survived(self, since: float) -> tuple[int, int, int]:
        """Deaths that others survived, jobs they rescued, jobs that were lost."""
        deaths = [
            one for one in self._stories.values() if one.is_death and one.heirs and one.at >= since
        ]
        return (
            len(deaths),
            sum(one.rescued for one in deaths),
            sum(one.lost for one in deaths),
        )

    def latest(self, at: float, within: float) -> Story | None:
        """The story that was added to last, if that is not too long ago."""
        told = [one for one in self._stories.values() if 0 <= at - one.told_at < within]
        return max(told, key=lambda one: one.told_at, default=None)

    def _instead(self, wrong: Plot, plot: Plot, at: float, node: str, name: str) -> Story:
        """A story that was taken for another one as long as only the roster told of it."""
        taken = self._stories.get((node, wrong))
        story = self._of(plot, at, node, name)
        if taken is not None and not taken.is_over and abs(at - taken.told_at) < MISTAKEN_WITHIN:
            del self._stories[(node, wrong)]
            self.mistaken.append(taken)
            story.heirs = taken.heirs
        return story

    def _of(self, plot: Plot, at: float, node: str, name: str) -> Story:
        story = self._stories.get((node, plot))
        if story is None:
            story = self._stories[(node, plot)] = Story(plot, node, name, at, at)
            if len(self._stories) > STORIES_KEPT:
                del self._stories[next(iter(self._stories))]
        elif story.name == node != name:
            story.name = name  # a roster told of the node before its record was there
        return story

    def _add(self, story: Story, at: float, **facts: object) -> Story:
        """Facts that are new make it newer."""
        for name, value in facts.items():
            setattr(story, name, value)
        story.at = min(story.at, at)
        if story.text() != story.told:
            story.told_at = max(story.told_at, at)
            story.told = story.text()  # a restart says how long it took, until now
        return story
