"""Judges each change of a job, a node, a plan, a named state or the roster against the one before
it, as a change stream tells them."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
from typing import Any

from ...records.change import Delta
from .cluster_changes import ClusterChanges
from .invariant import Finding
from .job_changes import JobChanges
from .node_changes import NodeChanges
from .plan_changes import PlanChanges
from .plan_counts import PLAN_INVARIANTS
from .state_changes import StateChanges

ONLY_WATCHED = ("S8", "MI7", "MI8")
"""The invariants that changes alone can show."""
WATCHED = ("S1", "S2", "S4", "S5", "S6", "S7", "MI1", "MI3", *ONLY_WATCHED, *PLAN_INVARIANTS)
"""The invariants that changes can show."""


class History:
    """What is known of each document. A job is judged from the second change seen of it, or the
    first after it was inserted; so are nodes and roster, unless the history starts from their
    documents. A plan is judged if it was inserted while the history was kept.

    Servers' clocks are taken to agree to a second or so: across a failover to one that is off by
    more, S8 and a part of S2 mean nothing.
    """

    def __init__(
        self, jobs: str, nodes: str, cluster: str, plans: str, states: str = "states"
    ) -> None:
        self.changes = 0
        self._nodes, self._cluster, self._plans = NodeChanges(), ClusterChanges(), PlanChanges()
        self._jobs = JobChanges(
            self._nodes.is_alive, self._cluster.has_offered, self._nodes.is_careful
        )
        self._judges = {
            jobs: self._see_job,
            nodes: self._nodes.see,
            cluster: self._cluster.see,
            plans: self._plans.see_plan,
            states: StateChanges().see,
        }

    def _see_job(self, change: Delta) -> Iterator[Finding]:
        yield from self._jobs.see(change)
        yield from self._plans.see_job(change)

    @property
    def put_back(self) -> set[int]:
        """The seqs of jobs that had ended and were queued again: each must be one that an operator
        retried. Those of plans are not among them: their plan is retried."""
        return self._jobs.put_back

    def start_from(
        self, nodes: Iterable[Mapping[str, Any]], cluster: Iterable[Mapping[str, Any]]
    ) -> None:
        """Take these documents, read before the stream was opened, for what they say of any later
        moment.

        What they say may have changed in between: only what stays true, or only grows, is made use
        of.
        """
        for document in nodes:
            self._nodes.recall(document)
        for document in cluster:
            self._cluster.recall(document)

    def see(self, change: Delta) -> Iterator[Finding]:
        """What is wrong with a change."""
        if change.collection in self._judges:
            self.changes += 1
            yield from self._judges[change.collection](change)
