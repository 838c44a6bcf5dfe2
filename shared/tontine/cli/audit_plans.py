"""Goes through all plans with their jobs, and again through those of which something is suspected,
until that is gone or has stood for long enough."""

from __future__ import annotations

import time
from collections.abc import Hashable, Iterable, Mapping
from typing import TYPE_CHECKING, Any

from ..diagnose.audit.invariant import Checked, Finding
from ..diagnose.audit.jobs import KEPT
from ..diagnose.audit.nodes import standing
from ..diagnose.audit.plan_changes import plan_of
from ..diagnose.audit.plan_counts import PLAN_INVARIANTS
from ..diagnose.audit.plans import PlanAudit, judge_orphan
from ..records.job import is_whole

if TYPE_CHECKING:
    from ..store.call import Store

LOOK_EVERY = 1.0


class PlanWalk:
    """What is suspected of plans: a bounded number, however many there are."""

    def __init__(self, store: Store, tally: Checked) -> None:
        self._store = store
        self._tally = tally
        self._orphans: list[str] = []
        self._suspected: dict[int, None] = {}
        self._looks: list[dict[Hashable, Finding]] = [{}]

    def see_jobs(self, chunk: Iterable[Mapping[str, Any]]) -> None:
        """Notice the jobs of plans that are not there."""
        from ..diagnose.audit import read

        owners = {one["_id"]: plan for one in chunk if (plan := plan_of(one["_id"])) is not None}
        seqs = sorted({*owners.values()})
        gone = self._store.run(read.without_plan(seqs)) if seqs else set()
        found = [job for job, plan in owners.items() if plan in gone]
        self._orphans += found[: KEPT - len(self._orphans)]

    def walk(self) -> None:
        """Every plan that has a number, once."""
        from ..diagnose.audit import read

        after: Any = -1
        first: dict[Hashable, Finding] = {}
        while page := self._store.run(read.plans(after)):
            after = page[-1]["seq"]
            for document in page:
                found = self._audit(document)
                if found and len(self._suspected) < KEPT:
                    first |= found
                    self._suspected[int(document["seq"])] = None
        self._looks = [{**first, **self._judge_orphans()}]

    def conclude(self, patience: float) -> None:
        """What is still wrong after so many seconds is."""
        until = time.monotonic() + patience
        while left := standing(self._looks):
            if len(self._looks) > 1 and time.monotonic() >= until:
                break
            time.sleep(max(0.0, min(LOOK_EVERY, until - time.monotonic())))
            self._looks = [left, self._look_again()]
        self._tally.add(left.values())

    def _look_again(self) -> dict[Hashable, Finding]:
        from ..diagnose.audit import read

        found: dict[Hashable, Finding] = {}
        for seq in self._suspected:
            document = self._store.run(read.plan(seq))
            found |= self._audit(document) if document else {}
        return found | self._judge_orphans()

    def _audit(self, document: Mapping[str, Any]) -> dict[Hashable, Finding]:
        """A plan by its document, read before, and its jobs, read now."""
        from ..diagnose.audit import read

        self._tally.looked_at(1, *PLAN_INVARIANTS, what="plan")
        audit = PlanAudit(document)
        after: str | None = None
        while is_whole(document["seq"]):
            page = self._store.run(read.jobs_of_plan(audit.seq, after))
            for job in page:
                audit.see(job)
            if len(page) < read.CHUNK:
                break
            after = page[-1]["_id"]
        return audit.suspicions()

    def _judge_orphans(self) -> dict[Hashable, Finding]:
        from ..diagnose.audit import read

        there = self._store.run(read.jobs_by_id(self._orphans)) if self._orphans else []
        numbers = {one["_id"]: plan_of(one["_id"]) or 0 for one in there}
        gone = self._store.run(read.without_plan(sorted({*numbers.values()}))) if there else set()
        return {
            key: finding
            for one in there
            if numbers[one["_id"]] in gone
            for key, finding in judge_orphan(one)
        }
