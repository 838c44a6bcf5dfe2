"""What became of the plans of a chaos run, and what their tasks noted, against what is promised:
PS1 to PS8, and that every plan that was accepted ends (PL-L1)."""

from __future__ import annotations

import time
from collections import Counter, defaultdict
from collections.abc import Iterator, Mapping
from typing import TYPE_CHECKING, Any

from tests.chaos.plan_shapes import FAILS
from tontine.diagnose.audit.invariant import Finding
from tontine.diagnose.audit.runs import RunRecord, Runs
from tontine.records.plan import PlanPlace, PlanRecord
from tontine.records.states import ENDED_PLAN, PlanState
from tontine.rules.plan import mapped_source
from tontine.rules.plan_graph import PlanGraph

if TYPE_CHECKING:
    from tests.chaos.run import Scene

Documents = Mapping[str, Mapping[str, Any]]
Faults = Iterator[tuple[str, str]]
_TOLERANCE = 1.0


class PlansEnded:
    """All plans that are left, and their jobs."""

    def __init__(self, scene: Scene, documents: Documents) -> None:
        self._scene = scene
        self.found: list[Mapping[str, Any]] = list(scene.store.database.plans.find())
        self._jobs: dict[int, dict[str, Mapping[str, Any]]] = defaultdict(dict)
        for document in documents.values():
            place = PlanPlace.from_document(document.get("plan"))
            if place is not None and place.id == document["_id"]:
                self._jobs[place.seq][place.id] = document

    def judge_ends(self) -> Iterator[str]:
        """PL-L1, and each as its shape and what was done to it say."""
        scene, there = self._scene, {repr(plan["_id"]) for plan in self.found}
        touched = scene.vandal.plans
        gone = {*map(repr, scene.load.plans.sure)} - there - touched
        for one in gone - {*map(repr, scene.load.plans.expired)}:
            yield f"PL-L1: the insertion of plan {one} was acknowledged, and it is gone"
        for document in self.found:
            if repr(document["_id"]) not in touched and (why := self._odd_end(document)):
                told = f"{document.get('name')} {document.get('seq')} ({document['_id']})"
                yield f"PL-L1: plan {told} {why}"

    def _odd_end(self, document: Mapping[str, Any]) -> str:
        state, name = document.get("state"), document.get("name")
        if state not in {*ENDED_PLAN, PlanState.REMOVING}:
            return f"is {state} when all should have ended"
        error = document.get("error") or {}
        if state == "failed" and "try" not in document:
            return self._odd_refusal(document, str(error.get("message")))
        if name == "broken":
            return f"is {state}, and can be no plan"
        seq = document.get("seq")
        if state in ("done", "removing") or name in FAILS or error.get("type") == "Lost":
            return ""
        was_touched = seq in self._scene.load.plans.cancelled or seq in self._scene.vandal.plan_seqs
        return "" if was_touched else f"is {state}: {error}"

    def _odd_refusal(self, document: Mapping[str, Any], message: str) -> str:
        if document.get("name") == "broken" or "has its key" in message:
            return ""
        if "its `seq`" in message and self._scene.vandal.touched_counter:
            return ""
        return f"was refused: {message}"

    def judge_runs(self, runs: Runs) -> Iterator[Finding]:
        """What the tasks noted, by one clock that no server and no node has."""
        for document in self.found:
            plan = PlanRecord.from_document(document)
            if plan.seq is None or plan.seq in self._scene.vandal.plan_seqs:
                continue
            ran = _Ran(plan, self._jobs[plan.seq], runs)
            for invariant, fact in (*ran.starts(), *self._late(ran), *ran.undos(), *self._end(ran)):
                yield Finding(invariant, fact, plan=plan.seq)

    def _excused(self, run: RunRecord, since: float) -> bool:
        until = since if run.ended is None else run.ended
        spells = self._scene.crew.spells
        return any(spell.excuses((run.pid,), since, max(until, since)) for spell in spells)

    def _late(self, ran: _Ran) -> Faults:
        """PS3."""
        undos = [run.began for _, run in ran.all("undo")]
        if not undos:
            return
        first = min(undos)
        for name, run in ran.all("step"):
            if (run.ended or run.began) > first and not self._excused(run, first):
                yield "PS3", f"{name} ran in attempt {run.attempt} after an undo had begun"

    def _end(self, ran: _Ran) -> Faults:
        """PS5: nothing began after its plan had ended."""
        if ran.plan.finished_at is None:
            return
        boot = time.clock_gettime(time.CLOCK_BOOTTIME) - time.time()
        over = ran.plan.finished_at.timestamp() + boot
        for kind in ("step", "undo", "finally"):
            for name, run in ran.all(kind):
                if run.began > over + _TOLERANCE and not self._excused(run, over):
                    late = run.began - over
                    yield "PS5", f"{name} began {late:.1f} s after its plan was {ran.plan.state}"

    def figures(self) -> dict[str, Any]:
        kinds: dict[str, Counter[str]] = defaultdict(Counter)
        for plan in self.found:
            kinds[str(plan.get("name"))][str(plan.get("state"))] += 1
        return {
            "plans": len(self.found),
            "plans by kind and end": {name: dict(kinds[name]) for name in sorted(kinds)},
            "plans removed": len(self._scene.load.plans.sure - {one["_id"] for one in self.found}),
            "jobs of plans": sum(map(len, self._jobs.values())),
            "plans scribbled on": len(self._scene.vandal.plans),
            "retried most": max((int(plan.get("try") or 0) for plan in self._sound()), default=0),
        }

    def _sound(self) -> list[Mapping[str, Any]]:
        return [one for one in self.found if repr(one["_id"]) not in self._scene.vandal.plans]


