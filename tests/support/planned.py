"""A node's part in plans without a node: accepts, claims, licenses, runs, settles and advances, one
job after another."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime
from typing import Any

import bson

from tontine.records.job import JobError
from tontine.records.plan import JobFact, PlanPlace, PlanRecord
from tontine.records.states import JobState, PlanState
from tontine.store import settle
from tontine.store.call import Store
from tontine.store.plans import accept, licence, read, remove
from tontine.store.plans.advance import Advanced, Advancer
from tontine.store.plans.facts import PlanMemory
from tontine.store.retention import read_retention
from tontine.store.settle import Outcome

Task = Callable[..., Any]
NODE = "crew"


class Broken(Exception):
    """A task fails for good."""


def done_item(plan: int, step: str, item: int, seq: int, result: Any) -> dict[str, Any]:
    """The job of a mapped step's item that is done."""
    place, now = PlanPlace(plan, step, item=item), datetime.now(UTC)
    return {
        "_id": place.id,
        "seq": seq,
        "task": "shop.add",
        "args": {"x": item},
        "state": "done",
        "attempt": 1,
        "fails": 0,
        "lost": 0,
        "plan": place.to_document(),
        "result": result,
        "created_at": now,
        "finished_at": now,
    }


class Crew:
    """Runs plans on a store, with tasks that are functions of the test."""

    def __init__(self, store: Store, tasks: Mapping[str, Task]) -> None:
        self.store = store
        self.tasks = {f"t.{name}": task for name, task in tasks.items()}
        self.ran: list[tuple[str, dict[str, Any]]] = []
        self.memory = PlanMemory()
        self.now = 0.0

    def insert(self, document: Mapping[str, Any]) -> Any:
        """A plan as any driver inserts it; its `_id`."""
        return self.store.database.plans.insert_one(dict(document)).inserted_id

    def accept(self) -> list[int]:
        """Accept all that is new, and begin with it."""
        retention = self.store.run(read_retention())
        accepted = []
        for new in self.store.run(accept.find_new()):
            seq = self.store.run(accept.accept(new, retention))
            if seq is not None:
                accepted.append(seq)
        self.look(*accepted)
        return accepted

    def look(self, *seqs: int) -> Advanced:
        return self._advance(dict.fromkeys(seqs))

    def _advance(self, wanted: Mapping[int, Any]) -> Advanced:
        self.now += 10
        advancer = Advancer(
            self.memory, self.store.run(read_retention()), self.now, owns=lambda _: True
        )
        return self.store.run(advancer.advance(wanted), causal=True)

    def claim(self) -> list[dict[str, Any]]:
        """Claim all that is queued; those that may start. The others are refused."""
        queued = list(self.store.database.jobs.find({"state": "queued"}).sort("seq"))
        licensed = []
        for job in queued:
            place = PlanPlace.from_document(job["plan"])
            assert place is not None
            seq, attempt = int(job["seq"]), int(job["attempt"])
            ours, found = self.store.run(
                licence.claim_licensed(NODE, [seq], attempt, {seq: place}), causal=True
            )
            if seq in ours and seq in found.granted:
                licensed.append(job)
            elif seq in ours:
                self.settle(
                    job, Outcome("unlicensed", seq, attempt + 1, final=seq in found.orphans)
                )
        return licensed

    def work(self, job: Mapping[str, Any]) -> None:
        """Run a claimed job to its end."""
        seq, attempt = int(job["seq"]), int(job["attempt"]) + 1
        self.ran.append((job["_id"], job["args"]))
        try:
            result = self.tasks[job["task"]](**job["args"])
        except Broken as error:
            outcome = Outcome("failed", seq, attempt, 0.0, error=JobError("Broken", str(error)))
        else:
            body = bson.encode({"r": result, "ms": 0})
            outcome = Outcome("done", seq, attempt, 0.0, result=body)
        self.settle(job, outcome)

    def settle(self, job: Mapping[str, Any], outcome: Outcome) -> None:
        retention = self.store.run(read_retention())
        self.store.run(settle.settle_each(NODE, [outcome], retention))
        self.advance(job, outcome.kind)

    def advance(self, job: Mapping[str, Any], kind: str) -> None:
        place = PlanPlace.from_document(job["plan"])
        assert place is not None
        states = {"done": JobState.DONE, "failed": JobState.FAILED}
        more = self.store.database.jobs.find_one({"_id": job["_id"], "more": {"$exists": True}})
        state = states.get(kind, JobState.CANCELLED)
        self._advance({place.seq: [JobFact(place, state, has_more=more is not None)]})

    def run(self, rounds: int = 100) -> None:
        """Until nothing is left to do."""
        for _ in range(rounds):
            self.accept()
            jobs = self.claim()
            if not jobs:
                return
            for job in jobs:
                self.work(job)
        raise AssertionError("it does not come to an end")

    def plan(self, id: Any) -> PlanRecord:
        document = self.store.database.plans.find_one({"_id": id})
        assert document is not None
        return PlanRecord.from_document(document)

    def state(self, id: Any) -> PlanState | None:
        return self.plan(id).state

    def jobs(self, id: Any) -> dict[str, dict[str, Any]]:
        """The plan's jobs by what is behind its number in their `_id`."""
        seq = self.plan(id).seq
        found = self.store.database.jobs.find({"plan.seq": seq}).sort("_id")
        return {job["_id"].split("/", 2)[2]: job for job in found}

    def facts(self, seq: int) -> list[JobFact]:
        return self.store.run(read.read_jobs(seq))[0]

    def remove(self) -> int:
        return sum(self.store.run(remove.remove(one)) for one in self._expired())

    def _expired(self) -> list[PlanRecord]:
        return self.store.run(remove.find_expired())

    def results(self, id: Any) -> dict[str, Any]:
        return {name: job.get("result") for name, job in self.jobs(id).items()}
