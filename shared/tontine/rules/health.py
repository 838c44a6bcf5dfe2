"""One opinion about health: whatever can be wrong with nodes and queue is judged by one function
here. Pure.

Doctor, audit, why, the commands and the observer ask these. What is theirs is the words, and the
patience: a queue that works passes through most of these conditions for a moment, so who looks
once, twice or for a minute waits differently.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Protocol

from ..records.node import BEATS_IN_A_LEASE, Sighting
from ..records.roster import Roster
from ..records.states import NodeState

SILENT_AFTER = 0.35
"""Of a lease: two heartbeats and the time limit of one call. An older beat stands still."""
UNBURIED_LEASES, UNBURIED_SECONDS = 1.5, 5.0
"""After so many leases and seconds without a beat, others should have buried a node."""
NUMBERED_WITHIN = 5.0
"""Seconds: the first member numbers new jobs within one, and any other helps after half of one
(F2)."""
HEALED_WITHIN = 5.0
"""Seconds from a burial until the others have given back what the dead held and divided its
share."""
LATELY, LATEST_JOBS = 3600.0, 100
"""Jobs ended lately: in the last hour, and of each task no more than its newest so many."""
FAILING_FROM, FAILING_PART = 10, 0.2
"""So many failures, and more than this part of all jobs that ended lately, are a fault."""
BROKEN_FROM, BROKEN_PART = 5, 0.5
"""And so many, and this part of a task's or of all, a grave one."""
STUCK_AFTER, STUCK_RUNS = 30.0, 3.0
"""All slots busy and nothing ends: for so many seconds, and so many times a usual run."""
OLD_AFTER, OLD_SOONEST, OLD_WAITS = 300.0, 60.0, 5.0
"""A job that waits for so many seconds waits too long; where waits are known, from the second on if
it is so many times the usual wait."""
A_MONTH = 30 * 86_400.0
QUIET_PLAN_AFTER = 3600.0
"""Seconds without any progress of a plan of which nothing is queued or working."""
IDLE_FOR = 10.0
"""Seconds that jobs which could run may wait while no node runs any."""
STALLED_AFTER = 10.0
"""Seconds without a claim in a share where jobs wait and whose owner has room, or is dead."""
FOREIGN_FOR = 5.0
"""Seconds that a node which is no member may still hold what it claimed."""
GROWING_OVER, GROWING_FROM, GROWING_BY = 60.0, 100, 1.2
"""A queue of so many that has grown by so much in so many seconds, and goes on growing."""
SKEWED_FROM = 0.5
"""Of a lease: a clock that is wrong by more misleads whoever reads its logs."""
PILES_FROM = 3
"""Unfinished jobs of one schedule that are due: it fires faster than they end."""


class Busy(Protocol):
    """A node as far as it has slots."""

    @property
    def slots(self) -> int: ...
    @property
    def running(self) -> int: ...


class Mortal(Protocol):
    """A node as far as it can be dead, in whoever's record of it."""

    @property
    def is_dead(self) -> bool: ...


def is_gone(node: Mortal | None) -> bool:
    """Whether a node is dead. One that was a member, or held a job, had a record: without it, it is
    dead, too."""
    return node is None or node.is_dead


def dead_members(members: Iterable[str], nodes: Mapping[str, Mortal]) -> set[str]:
    """Members of the roster that are dead: live nodes take them out, once their jobs are given back
    (M2)."""
    return {member for member in members if is_gone(nodes.get(member))}


def dead_holders(holders: Iterable[str], nodes: Mapping[str, Mortal]) -> set[str]:
    """Dead nodes among those that hold jobs: live nodes give these back (J7)."""
    return {holder for holder in holders if is_gone(nodes.get(holder))}


def beat_stands_still(beat_age: float | None, lease: float) -> bool:
    """Whether the last heartbeat is older than it ever is in a sound node; where nothing is told,
    it is not."""
    return beat_age is not None and beat_age > SILENT_AFTER * lease


def lease_is_over(beat_age: float | None, lease: float) -> bool:
    """Whether a lease has run out, by the server's clock; where nothing is told, it has not."""
    return beat_age is not None and beat_age > lease


def is_silent(node: Sighting) -> bool:
    """Whether its beat stands still, although it has not been declared dead."""
    return not node.is_dead and beat_stands_still(node.beat_age, node.lease)


def is_beating(node: Sighting) -> bool:
    return not node.is_dead and not is_silent(node)


def has_lease(node: Sighting) -> bool:
    return not node.is_dead and not lease_is_over(node.beat_age, node.lease)


def buried_in(node: Sighting, lease: float) -> float:
    """About how many seconds from now others, whose lease this is, declare it dead if it stays
    silent (D2)."""
    return inherited_in(node.beat_age or 0.0, lease)


def is_unburied(node: Sighting, lease: float) -> bool:
    """Whether it has been silent for so long that others, whose lease this is, should have declared
    it dead."""
    return is_silent(node) and is_unburied_after(node.beat_age or 0.0, lease)


def is_unburied_after(beat_age: float, lease: float) -> bool:
    return beat_age > UNBURIED_LEASES * lease + UNBURIED_SECONDS


