"""Judges the nodes from one or two looks at them, a few seconds apart: what stands still in both is
stuck."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime

from ...legible import count, duration
from ...records.loaded import REFUSED, ContextState, Loaded
from ...records.node import Sighting, differing_versions
from ...records.roster import Roster
from ...records.states import NodeState
from ...records.trouble import LASTING, Trouble
from ...rules import complaint
from ...rules.health import (
    claim_loop_stands_still,
    dead_holders,
    dead_members,
    has_lease,
    is_beating,
    is_silent,
    is_stray,
    is_unnumbered_too_long,
    working_members,
)
from .backlog import Unnumbered
from .verdict import Judgement, fail, judgement, ok, unknown, warn

LONG_UNNUMBERED = 10.0
"""Seconds: who looks once is more patient."""
_TOLD = 5


@dataclass(frozen=True, slots=True)
class NodesSeen:
    """The nodes, the roster and who holds what, at one moment."""

    now: datetime
    nodes: tuple[Sighting, ...]
    roster: Roster
    held: Mapping[str, int]
    raw: Unnumbered
    waiting: int = 0
    """Jobs that are due."""

    @property
    def live(self) -> list[Sighting]:
        return [node for node in self.nodes if not node.is_dead]

    @property
    def beating(self) -> list[Sighting]:
        return [node for node in self.nodes if is_beating(node)]

    @property
    def by_id(self) -> dict[str, Sighting]:
        return {node.id: node for node in self.nodes}


Looks = Sequence[NodesSeen]


def _named(ids: Iterable[str], looks: Looks) -> list[str]:
    known = {node.id: node.name for look in looks for node in look.nodes}
    return sorted(known.get(one, one) for one in ids)


def _names(ids: Iterable[str], looks: Looks) -> str:
    return ", ".join(_named(ids, looks))


def _in_both(looks: Looks, wrong: Callable[[NodesSeen], set[str]]) -> set[str]:
    """What was wrong in the last look and, if there were two, already in the first."""
    return set.intersection(*(wrong(look) for look in looks))


def judge_nodes(looks: Looks) -> Judgement:
    """Whether anybody is there, and does what."""
    last = looks[-1]
    if not any(has_lease(node) for node in last.live):
        # What the dead still hold waits for somebody, too.
        waiting, were_there = last.waiting + sum(last.held.values()), bool(last.nodes)
        return judgement(
            complaint.nobody_left(_silences(last.live), waiting, were_there=were_there)
        )
    if not last.beating:
        return judgement(complaint.silent(_silences(last.live), (), 0.0))
    if last.waiting and not last.roster.members:
        idle = {node.name: node.state.value for node in last.beating}
        return judgement(complaint.no_member(idle, last.waiting))
    states = [node.state.value for node in last.beating]
    told = ", ".join(
        f"{states.count(state.value)} {state.value}" for state in NodeState if state.value in states
    )
    if all(node.is_leaving for node in last.beating):
        return warn(f"all nodes are paused or leaving: {told}", "`tontine resume --all`")
    return ok(f"{count(len(states), 'node')}: {told}")


def _silences(nodes: Iterable[Sighting]) -> list[complaint.Silence]:
    found = [complaint.Silence(node.name, node.beat_age or 0.0) for node in nodes]
    return sorted(found, key=lambda one: one.name)


def judge_roster(looks: Looks) -> Judgement:
    """Dead members: any live node removes them within seconds."""
    dead = _in_both(looks, lambda look: dead_members(look.roster.members, look.by_id))
    last = looks[-1]
    if not dead:
        return ok(
            f"epoch {last.roster.epoch}, {count(len(last.roster.members), 'member')}, none of "
            "them dead"
        )
    told = f"the roster has dead members: {_names(dead, looks)}"
    if not last.beating:
        return warn(
            f"{told}; the next node that starts removes them", "start one: `tontine node MODULE`"
        )
    if len(looks) == 1:
        return warn(
            f"{told}; live nodes remove them within seconds", "run this again without --quick"
        )
    return judgement(complaint.dead_members(_named(dead, looks)))


def judge_membership(looks: Looks) -> Judgement:
    """Live nodes that want a share and are in no roster."""
    strays = _in_both(
        looks, lambda look: {node.id for node in look.nodes if is_stray(node, look.roster)}
    )
    if not strays:
        return ok("every node that wants a share has one")
    told = f"live nodes that are not in the roster: {_names(strays, looks)}"
    judge = fail if len(looks) > 1 else warn
    return judge(told, "look into their logs, and restart them if this lasts")


def judge_beats(looks: Looks) -> Judgement:
    """Heartbeats that stand still. The others bury such a node after a lease."""
    last = looks[-1]
    silent = [node for node in last.nodes if is_silent(node)]
    if not silent:
        return ok("all heartbeats are young") if last.live else ok("no node, no heartbeat")
    if not last.beating:
        return judge_nodes(looks)
    heirs = working_members(last.nodes, last.roster) or last.beating  # who starts inherits, too
    names = sorted(node.name for node in heirs)
    lease = min(node.lease for node in heirs)
    return judgement(complaint.quiet(_silences(silent), names, lease)[0])


def judge_ticks(looks: Looks) -> Judgement:
    """Claim loops that stand still in a node that beats."""
    if len(looks) == 1:
        return unknown("needs two looks", "run this without --quick")
    before = looks[0].by_id
    there = [node for node in looks[-1].live if node.id in before]
    still = {node.id: claim_loop_stands_still(before[node.id], node) for node in there}
    stuck = {node for node, stands in still.items() if stands}
    if stuck:
        return judgement(complaint.standing_still(_named(stuck, looks)))
    if not there:
        return ok("no node, no claim loop")
    if all(stands is None for stands in still.values()):
        return unknown("no node that has started has beaten between the two looks")
    return ok("every claim loop moves")


def judge_numbering(looks: Looks) -> Judgement:
    """Jobs that arrived without a number and are not given one."""
    last = looks[-1]
    raw = _in_both(looks, lambda look: set(look.raw.ids))
    if not raw:
        return ok("no job waits for its number")
    waited = (last.now - last.raw.oldest).total_seconds() if last.raw.oldest else 0.0
    told = f"{count(len(raw), 'job')} without a number" + (
        f", the oldest for {duration(waited)}" if waited > 1 else ""
    )
    if not working_members(last.nodes, last.roster):
        return warn(
            f"{told}, and no node to number them", "start a node, or `tontine resume --all`"
        )
    if len(looks) == 1 and not is_unnumbered_too_long(waited, LONG_UNNUMBERED):
        return ok(f"{told}: nodes number new jobs within a second")
    return fail(
        f"{told}, although nodes are there", "look into the log of the first member of the roster"
    )


def judge_held(looks: Looks) -> Judgement:
    """Jobs that dead nodes hold: any live node gives them back within seconds."""
    last = looks[-1]
    holders = _in_both(looks, lambda look: dead_holders(look.held, look.by_id))
    number = sum(last.held[holder] for holder in holders)
    if not holders:
        return ok(f"{count(sum(last.held.values()), 'job')} in the hands of live nodes")
    told = f"{count(number, 'job')} held by dead nodes: {_names(holders, looks)}"
    if not last.beating:
        return warn(
            f"{told}; the next node that starts gives them back", "start one: `tontine node MODULE`"
        )
    if len(looks) == 1:
        return warn(
            f"{told}; live nodes give them back within seconds", "run this again without --quick"
        )
    return fail(f"{told}, and no live node gives them back", "look into the nodes' logs")


def judge_crashes(looks: Looks) -> Judgement:
    crashed = [node for node in looks[-1].live if node.crashes]
    if not crashed:
        return ok("no worker of a live node has crashed")
    told = ", ".join(
        f"{node.name}: {node.crashes} (the last {node.last_crash})" for node in crashed
    )
    return warn(
        f"crashed workers: {told}",
        "`tontine jobs --state failed` and the nodes' logs tell which jobs",
    )


def judge_inside(looks: Looks) -> Judgement:
    """What the records of nodes that beat say is wrong inside them, and workers that are not
    there."""
    found = [
        one
        for node in looks[-1].beating
        for one in (*_troubles(node, looks), *_missing_workers(node, looks), *_faults(node))
    ]
    if not found:
        return ok(
            "no loop fails, no worker is missing" if looks[-1].beating else "no node to look inside"
        )
    found.sort(key=lambda one: one.is_grave, reverse=True)  # the others keep their order
    more = f"; and {len(found) - _TOLD} more" if len(found) > _TOLD else ""
    told = "; ".join(one.fact for one in found[:_TOLD]) + more
    return (fail if found[0].is_grave else warn)(told, found[0].advice)


@dataclass(frozen=True, slots=True)
class _Inside:
    """One thing that is wrong inside a node."""

    is_grave: bool
    fact: str
    advice: str


def _troubles(node: Sighting, looks: Looks) -> Iterable[_Inside]:
    for trouble in node.troubles:
        is_grave = trouble.is_grave and _lasts(trouble, node, looks)
        yield _Inside(is_grave, f"{node.name} {trouble.told(looks[-1].now)}", _cure(node, trouble))


def _faults(node: Sighting) -> Iterable[_Inside]:
    """Modules and contexts that are not what they should be; what else it has goes on."""
    more = f"`tontine module ls` and the log of {node.name} have more"
    faulty: list[ContextState | Loaded] = [*node.contexts, *node.loaded]
    return [
        _Inside(False, f"{node.name} {one.complaint}", f"{more}; {_becomes_of(one)}")
        for one in faulty
        if one.complaint
    ]


def _becomes_of(faulty: ContextState | Loaded) -> str:
    if faulty.state == REFUSED:
        return "it stays so until somebody changes what the node is to load"
    return "it tries again by itself"


def _lasts(trouble: Trouble, node: Sighting, looks: Looks) -> bool:
    """Whether it is old, or was there in both looks without an end in between."""
    lasted, before = trouble.lasted(looks[-1].now), _beaten_since(node, looks)
    if before is None or lasted is None:
        return (lasted or 0.0) > LASTING
    between = (looks[-1].now - looks[0].now).total_seconds()
    return lasted > LASTING or (lasted > between and bool(before.troubles_with(trouble.what)))


def _beaten_since(node: Sighting, looks: Looks) -> Sighting | None:
    """The node in the first of two looks, if its record is a newer one by now."""
    return next(
        (
            one
            for look in looks[:-1]
            for one in look.beating
            if one.id == node.id and one.beat < node.beat
        ),
        None,
    )


def _cure(node: Sighting, trouble: Trouble) -> str:
    if trouble.what.startswith("workers"):
        return f"the log of {node.name} says why they do not start: modules, memory, open files"
    if not trouble.is_grave:
        return f"its jobs are done all the same; the log of {node.name} has more"
    return (
        f"put right what it names (other checks may tell how), or look into the log of {node.name}"
    )


def _missing_workers(node: Sighting, looks: Looks) -> Iterable[_Inside]:
    """Workers are replaced all day: only what is missing in both looks counts."""
    before = _beaten_since(node, looks)
    if before is not None and before.lacks_workers and node.lacks_workers:
        yield _Inside(
            not before.workers and not node.workers,
            f"{node.name} {node.lacks_workers}",
            f"the log of {node.name} says why they do not start; restart it if this lasts",
        )


def judge_agreement(looks: Looks) -> Judgement:
    """Leases and versions, also of modules, that differ between nodes."""
    live = looks[-1].live
    leases = sorted({node.lease for node in live})
    if len(leases) > 1:
        told = ", ".join(duration(lease) for lease in leases)
        return warn(f"live nodes have different leases: {told}", "give all nodes the same --lease")
    versions = sorted({node.version for node in live})
    if len(versions) > 1:
        return warn(
            f"live nodes have different versions: {', '.join(versions)}",
            "fine during an upgrade, not after it",
        )
    if differing := differing_versions(live):
        told = "; ".join(differing[:_TOLD])
        return warn(
            f"live nodes have different versions of modules: {told}",
            "fine during an upgrade, not after it",
        )
    return ok("the nodes agree on lease and versions" if live else "no node to disagree")
