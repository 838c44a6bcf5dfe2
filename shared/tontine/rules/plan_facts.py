"""The answers to what the rules of plans ask, from all jobs of a plan. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Iterator
from typing import Any

from ..records.plan import JobFact, PlanPlace, PlanRecord
from ..records.states import JobState
from . import plan as rules
from . import plan_questions as questions


class AllJobs:
    """Every job that a plan has, as one reading found them."""

    def __init__(self, plan: PlanRecord, facts: Iterable[JobFact]) -> None:
        self._plan = plan
        self._items: dict[tuple[str, str], dict[int | None, JobFact]] = {}
        for fact in facts:
            key = (fact.place.kind, fact.place.step)
            self._items.setdefault(key, {})[_which(fact.place)] = fact
        self._answers: dict[type, Callable[[Any], Any]] = {
            questions.AboutJob: lambda asked: self._at(asked.place),
            questions.UnendedItem: self._unended_item,
            questions.EndedItems: self._ended_items,
            questions.PresentItems: lambda asked: set(self._of("step", asked.step)),
            questions.DoneItems: lambda asked: self._done("step", asked.step),
            questions.UndoJobs: lambda asked: self._of("undo", asked.step),
            questions.ItemToUndo: self._item_to_undo,
            questions.Unsuccessful: self._unsuccessful,
            questions.OpenStepJob: self._open_step_job,
            questions.WithMore: self._with_more,
        }

    def can_answer(self, asked: questions.Question) -> bool:
        """Whether the answer is among a job's plain facts."""
        return type(asked) in self._answers

    def answer(self, asked: questions.Question) -> Any:
        return self._answers[type(asked)](asked)

    def marks(self) -> dict[str, int]:
        """How far the items of each mapped step have all ended well, where that is further than the
        plan says (PL7)."""
        found = {}
        for name, width in self._plan.widths.items():
            step = self._plan.steps.get(name)
            jobs = self._of("step", name)
            mark = before = self._plan.marks.get(name, 0)
            while step and mark < width and rules.ended_well(jobs.get(mark), step):
                mark += 1
            if mark > before:
                found[name] = mark
        return found

    def _at(self, place: PlanPlace) -> JobFact | None:
        return self._of(place.kind, place.step).get(_which(place))

    def _all(self, kind: str) -> Iterator[JobFact]:
        for (one, _), jobs in self._items.items():
            if one == kind:
                yield from jobs.values()

    def _of(self, kind: str, step: str) -> dict[int | None, JobFact]:
        return self._items.get((kind, step), {})

    def _done(self, kind: str, step: str) -> list[int | None]:
        jobs = self._of(kind, step).items()
        return [item for item, fact in jobs if fact.state is JobState.DONE]

    def _unended_item(self, asked: questions.UnendedItem) -> int | None:
        jobs, step = self._of("step", asked.step), self._plan.steps[asked.step]
        for item in range(self._plan.widths.get(asked.step, 0)):
            if not rules.ended_well(jobs.get(item), step):
                return item
        return None

    def _ended_items(self, asked: questions.EndedItems) -> set[int | None]:
        step, jobs = self._plan.steps[asked.step], self._of("step", asked.step)
        return {item for item, fact in jobs.items() if rules.ended_well(fact, step)}

    def _item_to_undo(self, asked: questions.ItemToUndo) -> int | None:
        undos = self._of("undo", asked.step)
        ended = {item for item, fact in undos.items() if fact.is_final}
        left = (item for item in reversed(self._done("step", asked.step)) if item not in ended)
        return next(left, None)  # the last one: the others are undone before it

    def _unsuccessful(self, asked: questions.Unsuccessful) -> list[JobFact]:
        return [job for job in self._all(asked.kind) if job.is_unsuccessful]

    def _open_step_job(self, _: questions.OpenStepJob) -> JobFact | None:
        return next((job for job in self._all("step") if not job.is_final), None)

    def _with_more(self, _: questions.WithMore) -> set[str]:
        return {job.place.step for job in self._all("step") if job.has_more} - self._plan.added


def _which(place: PlanPlace) -> int | None:
    """What tells apart the jobs of one kind and step: the item, of `finally` the try."""
    return place.try_ if place.kind == "finally" else place.item
