"""The state machines as tables. Code, queries, the diagram in docs/states.md and the tests all
read these."""

from __future__ import annotations

from enum import StrEnum
from typing import TypeVar


class NodeState(StrEnum):
    """Where a node is in its life."""

    INITIALIZING = "initializing"
    WAITING = "waiting"
    WORKING = "working"
    PAUSED = "paused"
    DEAD = "dead"


class JobState(StrEnum):
    """Where a job is in its life."""

    QUEUED = "queued"
    """Waits for its number, its time or a node."""
    WORKING = "working"
    """A node has claimed it."""
    DONE = "done"
    """Its result is stored."""
    FAILED = "failed"
    """Its last error is stored."""
    CANCELLED = "cancelled"
    """Ended by request, or not started in time."""


class PlanState(StrEnum):
    """Where a plan is in its life; one that nobody has accepted yet has none."""

    RUNNING = "running"
    """Its steps become jobs."""
    STOPPING = "stopping"
    """A step failed, or it was cancelled: what runs comes to its end."""
    UNDOING = "undoing"
    """Its steps are undone, the last first."""
    CLOSING = "closing"
    """Its `finally` is under way."""
    DONE = "done"
    """All of its steps ended well."""
    FAILED = "failed"
    """A step failed, or it could be no plan."""
    CANCELLED = "cancelled"
    """Ended by request."""
    UNDONE = "undone"
    """It failed or was cancelled, and what was done of it is undone."""
    STUCK = "stuck"
    """An undo failed."""
    REMOVING = "removing"
    """Its time is over: its jobs go, then it does."""


class Desired(StrEnum):
    """What the operator asked of a node."""

    RUNNING = "running"
    PAUSED = "paused"
    STOPPED = "stopped"


NODE_MOVES: dict[
    NodeState, frozenset[NodeState]
] = {  # DEAD has no way out: a process that comes back is a new node
    NodeState.INITIALIZING: frozenset({NodeState.WAITING, NodeState.DEAD}),
    NodeState.WAITING: frozenset({NodeState.WORKING, NodeState.PAUSED, NodeState.DEAD}),
    NodeState.WORKING: frozenset({NodeState.WAITING, NodeState.PAUSED, NodeState.DEAD}),
    NodeState.PAUSED: frozenset({NodeState.WAITING, NodeState.DEAD}),
    NodeState.DEAD: frozenset(),
}

JOB_MOVES: dict[
    JobState, frozenset[JobState]
] = {  # out of a final state only by an operator's retry
    JobState.QUEUED: frozenset({JobState.WORKING, JobState.FAILED, JobState.CANCELLED}),
    JobState.WORKING: frozenset(
        {JobState.DONE, JobState.FAILED, JobState.CANCELLED, JobState.QUEUED}
    ),
    JobState.DONE: frozenset({JobState.QUEUED}),
    JobState.FAILED: frozenset({JobState.QUEUED}),
    JobState.CANCELLED: frozenset({JobState.QUEUED}),
}

PLAN_MOVES: dict[PlanState, frozenset[PlanState]] = {  # out of an end only by retry and removal
    PlanState.RUNNING: frozenset({PlanState.STOPPING, PlanState.CLOSING, PlanState.DONE}),
    PlanState.STOPPING: frozenset(
        {PlanState.UNDOING, PlanState.CLOSING, PlanState.FAILED, PlanState.CANCELLED}
    ),
    PlanState.UNDOING: frozenset({PlanState.CLOSING, PlanState.UNDONE, PlanState.STUCK}),
    PlanState.CLOSING: frozenset(
        {
            PlanState.DONE,
            PlanState.FAILED,
            PlanState.CANCELLED,
            PlanState.UNDONE,
            PlanState.STUCK,
        }
    ),
    PlanState.FAILED: frozenset({PlanState.RUNNING, PlanState.REMOVING}),
    PlanState.CANCELLED: frozenset({PlanState.RUNNING, PlanState.REMOVING}),
    PlanState.STUCK: frozenset({PlanState.UNDOING, PlanState.REMOVING}),
    PlanState.DONE: frozenset({PlanState.REMOVING}),
    PlanState.UNDONE: frozenset({PlanState.REMOVING}),
    PlanState.REMOVING: frozenset(),
}

LIVE = frozenset(NodeState) - {NodeState.DEAD}
FINAL = frozenset({JobState.DONE, JobState.FAILED, JobState.CANCELLED})
OPEN = frozenset(JobState) - FINAL

UNFINISHED_PLAN = frozenset(
    {PlanState.RUNNING, PlanState.STOPPING, PlanState.UNDOING, PlanState.CLOSING}
)
ENDED_PLAN = frozenset(PlanState) - UNFINISHED_PLAN - {PlanState.REMOVING}

State = TypeVar("State", NodeState, JobState, PlanState)


def sources(moves: dict[State, frozenset[State]], target: State) -> list[str]:
    """The states that may move to `target`, as a store filter wants them."""
    return sorted(state.value for state, targets in moves.items() if target in targets)
