"""(3) Claim: make jobs this node's, or lose the race quietly. The update's filter decides, never a
read."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from pymongo import ReturnDocument

from ..errors import StoreUnavailable
from ..records.roster import Roster
from .call import Operation, find, find_one_and_update, update_many
from .counter import counted
from .fresh import FIELDS
from .inbox import is_open
from .indexes import FRESH, QUEUED, WORKING
from .names import CLUSTER, COUNTER, JOBS, RANGES, ROSTER, SETTINGS
from .ranges import Ranges
from .raw import Raw
from .retention import Retention
from .states import CHANGES, changes_in


@dataclass(frozen=True, slots=True)
class ClusterState:
    """What all nodes share: roster, last number given, how long finished jobs are kept, whether
    there is an inbox, which ranges of versions may be queued."""

    roster: Roster
    counter: int
    retention: Retention
    inbox: bool
    ranges: Ranges
    state_changes: int = 0
    """A hint that a named state has changed."""


def overview() -> Operation[ClusterState]:
    """The whole of `cluster`, in one read."""
    wanted = [ROSTER, COUNTER, SETTINGS, RANGES, CHANGES]
    documents = yield find(CLUSTER, {"_id": {"$in": wanted}})
    by_id = {document["_id"]: document for document in documents}
    return ClusterState(
        Roster.from_document(by_id.get(ROSTER)),
        counted(by_id.get(COUNTER)),
        Retention.from_document(by_id.get(SETTINGS)),
        is_open(by_id.get(SETTINGS)),
        Ranges.from_document(by_id.get(RANGES)),
        changes_in(by_id.get(CHANGES)),
    )


def claim(node: str, seqs: Sequence[int], attempt: int) -> Operation[set[int]]:
    """Claim queued jobs that were claimed `attempt` times before; the seqs that are this node's now
    (J1).

    An unknown outcome is read back; if that fails too, `StoreUnavailable` leaves them pending.
    """
    try:
        result = yield update_many(
            JOBS,
            {"seq": {"$in": list(seqs)}, "state": QUEUED, "attempt": attempt},
            {"$set": {"state": WORKING, "node": node, "attempt": attempt + 1}},
        )
        if result.modified_count == len(seqs):
            return set(seqs)
    except StoreUnavailable:
        pass
    return (yield from held(node, seqs, attempt + 1))


def claim_announced(node: str, seq: int, tasks: Sequence[str]) -> Operation[Raw | None]:
    """Claim a fresh job by its number alone; as it was before, or None if it is not there, or not
    for this node (J1).

    `StoreUnavailable` leaves it pending.
    """
    found: Raw | None = yield find_one_and_update(
        JOBS,
        {**FRESH, "seq": seq, "attempt": 0, "task": {"$in": list(tasks)}},
        {"$set": {"state": WORKING, "node": node, "attempt": 1}},
        projection=FIELDS,
        return_document=ReturnDocument.BEFORE,
        raw=True,
        lean=True,
    )
    return found


def held(node: str, seqs: Sequence[int], attempt: int) -> Operation[set[int]]:
    """Which of these jobs are this node's, at this attempt."""
    found = yield find(
        JOBS,
        {"seq": {"$in": list(seqs)}, "state": WORKING, "node": node, "attempt": attempt},
        projection={"_id": 0, "seq": 1},
        hint="seq",
    )
    return {int(job["seq"]) for job in found}
