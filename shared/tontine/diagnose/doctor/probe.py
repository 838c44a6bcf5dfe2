"""Judges one node from one or two looks at it, for `tontine nodes --check`: does it do its part,
and if not, why."""

from __future__ import annotations

from dataclasses import dataclass, replace

from ...legible import duration
from ...records.node import Sighting
from ...records.states import Desired, NodeState
from ...rules.health import has_lease, is_silent
from .nodes import Looks, judge_inside, judge_membership, judge_ticks
from .verdict import Judgement, Verdict, fail, ok

LOOK_AGAIN_AFTER = (2.8, 10.0)
"""Seconds, at least and at most: within a heartbeat and a claim round every part of a sound node
has moved."""
_RESTART = "look into its log and restart it"
_DOINGS = {
    NodeState.WAITING: "waits for jobs",
    NodeState.WORKING: "works",
    NodeState.PAUSED: "is paused, as it was asked to",
}


@dataclass(frozen=True, slots=True)
class Health:
    """Whether one node is well, in one sentence, and what to do if it is not."""

    is_well: bool
    why: str
    advice: str = ""


def pause_between(node: Sighting) -> float:
    """How long to wait for the second look; nothing new would be seen of a node that is dead or
    still starts."""
    if not has_lease(node) or node.state is NodeState.INITIALIZING:
        return 0.0
    least, most = LOOK_AGAIN_AFTER
    return min(most, max(least, 1.4 * node.heartbeat_every))


def examine(looks: Looks, id: str) -> Health:
    """The health of the node with that id."""
    looks = [
        replace(look, nodes=tuple(node for node in look.nodes if node.id == id)) for look in looks
    ]
    if not looks[-1].nodes:
        return Health(False, f"the record of {id} is gone", _RESTART)
    node = looks[-1].nodes[0]
    for judgement in (
        _alive(node, looks),
        *(judge(looks) for judge in (judge_ticks, judge_membership, judge_inside)),
    ):
        if judgement.verdict is Verdict.FAIL:
            return Health(False, judgement.sentence, judgement.advice)
    return Health(True, f"{node.name} {_doing(node)}")


def _alive(node: Sighting, looks: Looks) -> Judgement:
    if node.is_dead:
        told = f"{node.name} is dead"
        if node.died_at is not None:
            told = (
                f"{node.name} died {duration((looks[-1].now - node.died_at).total_seconds())} ago"
            )
        return fail(
            f"{told}: {node.death}" if node.death else told, "start it again: `tontine node MODULE`"
        )
    if not has_lease(node):
        return fail(
            f"{node.name} has not beaten for {duration(node.beat_age or 0)}: its lease is over",
            _RESTART,
        )
    if node.state is NodeState.INITIALIZING:
        return fail(
            f"{node.name} is still starting", "its log says what it waits for if this lasts"
        )
    if is_silent(node) and _stands_still(looks):
        left = f"its lease is over in {duration(max(0.0, node.lease - (node.beat_age or 0)))}"
        return fail(
            f"{node.name} has not beaten for {duration(node.beat_age or 0)}: {left}", _RESTART
        )
    return ok("it is alive")


def _stands_still(looks: Looks) -> bool:
    """Whether a second look has seen the same beat: a single old one may be an election's."""
    return len(looks) > 1 and len({node.beat for look in looks for node in look.nodes}) == 1


def _doing(node: Sighting) -> str:
    if node.desired is Desired.STOPPED:
        return "is stopping, as it was asked to"
    return _DOINGS.get(node.state, f"is {node.state.value}")
