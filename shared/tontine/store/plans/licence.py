"""The licence: after a claim is known to be ours, and before the job may start, its plan is read,
never from a cache (PL5)."""

from __future__ import annotations

from collections.abc import Collection, Mapping, Sequence
from dataclasses import dataclass

from ...records.plan import PlanPlace, PlanRecord
from ...records.states import PlanState
from ...rules.plan import may_start
from ..call import Operation, find
from ..claim import claim
from ..names import PLANS


@dataclass(frozen=True, slots=True)
class Licences:
    """Which claimed jobs of plans may start, and of which of the others the plan is gone."""

    granted: frozenset[int]
    orphans: frozenset[int]


def read_licences(places: Mapping[int, PlanPlace]) -> Operation[Licences]:
    """What the plans of these jobs, by number, say now; in one call."""
    seqs = sorted({place.seq for place in places.values()})
    found = yield find(
        PLANS,
        {"seq": {"$in": seqs}},
        projection={"seq": 1, "state": 1, "try": 1},
        hint="seq",
    )
    plans = {plan.seq: plan for plan in map(PlanRecord.from_document, found)}
    granted: set[int] = set()
    orphans: set[int] = set()
    for job, place in places.items():
        plan = plans.get(place.seq)
        if plan is None or plan.state is PlanState.REMOVING:
            orphans.add(job)
        elif may_start(place, plan.state, plan.try_):
            granted.add(job)
    return Licences(frozenset(granted), frozenset(orphans))


def claim_licensed(
    node: str, seqs: Sequence[int], attempt: int, places: Mapping[int, PlanPlace]
) -> Operation[tuple[set[int], Licences]]:
    """Claim jobs, some of them plans' (`places`), and read the licences of those that are this
    node's now. One operation, so that it is causal: the claim is written before the plan is
    read."""
    ours = yield from claim(node, seqs, attempt)
    return ours, (yield from licences_of(ours, places))


def licences_of(ours: Collection[int], places: Mapping[int, PlanPlace]) -> Operation[Licences]:
    """The licences of those jobs that are this node's."""
    mine = {seq: place for seq, place in places.items() if seq in ours}
    return (yield from read_licences(mine)) if mine else Licences(frozenset(), frozenset())
