"""What is wrong, in one voice: a sentence for each cause, with how many, and what to do about it.
Pure.

`health` judges, this finds the words; doctor and observer say them alike.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from enum import StrEnum

from ..legible import count, duration
from ..records.states import NodeState
from .health import Queue, is_broken, is_failing

START = "start a node: `tontine node MODULE`"
_NAMED = 3


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

    @property
    def ended(self) -> int:
        return self.done + self.failed

    @property
    def is_broken(self) -> bool:
        return is_broken(self.failed, self.ended)


def together(names: Sequence[str], most: int = _NAMED) -> str:
    """Names as one says them: ada, bea and cyd; of many, the first and how many more."""
    if len(names) == most + 1:
        most += 1
    shown = list(names[:most])
    if len(names) > most:
        return f"{', '.join(shown)} and {len(names) - most:,} more"
    return " and ".join(filter(None, (", ".join(shown[:-1]), *shown[-1:])))


def nobody_left(silent: Sequence[Silence], waiting: int) -> Complaint:
    """No node beats any more, or there is none."""
    jobs = f"{count(waiting, 'job')} {_verb(waiting, 'waits', 'wait')}" if waiting else ""
    if not silent:
        return Complaint("nobody-left", "", f"no node is there, and {jobs}", START)
    names = together([one.name for one in silent])
    since = duration(min(one.seconds for one in silent))
    text = f"nobody is left: {names} fell silent {since} ago"
    return Complaint("nobody-left", names, f"{text}, and {jobs}" if jobs else text, START)


def no_member(idle: Mapping[str, str], waiting: int) -> Complaint:
    """Nodes beat, and none of them is a member; `idle` is their states by their names."""
    jobs = f"{count(waiting, 'job')} {_verb(waiting, 'waits', 'wait')}"
    names = together(sorted(idle))
    are = _verb(len(idle), "is", "are")
    if NodeState.INITIALIZING.value in idle.values():
        text = f"{jobs}, and {names} {are} still starting"
        return Complaint("no-member", names, text, "it joins by itself", Weight.NOTICE)
    if set(idle.values()) == {NodeState.PAUSED.value}:
        text = f"{jobs}, and {names} {are} paused"
        return Complaint("no-member", names, text, "`tontine resume --all`")
    text = f"{jobs}, and no node is a member: {names} {_verb(len(idle), 'beats', 'beat')}"
    return Complaint("no-member", names, text, "`tontine doctor` checks the deployment")


def silent(nodes: Sequence[Silence], heirs: Sequence[str], inherited_in: float) -> Complaint:
    """Nodes that have not beaten for longer than a sound one ever is silent."""
    names = together([one.name for one in nodes])
    longest = duration(max(one.seconds for one in nodes))
    text = f"{names} {_verb(len(nodes), 'has', 'have')} been silent for {longest}"
    if not heirs:
        return Complaint("silent", names, f"{text}, and nobody else is there", START)
    share = _verb(len(nodes), "its share", "their shares")
    inherit = f"{together(heirs)} {_verb(len(heirs), 'inherits', 'inherit')} {share}"
    soon = f"in about {inherited_in:.0f} s" if inherited_in >= 0.5 else "now"
    advice = "look at its machine and its log; nothing is lost, its jobs go to the others"
    return Complaint("silent", names, f"{text}: {inherit} {soon}", advice, Weight.WARNING)


def unburied(nodes: Sequence[Silence]) -> Complaint:
    """Nodes whose lease is over for so long that the others should have buried them."""
    names = together([one.name for one in nodes])
    longest = duration(max(one.seconds for one in nodes))
    text = f"{names} {_verb(len(nodes), 'is', 'are')} gone for {longest}, and nobody buries "
    text += _verb(len(nodes), "it", "them")
    return Complaint("unburied", names, text, "look into the logs of the nodes that beat")


def failing(tasks: Sequence[Outcomes], every: Outcomes) -> Complaint | None:
    """Tasks of which too many jobs failed lately, or all of them together."""
    worst = sorted(
        (one for one in tasks if one.is_broken),
        key=lambda one: (-one.failed / one.ended, -one.failed),
    )
    chosen = worst[0] if worst else every
    if not chosen.is_broken and not is_failing(chosen.failed, chosen.ended):
        return None
    numbers = f"{chosen.failed:,} of {'its' if worst else 'the'} last {count(chosen.ended, 'job')}"
    if len(worst) > 1:
        text = f"{len(worst):,} tasks fail, {chosen.task} worst: {numbers}"
    else:
        text = f"{chosen.task} fails: {numbers}" if worst else f"jobs fail: {numbers}"
    if chosen.error:
        text += f", at last {chosen.error}"
    advice = "`tontine jobs --state failed` lists them, `tontine why` explains one, and "
    advice += "`tontine retry` runs them again"
    subject = ", ".join(sorted(one.task for one in worst))
    weight = Weight.BAD if chosen.is_broken else Weight.WARNING
    return Complaint("failing", subject, text, advice, weight)


def stuck(queue: Queue) -> Complaint:
    """Every slot is busy, nothing ends, and jobs wait."""
    text = f"{slots_busy(queue.slots)} and nothing has ended for {duration(queue.quiet_for or 0)}"
    text += f": {count(queue.waiting, 'job')} {_verb(queue.waiting, 'waits', 'wait')}"
    advice = "`tontine jobs --state working` shows what runs: cancel what hangs, or start nodes"
    return Complaint("stuck", "", text, advice)


def slots_busy(slots: int) -> str:
    return f"all {slots:,} slots are busy" if slots != 1 else "the only slot is busy"


def waiting_long(queue: Queue, empty_in: float | None, *, is_rate_known: bool) -> Complaint:
    """The oldest job has waited too long."""
    text = f"{count(queue.waiting, 'job')} {_verb(queue.waiting, 'waits', 'wait')}"
    text += f", the oldest for {duration(queue.oldest_for or 0)}"
    if is_rate_known:
        text += f"; at this rate {empty(empty_in)}"
    advice = "start more nodes, or give them more slots; `tontine why` explains a single job"
    return Complaint("waiting-long", "", text, advice, Weight.WARNING)


def empty(seconds: float | None) -> str:
    """When a queue will be empty, in words."""
    return "it is never empty" if seconds is None else f"it is empty in {duration(seconds)}"


def unknown_tasks(waiting: Mapping[str, int], most: int) -> Complaint | None:
    """Jobs of tasks that no live node has; `most` is how far they were counted."""
    if not waiting:
        return None
    tasks = sorted(waiting, key=lambda task: (-waiting[task], task))
    jobs = sum(waiting.values())
    many = f"{most:,} jobs or more" if max(waiting.values()) >= most else count(jobs, "job")
    wait = _verb(jobs, "waits", "wait")
    if len(tasks) == 1:
        text = f"{many} {wait} for {tasks[0]}, which no live node has"
    else:
        told = together([f"{task} ({waiting[task]:,})" for task in tasks])
        text = f"{many} {wait} for {len(tasks):,} tasks that no live node has: {told}"
    advice = "start a node with the module of the task, or cancel the jobs"
    return Complaint("unknown-task", ", ".join(tasks), text, advice)


def piling(schedules: Mapping[str, int]) -> Complaint | None:
    """Schedules that fire faster than their jobs end."""
    if not schedules:
        return None
    names = sorted(schedules, key=lambda name: (-schedules[name], name))
    if len(names) == 1:
        jobs = f"{schedules[names[0]]:,} of its jobs have not ended"
        text = f"the schedule {names[0]} piles up: {jobs}"
    else:
        told = together([f"{name} ({schedules[name]:,})" for name in names])
        text = f"{len(names):,} schedules pile up, with jobs that have not ended: {told}"
    advice = "fire it less often, make its task quicker, or add it again with `--overlap skip`"
    return Complaint("piling-up", ", ".join(names), text, advice, Weight.WARNING)


def _verb(number: int, one: str, many: str) -> str:
    return one if number == 1 else many
