"""What needs somebody, worst first: derived from one moment, so it holds for the past as for now.
Pure.

`tontine.rules` judges and finds the words; here is what they are told, and where an alert leads.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Sequence
from dataclasses import dataclass

from tontine.legible import count
from tontine.records.states import Desired, JobState, NodeState
from tontine.records.trouble import LASTING, Trouble
from tontine.rules import complaint, health
from tontine.rules.complaint import Silence, Weight, together

from ..records.alert import Alert
from ..records.flow import Flow
from ..records.job import JobRow
from ..records.node import NodeFact
from ..records.pane import Pane, Target
from ..records.share import ShareRow
from ..records.values import date
from .lately import Lately
from .moment import Moment
from .nodes import troubles_of

COUNTED_AT_MOST = 1000

_ORDER = (
    "nobody-left",
    "no-member",
    "stuck",
    "nobody-working",
    "failing",
    "stalled-share",
    "dead-member",
    "dead-with-claim",
    "unburied",
    "silent",
    "standing-still",
    "trouble",
    "unknown-task",
    "unnumbered",
    "foreign-claim",
    "waiting-long",
    "piling-up",
    "clock-skew",
    "backlog-growing",
)
_WEIGHTS = (Weight.BAD, Weight.WARNING, Weight.NOTICE)


def alerts(
    moment: Moment, shares: Sequence[ShareRow], flow: Flow, lately: Lately
) -> tuple[Alert, ...]:
    """Everything that is wrong, the worst first; what follows from something worse is not told.
    Where the jobs of that moment are not known, nothing is told of them."""
    living = _Living.of(moment)
    found = [*_member_alerts(moment, living, flow), *_trouble_alerts(moment)]
    if moment.knows_jobs:
        found += _failing_alerts(lately)
    if moment.knows_jobs and not any(alert.kind in ("nobody-left", "no-member") for alert in found):
        explained = {node for alert in found for node in alert.nodes}
        explained |= {row.owner for row in shares if _is_being_healed(moment, row.owner)}
        found += _share_alerts(shares, explained)
        found += _claim_alerts(moment)
        found += _task_alerts(moment)
        is_stalled = any(alert.kind == "stalled-share" for alert in found)
        found += _queue_alerts(moment, living, flow, lately, is_explained=is_stalled)
    found.sort(key=lambda alert: (_WEIGHTS.index(alert.weight), _ORDER.index(alert.kind)))
    return tuple(found)


@dataclass(frozen=True, slots=True)
class _Living:
    """The nodes that are not dead, by whether they beat."""

    beating: tuple[NodeFact, ...]
    silent: tuple[NodeFact, ...]

    @classmethod
    def of(cls, moment: Moment) -> _Living:
        living = [fact for fact in moment.facts.values() if not fact.is_dead]
        silent = tuple(fact for fact in living if fact.is_silent(moment.at))
        return cls(tuple(fact for fact in living if fact not in silent), silent)


def _member_alerts(moment: Moment, living: _Living, flow: Flow) -> Iterator[Alert]:
    """Nodes that are silent, gone, or dead and still counted on."""
    waiting = moment.counts.get(JobState.QUEUED, 0) - flow.later
    is_over = [fact.is_gone(moment.at) for fact in living.silent]
    if not living.beating and all(is_over):
        # What the dead still hold waits for somebody, too.
        waiting = max(waiting, moment.unnumbered) + moment.counts.get(JobState.WORKING, 0)
        silences, were_there = _silences(moment, living.silent), bool(moment.facts)
        said = complaint.nobody_left(silences, max(0, waiting), were_there=were_there)
        target = Target(Pane.NODES, living.silent[0].id if living.silent else "")
        yield Alert.of(said, target, _ids(living.silent))
        return
    if waiting > 0 and not moment.members and living.beating:
        idle = {fact.name: fact.state for fact in living.beating}
        yield Alert.of(complaint.no_member(idle, waiting), Target(Pane.NODES))
    yield from _silent_alerts(moment, living)
    dead = [
        member
        for member in moment.members
        if health.is_gone(moment.facts.get(member)) and not _is_being_healed(moment, member)
    ]
    if dead:
        said = complaint.dead_members(sorted(map(moment.name_of, dead)))
        yield Alert.of(said, Target(Pane.NODES, dead[0]), tuple(dead))


def _silent_alerts(moment: Moment, living: _Living) -> Iterator[Alert]:
    if not living.silent:
        return
    members = [fact for fact in living.beating if fact.id in moment.members]
    heirs = members or living.beating  # who starts will inherit, too
    lease = min((fact.lease for fact in heirs), default=living.silent[0].lease)
    names = sorted(fact.name for fact in heirs)
    for part in complaint.late_and_young(_silences(moment, living.silent), names, lease):
        facts = [fact for fact in living.silent if fact.name in {one.name for one in part}]
        for said in complaint.quiet(part, names, lease):
            yield Alert.of(said, Target(Pane.NODES, facts[0].id), _ids(facts))


def _silences(moment: Moment, facts: Sequence[NodeFact]) -> list[Silence]:
    found = [Silence(fact.name, fact.beat_age(moment.at) or 0.0) for fact in facts]
    return sorted(found, key=lambda one: one.name)


def _ids(facts: Sequence[NodeFact]) -> tuple[str, ...]:
    return tuple(fact.id for fact in facts)


def _is_being_healed(moment: Moment, node: str) -> bool:
    """Whether it died so short a while ago that the others are still at it."""
    fact = moment.facts.get(node)
    died_at = fact.died_at if fact else None
    return health.is_being_healed(None if died_at is None else moment.at - died_at)


def _share_alerts(shares: Sequence[ShareRow], explained: set[str]) -> Iterator[Alert]:
    stalled = [row for row in shares if row.is_stalled and row.owner not in explained]
    if not stalled:
        return
    worst = max(stalled, key=lambda row: row.oldest_age or 0.0)
    said = complaint.stalled([_stalled(row) for row in stalled])
    owners = tuple(row.owner for row in stalled)
    yield Alert.of(said, Target(Pane.SHARES, str(worst.rank)), owners)


def _stalled(row: ShareRow) -> complaint.Stalled:
    waiting = count(row.waiting, "job") + (" or more" if row.is_partial else "")
    return complaint.Stalled(row.rank, row.name, row.state, waiting, row.oldest_age or 0.0)


def _trouble_alerts(moment: Moment) -> Iterator[Alert]:
    """What goes on inside nodes that beat: one alert for each thing that fails, not for each
    node."""
    still = sorted(
        (fact for fact in moment.facts.values() if fact.id in moment.still and not fact.is_dead),
        key=lambda fact: fact.name,
    )
    still = [fact for fact in still if not fact.is_silent(moment.at)]
    if still:
        said = complaint.standing_still([fact.name for fact in still])
        yield Alert.of(said, Target(Pane.NODES, still[0].id), _ids(still))
    yield from _failing_inside(moment)
    for fact in moment.facts.values():
        if not fact.is_dead and health.is_skewed(fact.skew, fact.lease):
            said = complaint.skewed(fact.name, fact.skew or 0.0)
            yield Alert.of(said, Target(Pane.NODES, fact.id), (fact.id,))


def _failing_inside(moment: Moment) -> Iterator[Alert]:
    troubled: dict[tuple[str, Weight], list[tuple[NodeFact, Trouble]]] = {}
    for fact in moment.facts.values():
        for trouble in troubles_of(fact, moment.at):
            if (weight := _weight(trouble, moment.at)) is not None:
                troubled.setdefault((trouble.what, weight), []).append((fact, trouble))
    for (what, weight), found in troubled.items():
        fact, trouble = found[0]
        text = f"{fact.name} {trouble.told(date(moment.at))}"
        names = together([one.name for one, _ in found])
        if len(found) > 1:
            text = f"{len(found)} nodes, the same: {text}"
        yield Alert(
            "trouble",
            f"{names}: {what}",
            text,
            weight,
            Target(Pane.NODES, fact.id),
            "its page says more (enter), and so does its log",
            _ids([one for one, _ in found]),
        )


def _weight(trouble: Trouble, now: float) -> Weight | None:
    """A passing trouble is worth a notice, and one that a node can do without is not even that."""
    lasted = trouble.lasted(date(now))
    if lasted is not None and lasted < LASTING:
        return Weight.NOTICE if trouble.is_grave else None
    return Weight.BAD if trouble.is_grave else Weight.NOTICE


def _claim_alerts(moment: Moment) -> Iterator[Alert]:
    """Jobs held by the dead, and by nodes that should hold none."""
    orphans: dict[str, list[JobRow]] = {}
    for row in moment.working:
        if row.node and _is_orphan(moment, row):
            orphans.setdefault(row.node, []).append(row)
    for holder, rows in orphans.items():
        name, fact = moment.name_of(holder), moment.facts.get(holder)
        what = f"#{rows[0].seq}" if len(rows) == 1 else count(len(rows), "job")
        target = Target(Pane.JOBS, str(rows[0].seq), f"state:working node:{name}")
        if health.is_gone(fact):
            text = f"{name} is dead and still holds {what}"
            advice = "live nodes give it back within seconds: `tontine doctor` says why they do not"
            yield Alert(
                "dead-with-claim", name, text, target=target, advice=advice, nodes=(holder,)
            )
        else:
            text = f"{name} is no member and claimed {what}"
            advice = "`tontine doctor` checks its membership; restart it if this lasts"
            yield Alert("foreign-claim", name, text, Weight.WARNING, target, advice, (holder,))


def _is_orphan(moment: Moment, row: JobRow) -> bool:
    fact = moment.facts.get(row.node)
    if fact is None or health.is_gone(fact):
        return not _is_being_healed(moment, row.node)
    # Members help each other, and one that pauses or stops finishes what it runs: both are as it
    # should be.
    since = max(row.claimed_at or moment.at, moment.roster.at)
    return (
        row.node not in moment.members
        and fact.desired == Desired.RUNNING
        and moment.at - since > health.FOREIGN_FOR
    )


def _failing_alerts(lately: Lately) -> Iterator[Alert]:
    said = complaint.failing(lately.tasks, lately.every)
    if said is not None:
        first = said.subject.partition(",")[0]
        wanted = f"state:failed task:{first}" if first else "state:failed"
        yield Alert.of(said, Target(Pane.JOBS, "", wanted))


def _task_alerts(moment: Moment) -> Iterator[Alert]:
    if not moment.members:
        return
    is_served = moment.serving()
    unknown = {task: number for task, number in moment.unknown.items() if not is_served(task)}
    known = frozenset(
        task
        for fact in moment.facts.values()
        if not fact.is_dead
        for module in fact.modules
        for task in module.tasks
    )
    said = complaint.unknown_tasks(unknown, COUNTED_AT_MOST, known)
    if said is not None:
        first = said.subject.partition(",")[0]
        yield Alert.of(said, Target(Pane.JOBS, "", f"state:queued task:{first}"))


def _queue_alerts(
    moment: Moment, living: _Living, flow: Flow, lately: Lately, *, is_explained: bool
) -> Iterator[Alert]:
    """What waits: why it does, and for how long."""
    queue = queue_of(moment, living.beating, lately)
    growth = list(_growth_alerts(flow))
    if health.is_stuck(queue):
        yield Alert.of(complaint.stuck(queue), Target(Pane.JOBS, "", "state:working"))
    elif _is_idle(moment, flow, queue):
        yield Alert.of(complaint.nobody_working(queue.oldest_for or 0.0), Target(Pane.SHARES))
    elif is_explained:
        pass
    elif health.waits_too_long(queue):
        said = complaint.waiting_long(
            queue, flow.empty_in, is_rate_known=flow.out_rate > 0 or bool(growth)
        )
        yield Alert.of(said, Target(Pane.JOBS, str(flow.oldest or ""), "state:queued"))
    else:
        yield from growth
    unnumbered_for = moment.unnumbered_for
    if moment.unnumbered and (health.is_unnumbered_too_long(unnumbered_for) or not moment.members):
        text = f"{count(moment.unnumbered, 'job')} without a number: nobody numbers them"
        advice = "`tontine doctor` says why; any member numbers them"
        yield Alert("unnumbered", "", text, target=Target(Pane.JOBS), advice=advice)
    fired = Counter(
        row.schedule for row in moment.unfinished if row.schedule and _is_due(row, moment)
    )
    said_of = {name: number for name, number in fired.items() if health.piles_up(number)}
    if (piling := complaint.piling(said_of)) is not None:
        yield Alert.of(piling, Target(Pane.JOBS, "", "state:queued,working"))


def _is_due(row: JobRow, moment: Moment) -> bool:
    return (row.due_at or 0.0) <= moment.at


def queue_of(moment: Moment, beating: Sequence[NodeFact], lately: Lately) -> health.Queue:
    """What waits that somebody could run, and what they do meanwhile."""
    is_served = moment.serving()
    due = [
        row.due_at or moment.at
        for row in moment.unfinished
        if row.state == JobState.QUEUED
        and is_served(row.task)
        and row.seq is not None
        and _is_due(row, moment)
    ]
    due_first = [min(due)] if due else []
    waiting = len(due)
    if not moment.is_complete:
        waiting = max(waiting, moment.counts.get(JobState.QUEUED, 0) - sum(moment.unknown.values()))
        due_first += [one.oldest_due for one in moment.waiting.values() if one.oldest_due]
    oldest_for = moment.at - min(due_first) if due_first else None
    members = [fact for fact in beating if fact.id in moment.members]
    active = [lately.ended_at or 0.0, *moment.settled_at.values()]
    # A claim alone is no activity: nodes claim ahead, and give back what finds no slot.
    active += [row.started_at or 0.0 for row in moment.working]
    last = max(active)
    return health.Queue(
        waiting,
        oldest_for,
        sum(fact.slots for fact in members),
        sum(fact.running for fact in members),
        moment.at - last if last else oldest_for,
        lately.usual_wait,
        lately.usual_run,
    )


def _is_idle(moment: Moment, flow: Flow, queue: health.Queue) -> bool:
    """There is work that could be done, and nobody does any."""
    is_busy = any(
        fact.state == NodeState.WORKING or fact.running
        for fact in moment.facts.values()
        if not fact.is_dead
    )
    is_busy = is_busy or bool(flow.out_rate or flow.counts.get(JobState.WORKING))
    return health.is_idle(queue, is_busy=is_busy)


def _growth_alerts(flow: Flow) -> Iterator[Alert]:
    if flow.depth is None:
        return
    columns = int(health.GROWING_OVER / flow.depth.step)
    recent = [value for value in flow.depth.values[-columns - 1 :] if value is not None]
    if len(recent) <= columns:
        return
    first, middle, last = recent[0], recent[len(recent) // 2], recent[-1]
    if health.grows(first, middle, last):
        said = complaint.growing(last, (last - first) / health.GROWING_OVER)
        yield Alert.of(said, Target(Pane.FLOW))
