"""How far the steps of a plan are, by counts of their jobs: enough to tell what has ended well and
what is undone, however many items a map has. Pure."""

from __future__ import annotations

from collections import defaultdict
from dataclasses import dataclass

from ...records.plan import JobFact, PlanRecord, StepRecord
from ...records.states import JobState
from ...rules.plan import ended_well
from ...rules.plan_graph import PlanGraph

PLAN_INVARIANTS = ("PS1", "PS2", "PS3", "PS4", "PS5", "PS6", "PS7", "PS8")


@dataclass(slots=True)
class StepCounts:
    """The jobs of one step."""

    well: int = 0
    """That have ended well (PL3)."""
    done: int = 0
    undone: int = 0
    """Undos that are done."""
    has_more: bool = False
    """Its task has added steps."""


class PlanCounts:
    """The jobs of one plan by step."""

    def __init__(self) -> None:
        self.steps: dict[str, StepCounts] = defaultdict(StepCounts)

    def add(self, fact: JobFact, step: StepRecord | None, by: int = 1) -> None:
        """One job more, or (`by` -1) one that is no longer what it was."""
        counts = self.steps[fact.place.step]
        if fact.place.kind == "undo":
            counts.undone += by * (fact.state is JobState.DONE)
        elif fact.place.kind == "step" and step is not None:
            counts.well += by * ended_well(fact, step)
            counts.done += by * (fact.state is JobState.DONE)
            counts.has_more = by > 0 and fact.has_more

    def has_ended_well(self, plan: PlanRecord, graph: PlanGraph, name: str) -> bool:
        """PL3 and PL7, of a step with all that it added."""
        for one in graph.with_added(name):
            counts = self.steps[one]
            jobs = plan.widths.get(one) if graph.steps[one].is_mapped else 1
            if jobs is None or counts.well != jobs:
                return False
            if counts.has_more and one not in plan.added:
                return False
        return True

    def is_undone(self, graph: PlanGraph, name: str) -> bool:
        """Whether all that was done of a step in the list is undone."""
        counts, step = self.steps[name], graph.steps.get(name)
        if step is None:
            return True
        return counts.undone == (counts.done if step.is_mapped else 1)

    def why_not(self, plan: PlanRecord, graph: PlanGraph, state: object) -> str:
        """Why a plan cannot have ended like that (PS7)."""
        if state == "done":
            for name in graph.steps:
                if not self.has_ended_well(plan, graph, name):
                    return f"it is done, and step {name} has not ended well"
        if state == "undone":
            for name in plan.undo:
                if not self.is_undone(graph, name):
                    return f"it is undone, and step {name} is not"
        return ""
