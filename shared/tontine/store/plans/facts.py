"""What the rules ask of a plan's jobs, asked of the store: of a settlement no more than what hangs
on it."""

from __future__ import annotations

from collections import OrderedDict
from collections.abc import Iterable
from typing import Any, TypeVar

from ...records.plan import JobFact, PlanPlace, PlanRecord, StepRecord, all_of, items_of
from ...records.states import OPEN
from ...rules import plan as rules
from ...rules import plan_questions as questions
from ...rules.plan_facts import AllJobs
from ...rules.plan_graph import PlanGraph
from ..call import Operation, find, find_one
from ..names import JOBS
from .read import FACTS, read_heads, read_jobs, read_range, with_head
from .values import read_length

K = TypeVar("K")
V = TypeVar("V")

REMEMBERED, PLANS_REMEMBERED = 10_000, 1000
_PAGE, _LARGEST_PAGE = 16, 1000
_OPEN = sorted(state.value for state in OPEN)


class Remembered(OrderedDict[K, V]):
    """A mapping that forgets what was put there longest ago: it only saves questions."""

    at_most = REMEMBERED

    def __setitem__(self, key: K, value: V) -> None:
        super().__setitem__(key, value)
        self.move_to_end(key)
        if len(self) > self.at_most:
            self.popitem(last=False)


class PlanMemory:
    """What a node knows of plans from one advance to the next. All of it is true for ever, or asked
    again."""

    def __init__(self) -> None:
        self.plans: Remembered[int, tuple[PlanRecord, PlanGraph]] = Remembered()
        """Plans with their steps, as of some `rev`."""
        self.plans.at_most = PLANS_REMEMBERED
        self.unended: Remembered[tuple[int, str], int] = Remembered()
        """All items above this one have ended well (PL7)."""
        self.open_step: Remembered[tuple[int, int | None], str] = Remembered()
        """The `_id` of a job that was not final in this try (PL11)."""
        self.to_undo: Remembered[tuple[int, str], int] = Remembered()
        """An item whose undo had not ended."""
        self.halted_at: Remembered[int, float] = Remembered()
        self.marked_at: Remembered[int, float] = Remembered()
        self.tries: Remembered[int, int] = Remembered()
        """The last retry of a plan that this node has gone through all of it for."""

    def is_new_try(self, plan: PlanRecord) -> bool:
        """Whether a plan was retried since this node has asked that."""
        seq, tries = plan.seq or 0, plan.try_ or 0
        if self.tries.get(seq, 0) == tries:
            return False
        self.tries[seq] = tries
        return True

    def keep(self, plan: PlanRecord) -> PlanGraph:
        """Remember a plan's steps; their order."""
        graph = PlanGraph(plan.steps)
        if plan.seq is not None:
            self.plans[plan.seq] = (plan, graph)
        return graph