def is_stray(node: Sighting, roster: Roster) -> bool:
    """Whether it is alive, wanted and ready, and yet no member (M1)."""
    is_ready = node.state in (NodeState.WAITING, NodeState.WORKING)
    # A node that was told to stop by a signal leaves first, and then finishes what it has.
    has_work = bool(node.running or node.held)
    is_wanted = is_beating(node) and is_ready and not node.is_leaving and not has_work
    return is_wanted and node.id not in roster


def claim_loop_stands_still(before: Sighting, after: Sighting) -> bool | None:
    """Whether a node has beaten between two looks and its claim loop has not moved.

    None when that cannot be told: it has not beaten, or it still starts and has no claim loop.
    """
    if after.is_dead or after.state is NodeState.INITIALIZING or after.beat == before.beat:
        return None
    return after.tick == before.tick


def working_members(nodes: Iterable[Sighting], roster: Roster) -> list[Sighting]:
    """Members that beat: those who number and claim."""
    return [node for node in nodes if is_beating(node) and node.id in roster]


def is_unnumbered_too_long(waited: float, patience: float = NUMBERED_WITHIN) -> bool:
    """Whether a job that came without a number, so many seconds ago, should have got one (F2)."""
    return waited > patience


def known_tasks(nodes: Iterable[Sighting]) -> frozenset[str]:
    """The tasks that live nodes have, whether they beat or not: jobs of any other wait for
    nobody."""
    return frozenset(task for node in nodes if not node.is_dead for task in node.tasks)


@dataclass(frozen=True, slots=True)
class Queue:
    """What waits, and what those who could run it do."""

    waiting: int = 0
    """Jobs that are due, of tasks that somebody has."""
    oldest_for: float | None = None
    """Seconds that the oldest of them has waited; None where that is not known."""
    slots: int = 0
    """Of the members that beat."""
    busy: int = 0
    quiet_for: float | None = None
    """Seconds since a job last started or ended."""
    usual_wait: float | None = None
    """What most jobs wait, in a quiet hour as in a busy one; None where too few are known."""
    usual_run: float | None = None


def all_slots_busy(nodes: Iterable[Busy]) -> bool:
    """Whether there are slots, and not one is free."""
    every = list(nodes)
    slots = sum(node.slots for node in every)
    return slots > 0 and sum(node.running for node in every) >= slots


def is_stuck(queue: Queue) -> bool:
    """Whether jobs wait, every slot is busy, and nothing has ended for longer than runs usually
    take."""
    if not queue.waiting or not queue.slots or queue.busy < queue.slots:
        return False
    patience = max(STUCK_AFTER, STUCK_RUNS * (queue.usual_run or 0.0))
    return queue.quiet_for is not None and queue.quiet_for > patience


def waits_too_long(queue: Queue) -> bool:
    """Whether the oldest job has waited for longer than anybody should, or than is usual here."""
    if queue.oldest_for is None or not queue.waiting:
        return False
    if queue.usual_wait is None:
        return queue.oldest_for > OLD_AFTER
    patience = max(OLD_SOONEST, OLD_WAITS * queue.usual_wait)
    return queue.oldest_for > min(patience, OLD_AFTER)


def empties_in(waiting: float, in_rate: float, out_rate: float) -> float | None:
    """Seconds until nothing waits if it goes on like this; None when it never does, or in more than
    a month."""
    if waiting <= 0:
        return 0.0
    shrinks_by = out_rate - in_rate
    return waiting / shrinks_by if shrinks_by * A_MONTH > waiting else None


def inherited_in(silent_for: float, lease: float) -> float:
    """About how many seconds from now the others, whose lease this is, inherit a silent node's
    share."""
    return max(0.0, lease * (1 + 1 / BEATS_IN_A_LEASE) - silent_for)


def is_idle(queue: Queue, *, is_busy: bool) -> bool:
    """Whether work that could be done has waited for a while, and nobody does any."""
    return (queue.oldest_for or 0.0) > IDLE_FOR and not is_busy


def grows(first: float, middle: float, last: float) -> bool:
    """Whether a queue that had these lengths, over `GROWING_OVER` seconds, grows."""
    return last >= GROWING_FROM and last > GROWING_BY * first and last > middle > first


def is_skewed(skew: float | None, lease: float) -> bool:
    """Whether a node's clock is wrong by too much; where nothing is told, it is not."""
    return skew is not None and abs(skew) > SKEWED_FROM * lease


def is_failing(failed: int, ended: int) -> bool:
    """Whether so many of the jobs that ended lately failed that something is wrong."""
    return failed >= FAILING_FROM and failed > FAILING_PART * ended


def is_broken(failed: int, ended: int) -> bool:
    """Whether most of them failed: what they do does not work."""
    return failed >= BROKEN_FROM and failed >= BROKEN_PART * ended


def piles_up(unfinished: int) -> bool:
    """Whether a schedule with so many unfinished jobs fires faster than they end."""
    return unfinished >= PILES_FROM


def is_being_healed(dead_for: float | None) -> bool:
    """Whether what a dead node left behind may still be on its way to the others."""
    return dead_for is not None and dead_for < HEALED_WITHIN


def plan_stands_still(quiet_for: float | None, open_jobs: int) -> bool:
    """Whether nothing of an unfinished plan waits or runs, and nothing has happened to it for long:
    whoever looks at it should have gone on with it, or ended it (PL8)."""
    return not open_jobs and quiet_for is not None and quiet_for > QUIET_PLAN_AFTER
