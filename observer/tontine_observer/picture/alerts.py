"""What needs somebody, worst first: derived from one moment, so it holds for the past as for now.
Pure."""

from __future__ import annotations

from collections.abc import Iterator, Sequence

from tontine.legible import count, duration
from tontine.records.states import Desired, JobState, NodeState
from tontine.records.trouble import LASTING, Trouble
from tontine.rules.health import dead_members, is_gone, is_unnumbered_too_long, lease_is_over

from ..records.alert import Alert, Weight
from ..records.flow import Flow
from ..records.job import JobRow
from ..records.node import NodeFact
from ..records.pane import Pane, Target
from ..records.share import ShareRow
from ..records.values import date
from .moment import Moment
from .nodes import troubles_of

COUNTED_AT_MOST = 1000
IDLE_FOR = 10.0
FOREIGN_FOR = 5.0
GROWING_OVER = 60.0
GROWING_FROM = 100
_SKEW_OF_LEASE = 0.5

_ORDER = (
    "no-member",
    "nobody-working",
    "stalled-share",
    "dead-member",
    "dead-with-claim",
    "lease-over",
    "standing-still",
    "trouble",
    "unknown-task",
    "unnumbered",
    "foreign-claim",
    "clock-skew",
    "backlog-growing",
)


def alerts(moment: Moment, shares: Sequence[ShareRow], flow: Flow) -> tuple[Alert, ...]:
    """Everything that is wrong."""
    found = [
        *_roster_alerts(moment),
        *_share_alerts(shares),
        *(alert for fact in moment.facts.values() for alert in _node_alerts(moment, fact)),
        *_claim_alerts(moment),
        *_queue_alerts(moment, flow),
        *_growth_alerts(flow),
    ]
    return tuple(sorted(found, key=lambda alert: _ORDER.index(alert.kind)))


def _roster_alerts(moment: Moment) -> Iterator[Alert]:
    dead = dead_members(moment.members, moment.facts)
    for member in moment.members:
        if member in dead:
            name = moment.name_of(member)
            text = f"{name} is dead and still in the roster: its share waits to be inherited"
            yield Alert("dead-member", name, text, target=Target(Pane.NODES, member))


def _share_alerts(shares: Sequence[ShareRow]) -> Iterator[Alert]:
    for row in shares:
        if row.is_stalled:
            age = duration(row.oldest_age or 0.0)
            state = row.state if row.state in ("missing", NodeState.DEAD) else _idle(row)
            more = " or more" if row.is_partial else ""
            text = (
                f"share {row.rank} stalled {age}: owner {row.name} {state}, "
                f"{count(row.waiting, 'job')}{more} waiting"
            )
            yield Alert(
                "stalled-share", str(row.rank), text, target=Target(Pane.SHARES, str(row.rank))
            )


def _idle(row: ShareRow) -> str:
    return "silent" if "silent" in row.note else f"{row.state}, but claims nothing"


def _node_alerts(moment: Moment, fact: NodeFact) -> Iterator[Alert]:
    if fact.is_dead:
        return
    target = Target(Pane.NODES, fact.id)
    silent_for = fact.beat_age(moment.at)
    if silent_for is not None and lease_is_over(silent_for, fact.lease):
        late = duration(silent_for - fact.lease)
        text = f"{fact.name}'s lease ran out {late} ago: the others will bury it"
        yield Alert("lease-over", fact.name, text, target=target)
    elif fact.id in moment.still:
        yield Alert(
            "standing-still",
            fact.name,
            f"{fact.name} beats, but its claim loop stands still",
            target=target,
        )
    for trouble in troubles_of(fact, moment.at):
        if (weight := _weight(trouble, moment.at)) is not None:
            text = f"{fact.name} {trouble.told(date(moment.at))}"
            yield Alert("trouble", f"{fact.name}: {trouble.what}", text, weight, target)
    if fact.skew is not None and abs(fact.skew) > _SKEW_OF_LEASE * fact.lease:
        side = "ahead of" if fact.skew > 0 else "behind"
        text = f"{fact.name}'s clock is {duration(abs(fact.skew))} {side} the server's"
        yield Alert("clock-skew", fact.name, text, Weight.WARNING, target)


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
        if is_gone(fact):
            yield Alert(
                "dead-with-claim", name, f"{name} is dead and still holds {what}", target=target
            )
        else:
            text = f"{name} is no member and claimed {what}"
            yield Alert("foreign-claim", name, text, Weight.WARNING, target)


def _is_orphan(moment: Moment, row: JobRow) -> bool:
    fact = moment.facts.get(row.node)
    if fact is None or is_gone(fact):
        return True
    # Members help each other, and one that pauses or stops finishes what it runs: both are as it
    # should be.
    since = max(row.claimed_at or moment.at, moment.roster.at)
    return (
        row.node not in moment.members
        and fact.desired == Desired.RUNNING
        and moment.at - since > FOREIGN_FOR
    )


def _queue_alerts(moment: Moment, flow: Flow) -> Iterator[Alert]:
    queued = moment.counts.get(JobState.QUEUED, 0)
    if queued and not moment.members:
        text = f"{count(queued, 'job')} queued and no node to run them"
        yield Alert("no-member", "", text, target=Target(Pane.JOBS, "", "state:queued"))
    else:
        yield from _task_alerts(moment)
        yield from _idle_alerts(moment, flow)
    if moment.unnumbered and (is_unnumbered_too_long(moment.unnumbered_for) or not moment.members):
        text = f"{count(moment.unnumbered, 'job')} without a number: nobody numbers them"
        yield Alert("unnumbered", "", text, target=Target(Pane.JOBS))


def _task_alerts(moment: Moment) -> Iterator[Alert]:
    for task, number in sorted(moment.unknown.items()):
        amount = (
            f"{COUNTED_AT_MOST:,} jobs or more"
            if number >= COUNTED_AT_MOST
            else count(number, "job")
        )
        text = f"{amount} of {task} queued, and no live node has that task"
        yield Alert(
            "unknown-task", task, text, target=Target(Pane.JOBS, "", f"state:queued task:{task}")
        )


def _idle_alerts(moment: Moment, flow: Flow) -> Iterator[Alert]:
    """There is work that could be done, and nobody does any."""
    tasks = moment.tasks
    due = [
        row.due_at or moment.at
        for row in moment.unfinished
        if row.state == JobState.QUEUED and row.task in tasks and row.seq is not None
    ]
    waited = moment.at - min(due, default=moment.at)
    is_busy = any(
        fact.state == NodeState.WORKING or fact.running
        for fact in moment.facts.values()
        if not fact.is_dead
    )
    if (
        waited > IDLE_FOR
        and not is_busy
        and not flow.out_rate
        and not flow.counts.get(JobState.WORKING)
    ):
        text = f"nobody is working, and jobs have waited for {duration(waited)}"
        yield Alert("nobody-working", "", text, target=Target(Pane.SHARES))


def _growth_alerts(flow: Flow) -> Iterator[Alert]:
    if flow.depth is None:
        return
    columns = int(GROWING_OVER / flow.depth.step)
    recent = [value for value in flow.depth.values[-columns - 1 :] if value is not None]
    if len(recent) <= columns:
        return
    first, middle, last = recent[0], recent[len(recent) // 2], recent[-1]
    if last >= GROWING_FROM and last > 1.2 * first and last > middle > first:
        rate = (last - first) / GROWING_OVER
        text = f"the backlog grows: {last:,.0f} queued, {rate:,.1f} more every second"
        yield Alert("backlog-growing", "", text, Weight.WARNING, Target(Pane.FLOW))
