"""Plans for a screen that shows them: a row for each, one whole with its steps drawn. Their jobs
are counted by the server, never fetched. Clean and redacted."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime
from time import monotonic
from typing import Any

from tontine.cli.output import json_text
from tontine.diagnose.why.plan import explain_plan
from tontine.records.job import is_whole
from tontine.records.plan import PlanRecord
from tontine.records.plan_status import PlanStatus, StepStatus
from tontine.records.states import ENDED_PLAN, JobState
from tontine.rules.plan_shown import drawn_steps
from tontine.store import read
from tontine.store.call import AsyncStore, Operation
from tontine.store.plans.accept import all_know_plans
from tontine.store.plans.status import list_heads, read_counted
from tontine.store.read import hurried

from ..records.clean import Cleaner
from ..records.ledger import Ledger
from ..records.plan import PlanPage, PlanRow, StepRow
from ..records.values import key_of, mapping, timestamp, whole

LISTED = 100
WITHIN = 10.0
COUNTING = 0.5
"""Seconds in which plans are counted at a time: the others keep what was counted of them before."""
_ENDED = frozenset(state.value for state in ENDED_PLAN)


class PlanRows:
    """Reads the rows again and again. Of a plan that has ended nothing changes any more: it is
    counted once."""

    def __init__(self, clean: Cleaner) -> None:
        self._clean = clean
        self._known: dict[Any, tuple[PlanRow, float]] = {}
        """The rows, and when each was counted."""

    async def read(self, store: AsyncStore) -> Ledger:
        heads = await store.run(hurried(list_heads(LISTED), WITHIN))
        rows = {key_of(one["_id"]): plan_row(one, self._clean) for one in heads}
        before = {key: self._known[key] for key in rows if key in self._known}
        self._known = {}
        until = monotonic() + COUNTING
        for key in sorted(rows, key=lambda key: before[key][1] if key in before else 0.0):
            row, (last, at) = rows[key], before.get(key, (None, 0.0))
            is_same = last is not None and (last.state, last.tries) == (row.state, row.tries)
            if not (is_same and row.state in _ENDED) and monotonic() < until:
                counted = await store.run(hurried(read_counted({"_id": row.id}), WITHIN))
                if counted is not None:
                    row, at = counted_row(row, counted[2]), monotonic()
            elif last is not None:
                row = replace(row, steps=last.steps, done=last.done, progress=last.progress)
            rows[key] = row
            if row.steps is not None:
                self._known[key] = (row, at)
        newest = sorted(
            rows.values(), key=lambda row: (row.seq is None, row.seq or 0), reverse=True
        )
        return Ledger(plans=tuple(newest))


def plan_row(document: Mapping[str, Any], clean: Cleaner) -> PlanRow:
    """A row of a plan's document, whatever that is like."""
    seq, state = document.get("seq"), document.get("state")
    made = timestamp(getattr(document["_id"], "generation_time", None))
    error = mapping(document.get("error"))
    step = f"{clean.name(error['step'])}: " if error.get("step") else ""
    told = ": ".join(clean.text(error[name]) for name in ("type", "message") if error.get(name))
    return PlanRow(
        document["_id"],
        int(seq) if is_whole(seq) else None,
        clean.name(document.get("name") or ""),
        "new" if state is None else clean.name(state),
        whole(document.get("try")),
        clean.name(document.get("key") or ""),
        timestamp(document.get("created_at")) or made,
        timestamp(document.get("finished_at")),
        f"{step}{told}",
    )


def counted_row(row: PlanRow, status: PlanStatus) -> PlanRow:
    steps = status.steps.values()
    done = sum(
        step.state == JobState.DONE or (step.may_fail and _has_ended(step)) for step in steps
    )
    return replace(row, steps=len(steps), done=done, progress=status.progress)


def _has_ended(step: StepStatus) -> bool:
    return step.state in (JobState.FAILED, JobState.CANCELLED)


def read_plan_page(where: Mapping[str, Any], clean: Cleaner) -> Operation[PlanPage | None]:
    """Everything about one plan; None when there is no such plan."""
    found = yield from read_counted(where)
    if found is None:
        return None
    now = yield from read.now()
    know = yield from all_know_plans()
    return page_of(*found, now, clean, all_know=know)


def page_of(
    document: Mapping[str, Any],
    plan: PlanRecord,
    status: PlanStatus,
    now: datetime,
    clean: Cleaner,
    *,
    all_know: bool = True,
) -> PlanPage:
    """A page of a plan and its jobs, counted."""
    return PlanPage(
        now,
        counted_row(plan_row(document, clean), status),
        tuple(
            StepRow(one.step, tuple(map(tuple, one.lines)))
            for one in drawn_steps(plan, status, now, clean.text)
        ),
        tuple(
            (clean.text(one.sentence, 2000), clean.text(one.advice, 2000))
            for one in explain_plan(plan, status, all_know=all_know)
        ),
        clean.lines(json_text(clean.value(document), indent=True)),
    )
