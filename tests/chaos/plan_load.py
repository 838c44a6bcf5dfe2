"""Producers and operators of plans: many shapes, raw ones among them, cancelled at any moment, by
their jobs' numbers too, retried, and let go."""

from __future__ import annotations

from collections import Counter, deque
from datetime import UTC, datetime, timedelta
from random import Random
from typing import Any

from bson import ObjectId
from pymongo import WriteConcern
from pymongo.database import Database

from tests.chaos.plan_shapes import BROKEN, draw_plan
from tontine import Client
from tontine.errors import TontineError
from tontine.records.plan import all_of
from tontine.records.states import ENDED_PLAN


class PlanLoad:
    """What it surely inserted, and what it did to whom."""

    def __init__(
        self, client: Client, database: Database[Any], random: Random, counts: Counter[str]
    ) -> None:
        self.sure: set[Any] = set()
        """The `_id`s of plans whose insertion was acknowledged."""
        self.cancelled: set[int] = set()
        self.expired: set[Any] = set()
        """The `_id`s of plans whose time was said to be over."""
        self._client = client
        self._database = database
        self._random = random
        self._counts = counts
        self._recent: deque[int] = deque(maxlen=40)

    def submit(self) -> None:
        key = f"trip-{self._random.randrange(10)}" if self._random.random() < 0.1 else None
        plan = self._client.submit_plan(draw_plan(self._random), key=key)
        self._counts["plans that existed" if plan.existed else "plans submitted"] += 1
        self.sure.add(plan.id)
        if plan.seq is not None:
            self._recent.append(plan.seq)

    def insert(self) -> None:
        """By any driver, and without a ring."""
        broken = self._random.random() < 0.2
        document = dict(
            self._random.choice(BROKEN) if broken else draw_plan(self._random).document()
        )
        document["_id"] = ObjectId()
        plans = self._database.get_collection(
            "plans", write_concern=WriteConcern("majority", j=True)
        )
        plans.insert_one(document)
        self.sure.add(document["_id"])
        self._counts["plans inserted raw"] += 1

    def cancel(self) -> None:
        if self._recent:
            seq = self._random.choice(self._recent)
            self.cancelled.add(seq)
            self._client.cancel(seq, undo=self._random.random() < 0.7)
            self._counts["plans cancelled"] += 1

    def cancel_job(self) -> None:
        """One of a plan's jobs, by its own number."""
        if not self._recent:
            return
        seq = self._random.choice(self._recent)
        unfinished = {"_id": all_of(seq), "state": {"$in": ["queued", "working"]}}
        if job := self._database.jobs.find_one(unfinished, {"seq": 1}):
            self.cancelled.add(seq)
            self._client.cancel(int(job["seq"]))
            self._counts["jobs of plans cancelled"] += 1

    def retry(self) -> None:
        """One that did not end well, if there is any."""
        states = ["failed", "cancelled", "stuck"]
        ended = {"state": {"$in": states}, "try": {"$exists": True}, "seq": {"$type": "long"}}
        found = list(self._database.plans.find(ended, {"seq": 1}).limit(50))
        if found:
            self._client.retry(int(self._random.choice(found)["seq"]))
            self._counts["plans retried"] += 1

    def expire(self) -> None:
        ended = {"state": {"$in": sorted(ENDED_PLAN)}, "expire_at": None}
        if plan := self._database.plans.find_one(ended, {"_id": 1}):
            self.expired.add(plan["_id"])
            past = datetime.now(UTC) - timedelta(hours=1)
            self._database.plans.update_one(
                {"_id": plan["_id"], **ended}, {"$set": {"expire_at": past}}
            )
            self._counts["plans let go"] += 1

    def act(self) -> None:
        """Something, drawn."""
        ways = {
            self.submit: 20,
            self.insert: 5,
            self.cancel: 5,
            self.cancel_job: 2,
            self.retry: 6,
            self.expire: 2,
        }
        try:
            self._random.choices(list(ways), list(ways.values()))[0]()
        except TontineError:
            self._counts["calls about plans refused"] += 1
