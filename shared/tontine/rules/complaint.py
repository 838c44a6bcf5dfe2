"""What is wrong, in one voice: a sentence for each cause, with how many, and what to do about it.
Pure.

`health` judges, this finds the words; doctor and observer say them alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, replace
from enum import StrEnum
from functools import lru_cache

from ..legible import count, duration, legible
from ..lookalike import near_tasks
from ..records.states import NodeState
from ..records.task_key import name_of
from .health import Queue, inherited_in, is_broken, is_failing, is_unburied_after

START = "start a node: `tontine node MODULE`"
_NAMED, _BRIEF = 3, 24
"""So many names are told of, and where there is little room so many characters of them."""
_LONG_AGO = 60.0
"""What went wrong so many seconds ago is told with its age."""


class Weight(StrEnum):
    """How bad it is; a notice alone leaves the system healthy."""

    BAD = "bad"
    WARNING = "warning"
    NOTICE = "notice"


@dataclass(frozen=True, slots=True)
class Complaint:
    """One cause: its kind for programs, the rest for people."""

    kind: str
    subject: str
    """Whom or what it is about; with its kind it tells one complaint from another."""
    text: str
    advice: str
    weight: Weight = Weight.BAD
    short: str = ""
    """The text where there is little room; nothing where it is short already."""


@dataclass(frozen=True, slots=True)
class Silence:
    """A node that does not beat, and for how long."""

    name: str
    seconds: float


@dataclass(frozen=True, slots=True)
class Outcomes:
    """How the jobs of one task ended lately."""

    task: str
    done: int = 0
    failed: int = 0
    """Those included that failed and wait for another attempt."""
    error: str = ""
    """The newest."""
    ago: float = 0.0
    """Seconds since the newest of those that failed."""

    @property
    def ended(self) -> int:
        return self.done + self.failed

    @property
    def is_broken(self) -> bool:
        return is_broken(self.failed, self.ended)

    def with_failure(self, error: str, ago: float) -> Outcomes:
        """With an older one, or one about as old, that failed so many seconds ago."""
        newest = min(self.ago, ago) if self.failed else ago
        return replace(self, failed=self.failed + 1, error=self.error or error, ago=newest)


def together(names: Sequence[str], most: int = _NAMED) -> str:
    """Names as one says them: ada, bea and cyd; of many, the first and how many more."""
    if len(names) == most + 1:
        most += 1
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def _briefly(names: Sequence[str]) -> str:
    """Of nodes, where there is little room: what is said of them matters more than how they are
    called."""
    told = together(names)
    if len(told) <= _BRIEF:
        return told
    return legible(names[0], _BRIEF) if len(names) == 1 else count(len(names), "node")


def nobody_left(silent: Sequence[Silence], waiting: int, *, were_there: bool = True) -> Complaint:
    """No node beats any more, or there is none; where there never was one, nobody misses it."""
    jobs = f"{count(waiting, 'job')} {_verb(waiting, 'waits', 'wait')}" if waiting else ""
    if not silent and not jobs:
        weight = Weight.WARNING if were_there else Weight.NOTICE
        return Complaint("nobody-left", "", "no node is there, and no job waits", START, weight)
    if not silent:
        return Complaint("nobody-left", "", f"no node is there, and {jobs}", START)
    names = together([one.name for one in silent])
    since = duration(min(one.seconds for one in silent))
    text = f"nobody is left: {names} fell silent {since} ago"
    short = f"nobody is left for {since}"
    if jobs:
        text, short = f"{text}, and {jobs}", f"{short}, and {jobs}"
    return Complaint("nobody-left", names, text, START, short=short)


def no_member(idle: Mapping[str, str], waiting: int) -> Complaint:
    """Nodes beat, and none of them is a member; `idle` is their states by their names."""
    jobs = f"{count(waiting, 'job')} {_verb(waiting, 'waits', 'wait')}"
    names, who = together(sorted(idle)), _briefly(sorted(idle))
    are = _verb(len(idle), "is", "are")
    if NodeState.INITIALIZING.value in idle.values():
        text, short = (f"{jobs}, and {one} {are} still starting" for one in (names, who))
        return Complaint("no-member", names, text, "it joins by itself", Weight.NOTICE, short)
    if set(idle.values()) == {NodeState.PAUSED.value}:
        text, short = (f"{jobs}, and {one} {are} paused" for one in (names, who))
        return Complaint("no-member", names, text, "`tontine resume --all`", short=short)
    text = f"{jobs}, and no node is a member: {names} {_verb(len(idle), 'beats', 'beat')}"
    short = f"{jobs}, and no node is a member"
    return Complaint(
        "no-member", names, text, "`tontine doctor` checks the deployment", short=short
    )


def silent(nodes: Sequence[Silence], heirs: Sequence[str], inherited_in: float) -> Complaint:
    """Nodes that have not beaten for longer than a sound one ever is silent."""
    names = together([one.name for one in nodes])
    longest = duration(max(one.seconds for one in nodes))
    text = f"{names} {_verb(len(nodes), 'has', 'have')} been silent for {longest}"
    who = _briefly([one.name for one in nodes])
    if not heirs:
        alone = "and nobody else is there"
        short = f"{who} silent for {longest}, {alone}"
        return Complaint("silent", names, f"{text}, {alone}", START, short=short)
    share = _verb(len(nodes), "its share", "their shares")
    inherit = f"{together(heirs)} {_verb(len(heirs), 'inherits', 'inherit')} {share}"
    soon = f"in about {inherited_in:.0f} s" if inherited_in >= 0.5 else "now"
    advice = "look at its machine and its log; nothing is lost, its jobs go to the others"
    short = f"{who} silent for {longest}: inherited {soon}"
    return Complaint("silent", names, f"{text}: {inherit} {soon}", advice, Weight.WARNING, short)


def quiet(nodes: Sequence[Silence], heirs: Sequence[str], lease: float) -> list[Complaint]:
    """What there is to say of nodes that do not beat, the worst first; `lease` is that of those who
    inherit."""
    late, young = late_and_young(nodes, heirs, lease)
    found = [unburied(late)] if late else []
    if young:
        wait = inherited_in(min(one.seconds for one in young), lease)
        found.append(silent(young, heirs, wait))
    return found


def late_and_young(
    nodes: Sequence[Silence], heirs: Sequence[str], lease: float
) -> tuple[list[Silence], list[Silence]]:
    """Those whom the heirs should have buried, and the others."""
    late = [one for one in nodes if heirs and is_unburied_after(one.seconds, lease)]
    return late, [one for one in nodes if one not in late]


def dead_members(names: Sequence[str]) -> Complaint:
    """Dead nodes that nobody takes out of the roster."""
    told = together(names)
    whose = _verb(len(names), "its share waits", "their shares wait")
    are = _verb(len(names), "is", "are")
    short = f"{_briefly(names)} {are} dead and still in the roster"
    text = f"{told} {are} dead and still in the roster: {whose} to be inherited"
    advice = "live nodes take it out within seconds: `tontine doctor` and their logs say why they "
    return Complaint("dead-member", told, text, f"{advice}do not", short=short)


def standing_still(names: Sequence[str]) -> Complaint:
    """Nodes that beat and claim nothing, whatever waits."""
    told = together(names)
    stands = _verb(
        len(names), "beats, but its claim loop stands", "beat, but their claim loops stand"
    )
    advice = "look into its log, and restart it if this lasts"
    short = f"{_briefly(names)} {stands} still"
    return Complaint("standing-still", told, f"{told} {stands} still", advice, short=short)


def skewed(name: str, skew: float) -> Complaint:
    """A node whose clock is wrong."""
    side = "ahead of" if skew > 0 else "behind"
    text = f"{name}'s clock is {duration(abs(skew))} {side} the server's"
    short = text.replace(name, _briefly([name]), 1)
    advice = "set the clock of its machine, with NTP for instance"
    return Complaint("clock-skew", name, text, advice, Weight.WARNING, short)


def nobody_working(oldest_for: float) -> Complaint:
    """There is work that could be done, and nobody does any."""
    text = f"nobody is working, and jobs have waited for {duration(oldest_for)}"
    advice = "`tontine doctor` looks into the nodes, `tontine why` into a job"
    return Complaint("nobody-working", "", text, advice)


def growing(queued: float, rate: float) -> Complaint:
    """More comes in than goes out, and goes on to."""
    text = f"the queue grows: {queued:,.0f} queued, {rate:,.1f} more every second"
    advice = "start more nodes, or give them more slots, if this goes on"
    return Complaint("backlog-growing", "", text, advice, Weight.WARNING)


@dataclass(frozen=True, slots=True)
class Stalled:
    """A share in which nobody claims."""

    rank: int
    owner: str
    state: str
    waiting: str
    """How many jobs, in words."""
    seconds: float


def stalled(shares: Sequence[Stalled]) -> Complaint:
    """Shares in which jobs wait and nothing is claimed."""
    worst = max(shares, key=lambda one: one.seconds)
    state = worst.state
    if state not in ("missing", NodeState.DEAD):
        state = f"{state}, but claims nothing"
    others = "" if len(shares) == 1 else f"{len(shares)} shares stalled, the worst: "
    text = f"{others}share {worst.rank} stalled {duration(worst.seconds)}: owner "
    text += f"{worst.owner} {state}, {worst.waiting} waiting"
    advice = "`tontine why` of a job in it tells more; look into the log of its owner"
    subject = ", ".join(str(one.rank) for one in shares)
    what = f"share {worst.rank}" if len(shares) == 1 else f"{len(shares)} shares"
    short = f"{what} stalled {duration(worst.seconds)}: {worst.waiting} waiting"
    return Complaint("stalled-share", subject, text, advice, short=short)


def unburied(nodes: Sequence[Silence]) -> Complaint:
    """Nodes whose lease is over for so long that the others should have buried them."""
    names = together([one.name for one in nodes])
    longest = duration(max(one.seconds for one in nodes))
    gone = f"{_verb(len(nodes), 'is', 'are')} gone for {longest}, and nobody buries "
    gone += _verb(len(nodes), "it", "them")
    short = f"{_briefly([one.name for one in nodes])} {gone}"
    advice = "look into the logs of the nodes that beat"
    return Complaint("unburied", names, f"{names} {gone}", advice, short=short)


def failing(tasks: Sequence[Outcomes], every: Outcomes) -> Complaint | None:
    """Tasks of which too many jobs failed lately, or all of them together."""
    worst = sorted(
        (one for one in tasks if one.is_broken),
        key=lambda one: (-one.failed / one.ended, -one.failed),
    )
    chosen = worst[0] if worst else every
    if not chosen.is_broken and not is_failing(chosen.failed, chosen.ended):
        return None
    if len(worst) > 1:
        what = f"{len(worst):,} tasks fail, {chosen.task} worst"
    else:
        what = f"{chosen.task} fails" if worst else "jobs fail"
    jobs, whose = count(chosen.ended, "job"), "its" if worst else "the"
    text = short = f"{what}: {chosen.failed:,} of {whose} last {jobs}"
    if is_old := chosen.ago >= _LONG_AGO:
        long_ago = f"last {duration(chosen.ago)} ago"
        text += f", the {long_ago}"
        short = f"{what}: {chosen.failed:,} of {jobs}, {long_ago}"
    if chosen.error:
        text += f"{' with' if is_old else ', at last'} {chosen.error}"
    advice = "`tontine jobs --state failed` lists them, `tontine why` explains one, and "
    advice += "`tontine retry` runs them again"
    subject = ", ".join(sorted(one.task for one in worst))
    weight = Weight.BAD if chosen.is_broken else Weight.WARNING
    return Complaint("failing", subject, text, advice, weight, short)


def stuck(queue: Queue) -> Complaint:
    """Every slot is busy, nothing ends, and jobs wait."""
    busy, quiet = slots_busy(queue.slots), duration(queue.quiet_for or 0)
    jobs = f"{count(queue.waiting, 'job')} {_verb(queue.waiting, 'waits', 'wait')}"
    text = f"{busy} and nothing has ended for {quiet}: {jobs}"
    advice = "`tontine jobs --state working` shows what runs: cancel what hangs, or start nodes"
    slots = f"all {queue.slots:,} slots" if queue.slots != 1 else "the only slot"
    short = f"{jobs}: {slots} busy, nothing ended for {quiet}"
    return Complaint("stuck", "", text, advice, short=short)


def slots_busy(slots: int) -> str:
    return f"all {slots:,} slots are busy" if slots != 1 else "the only slot is busy"


def waiting_long(queue: Queue, empty_in: float | None, *, is_rate_known: bool) -> Complaint:
    """The oldest job has waited too long."""
    text = f"{count(queue.waiting, 'job')} {_verb(queue.waiting, 'waits', 'wait')}"
    text += f", the oldest for {duration(queue.oldest_for or 0)}"
    short = ""
    if is_rate_known:
        end = "never empty" if empty_in is None else f"empty in {duration(empty_in)}"
        text, short = f"{text}; at this rate {empty(empty_in)}", f"{text}; {end}"
    advice = "start more nodes, or give them more slots; `tontine why` explains a single job"
    return Complaint("waiting-long", "", text, advice, Weight.WARNING, short)


def empty(seconds: float | None) -> str:
    """When a queue will be empty, in words."""
    return "it is never empty" if seconds is None else f"it is empty in {duration(seconds)}"


def unknown_tasks(
    waiting: Mapping[str, int], most: int, known: frozenset[str] = frozenset()
) -> Complaint | None:
    """Jobs of tasks that no live node has; `most` is how far they were counted, `known` are the
    tasks that nodes have."""
    if not waiting:
        return None
    tasks = sorted(waiting, key=lambda task: (-waiting[task], task))
    jobs = sum(waiting.values())
    many = f"{most:,} jobs or more" if max(waiting.values()) >= most else count(jobs, "job")
    wait = _verb(jobs, "waits", "wait")
    if len(tasks) == 1:
        hint = _meant(tasks[0], known)
        text = short = f"{many} {wait} for {legible(tasks[0], 100)}, which no live node has"
        text += f" ({hint})" if hint else ""
    else:
        named = [_told_task(task, waiting[task], known) for task in tasks[: _NAMED + 1]]
        told = together([*named, *tasks[_NAMED + 1 :]])
        short = f"{many} {wait} for {len(tasks):,} tasks that no live node has"
        text = f"{short}: {told}"
    advice = "start a node with the module of the task, or cancel the jobs"
    return Complaint("unknown-task", ", ".join(tasks), text, advice, short=short)


def _told_task(task: str, number: int, known: frozenset[str]) -> str:
    hint = _meant(task, known)
    return f"{legible(task, 100)} ({number:,}{f', {hint}' if hint else ''})"


@lru_cache(maxsize=64)
def _meant(task: str, known: frozenset[str]) -> str:
    """What may be wrong with the name of a task that nobody has."""
    if name_of(task) in known:
        return "there are other versions"
    near = near_tasks(name_of(task), known)
    return f"is {near[0]} meant?" if near else ""


def piling(schedules: Mapping[str, int]) -> Complaint | None:
    """Schedules that fire faster than their jobs end."""
    if not schedules:
        return None
    names = sorted(schedules, key=lambda name: (-schedules[name], name))
    if len(names) == 1:
        jobs = f"{schedules[names[0]]:,} of its jobs have not ended"
        text, short = f"the schedule {names[0]} piles up: {jobs}", ""
    else:
        told = together([f"{name} ({schedules[name]:,})" for name in names])
        short = f"{len(names):,} schedules pile up, with jobs that have not ended"
        text = f"{short}: {told}"
    advice = "fire it less often, make its task quicker, or add it again with `--overlap skip`"
    return Complaint("piling-up", ", ".join(names), text, advice, Weight.WARNING, short)


def _verb(number: int, one: str, many: str) -> str:
    return one if number == 1 else many
