"""Jobs of plans that were cancelled by their own numbers: what becomes of them is their plans'
business (PL9)."""

from __future__ import annotations

from collections.abc import Iterable

from ...records.states import PlanState
from ...rules.plan import stops, why_stopped
from ..bell import ring_plan
from ..call import Operation
from . import writes
from .facts import read_facts
from .read import read_whole

HEEDED_AT_MOST = 100
"""Plans at a time; of any more, their owners see it at the next look."""


def heed_cancelled(ids: Iterable[str]) -> Operation[None]:
    """Stop the plans that these jobs stop, and tell their owners. One that is busy does not hear
    it, but finds within seconds what has not ended and does not run."""
    facts = (yield from read_facts(ids)).values()
    seqs = sorted({fact.place.seq for fact in facts})[:HEEDED_AT_MOST]
    plans = (yield from read_whole(seqs)) if seqs else {}
    for seq, plan in plans.items():
        cause = next((one for one in facts if one.place.seq == seq and stops(one, plan)), None)
        if cause is not None and plan.state is PlanState.RUNNING:
            yield from writes.stop(plan, why_stopped(cause))
        yield from ring_plan(seq)