class _Ran:
    """The runs of one plan's jobs."""

    def __init__(self, plan: PlanRecord, jobs: Mapping[str, Mapping[str, Any]], runs: Runs) -> None:
        self.plan = plan
        self._jobs = jobs
        self._runs = runs
        self._graph = PlanGraph(plan.steps)
        self._places: dict[tuple[str, str], list[PlanPlace]] = defaultdict(list)
        for job in jobs.values():
            if (place := PlanPlace.from_document(job["plan"])) is not None:
                self._places[place.kind, place.step].append(place)

    def all(self, kind: str) -> Iterator[tuple[str, RunRecord]]:
        for (one, _), places in self._places.items():
            for place in places if one == kind else ():
                for run in self._of(place):
                    yield place.id, run

    def _of(self, place: PlanPlace) -> list[RunRecord]:
        job = self._jobs.get(place.id)
        return self._runs.by_seq.get(job["seq"], []) if job is not None else []

    def _accepted_end(self, place: PlanPlace) -> float | None:
        """When the run ended that its job is done by."""
        job = self._jobs.get(place.id)
        if job is None or job.get("state") != "done":
            return None
        ends = [run.ended for run in self._of(place) if run.attempt == job["attempt"]]
        return max((end for end in ends if end is not None), default=None)

    def _ends(self, kind: str, name: str) -> list[float]:
        ends = map(self._accepted_end, self._places[kind, name])
        return [end for end in ends if end is not None]

    def starts(self) -> Faults:
        """PS2: no step began before what it comes after was done."""
        for name, step in self.plan.steps.items():
            over = mapped_source(step, self._graph)
            for place in self._places["step", name]:
                began = min((run.began for run in self._of(place)), default=None)
                for before in self._graph.before[name] if began is not None else ():
                    own = PlanPlace(place.seq, before, item=place.item)
                    ends = [self._accepted_end(own)] if before == over else self._last(before)
                    if any(end is not None and began is not None and began < end for end in ends):
                        yield "PS2", f"{place.id} began before {before} had ended"

    def _last(self, name: str) -> list[float]:
        return [max(ends)] if (ends := self._ends("step", name)) else []

    def undos(self) -> Faults:
        """PS4: no undo began before those of what came after were done."""
        for name in self.plan.undo:
            began = [run.began for place in self._places["undo", name] for run in self._of(place)]
            for later in sorted(self._graph.later(name) & {*self.plan.undo}) if began else ():
                if any(end > min(began) for end in self._ends("undo", later)):
                    yield "PS4", f"the undo of {name} began before that of {later} was done"