class Asked:
    """Answers about one plan as it was read: from all of its jobs, or one question at a time."""

    def __init__(
        self,
        plan: PlanRecord,
        memory: PlanMemory,
        everything: AllJobs | None = None,
        known: Iterable[JobFact] = (),
    ) -> None:
        """`known` are jobs that were just settled as done, which they will always be."""
        self._plan = plan
        self._memory = memory
        self._everything = everything
        self._jobs: dict[str, JobFact | None] = {fact.place.id: fact for fact in known}
        self._answers: dict[questions.Question, Any] = {}

    def job_to_read(self, question: questions.Question) -> str | None:
        """The `_id` of the job that a question is about, if that has to be read for it."""
        if self._everything is not None or not isinstance(question, questions.AboutJob):
            return None
        return None if question.place.id in self._jobs else question.place.id

    def tell(self, id: str, fact: JobFact | None) -> None:
        self._jobs[id] = fact

    def answer(self, question: questions.Question) -> Operation[Any]:
        if self._everything is not None and self._everything.can_answer(question):
            return self._everything.answer(question)
        if isinstance(question, questions.AboutJob):
            if question.place.id not in self._jobs:
                found = yield from read_facts([question.place.id])
                self.tell(question.place.id, found.get(question.place.id))
            return self._jobs[question.place.id]
        if question not in self._answers:
            self._answers[question] = yield from self._ask(question)
        return self._answers[question]

    def _ask(self, question: questions.Question) -> Operation[Any]:
        if isinstance(question, questions.Length):
            return (yield from read_length(self._plan, question.source))
        if isinstance(question, questions.UnendedItem):
            return (yield from self._unended(question.step))
        if isinstance(question, questions.OpenStepJob):
            return (yield from self._open_step_job())
        if isinstance(question, questions.ItemToUndo):
            return (yield from self._item_to_undo(question))
        if isinstance(question, questions.UndoJobs):
            return (yield from self._undo_jobs(question))
        if isinstance(
            question, questions.EndedItems | questions.PresentItems | questions.DoneItems
        ):
            return (yield from self._all_of(question, question.step, ("step",)))
        return (yield from self._everything_of(question))

    def _all_of(
        self, question: questions.Question, step: str, kinds: tuple[Any, ...]
    ) -> Operation[Any]:
        """An answer from all items of one step."""
        found: list[JobFact] = []
        for kind in kinds:
            found += (yield from read_range(items_of(self._plan.seq or 0, step, kind)))[0]
        return AllJobs(self._plan, found).answer(question)

    def _item_to_undo(self, question: questions.ItemToUndo) -> Operation[int | None]:
        """One whose undo had not ended is asked for first."""
        key = (self._plan.seq or 0, question.step)
        if (item := self._memory.to_undo.get(key)) is not None:
            place = PlanPlace(key[0], question.step, "undo", item)
            fact = (yield from read_facts([place.id])).get(place.id)
            if fact is None or not fact.is_final:
                return item
        other: int | None = yield from self._all_of(question, question.step, ("step", "undo"))
        if other is not None:
            self._memory.to_undo[key] = other
        return other

    def _undo_jobs(self, question: questions.UndoJobs) -> Operation[dict[int | None, JobFact]]:
        if self._plan.steps[question.step].is_mapped:
            return (yield from self._all_of(question, question.step, ("undo",)))  # type: ignore[no-any-return]
        place = PlanPlace(self._plan.seq or 0, question.step, "undo")
        fact: JobFact | None = yield from self.answer(questions.AboutJob(place))
        return {} if fact is None else {None: fact}

    def _everything_of(self, question: questions.Question) -> Operation[Any]:
        found, _ = yield from read_jobs(self._plan.seq or 0)
        return AllJobs(self._plan, found).answer(question)

    def _unended(self, name: str) -> Operation[int | None]:
        """An item that has not ended well, from the last one down to the mark: each is read once
        by a node, and the one that had not ended is asked for alone (PL7)."""
        seq, step = self._plan.seq or 0, self._plan.steps[name]
        mark = self._plan.marks.get(name, 0)
        last = self._memory.unended.get((seq, name), self._plan.widths[name] - 1)
        size = 1 if (seq, name) in self._memory.unended else _PAGE
        while last >= mark:
            first = max(mark, last - size + 1)
            ids = [PlanPlace(seq, name, item=item).id for item in range(first, last + 1)]
            jobs = yield from read_facts(ids)
            for item in range(last, first - 1, -1):
                if not rules.ended_well(jobs.get(ids[item - first]), step):
                    self._memory.unended[(seq, name)] = item
                    return item
            last = first - 1
            size = min(max(_PAGE, 2 * size), _LARGEST_PAGE)
            if size == _LARGEST_PAGE and last - mark > size:
                mark = max(mark, (yield from self._marked(name)))
        self._memory.unended[(seq, name)] = last
        return None

    def _marked(self, name: str) -> Operation[int]:
        """How far all items have ended well, as the plan says by now."""
        seq = self._plan.seq or 0
        head = (yield from read_heads([seq])).get(seq)
        return 0 if head is None else with_head(self._plan, head).marks.get(name, 0)

    def marks(self) -> Operation[dict[str, int]]:
        """How far the items of each mapped step have all ended well, where that is further than
        the plan says."""
        if self._everything is not None:
            return self._everything.marks()
        found = {}
        for name, width in self._plan.widths.items():
            before = self._plan.marks.get(name, 0)
            step = self._plan.steps.get(name)
            mark = before if step is None else (yield from self._mark(step, before, width))
            if mark > before:
                found[name] = mark
        return found

    def _mark(self, step: StepRecord, mark: int, width: int) -> Operation[int]:
        size = _PAGE
        known_from = self._memory.unended.get((self._plan.seq or 0, step.name), width - 1) + 1
        while mark < known_from:
            end = min(mark + size, known_from)
            ids = [PlanPlace(self._plan.seq or 0, step.name, item=n).id for n in range(mark, end)]
            jobs = yield from read_facts(ids)
            for name in ids:
                if not rules.ended_well(jobs.get(name), step):
                    return mark
                mark += 1
            size = min(2 * size, _LARGEST_PAGE)
        return width

    def _open_step_job(self) -> Operation[JobFact | None]:
        """A step's job that is not final; one that was not before is asked for first (PL11)."""
        key = (self._plan.seq or 0, self._plan.try_)
        if (name := self._memory.open_step.get(key)) is not None:
            fact = (yield from read_facts([name])).get(name)
            if fact is not None and not fact.is_final:
                return fact
        is_open = {
            "_id": all_of(key[0]),
            "plan.kind": "step",
            "state": {"$in": _OPEN},
        }
        found = yield find_one(JOBS, is_open, projection=FACTS, hint="_id_")
        fact = None if found is None else JobFact.from_document(found)
        if fact is not None:
            self._memory.open_step[key] = fact.place.id
        return fact


def read_facts(ids: Iterable[str]) -> Operation[dict[str, JobFact]]:
    """Jobs of plans by `_id`; a foreign one that has the name of one is none."""
    found = yield find(JOBS, {"_id": {"$in": list(ids)}}, projection=FACTS, hint="_id_")
    facts = filter(None, map(JobFact.from_document, found))
    return {fact.place.id: fact for fact in facts}
