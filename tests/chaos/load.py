"""Producers and operators: a mixed stream of jobs, some of them bad, some cancelled, some put
back."""

from __future__ import annotations

import json
import threading
from collections import Counter, deque
from collections.abc import Callable
from functools import partial
from random import Random
from typing import Any

from bson import ObjectId
from pymongo import MongoClient, WriteConcern
from pymongo.errors import PyMongoError

from tests.chaos.plan_load import PlanLoad
from tests.chaos.tasks import nested
from tests.support.odd import NOT_UTF8, as_written
from tontine import Client
from tontine.errors import ConfigError, StoreError, SubmitInterrupted, TontineError, UnknownJob
from tontine.store import states
from tontine.store.call import Store

_BROKEN: list[dict[str, Any]] = [
    {"task": 7},
    {"args": {}},
    {"task": "chaos.quick", "args": [1]},
    {"task": "chaos.quick", "args": {}, "max_attempts": "many"},
    {"task": "chaos.quick", "args": {"unheard": "of"}},
]


_RANGES = (">=1", "<2", ">=0.9,<1.5", "==1.*", " >= 1 , != 1.3")
"""Of versions: all have 1.0."""


class Load:
    """Submits until it is told to stop, in a thread of its own, and knows which jobs were surely
    taken."""

    def __init__(self, uri: str, database: str, seed: int, pause: float = 0.07) -> None:
        self.sure: set[Any] = set()
        """The `_id`s of jobs whose insertion was acknowledged."""
        self.retried: set[int] = set()
        self.counts: Counter[str] = Counter()
        self.trouble = ""
        self._recent: deque[int] = deque(maxlen=300)
        self._asked: deque[Callable[[], None]] = deque()
        self._random = Random(seed)
        self._pause = pause
        self._mongo: MongoClient[dict[str, Any]] = MongoClient(
            uri, tz_aware=True, datetime_conversion="DATETIME_AUTO"
        )
        self._database = self._mongo[database]
        self._client = Client(self._database)
        self._store = Store(self._database)
        self.plans = PlanLoad(self._client, self._database, self._random, self.counts)
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, name="load", daemon=True)

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        self._thread.join()
        self._mongo.close()

    def ask(self, kind: str, seed: float) -> None:
        """Jobs of a bad kind are wanted, among the others."""
        random = Random(seed)
        self._asked.extend(BAD_KINDS[kind](self, random))

    def _run(self) -> None:
        actions = {
            self._one: 40,
            self._many: 6,
            self._raw: 8,
            self._broken: 1,
            self._cancel: 6,
            self._retry: 3,
            self._staged: 4,
            self._counting: 2,
            self._letter: 3,
            self._ranged: 8,
            self._priced: 3,
            self.plans.act: 12,
        }
        while not self._stopping.wait(self._random.expovariate(1 / self._pause)):
            drawn = self._random.choices(list(actions), list(actions.values()))[0]
            action = self._asked.popleft() if self._asked else drawn
            try:
                action()
            except SubmitInterrupted as error:
                self.counts["inserts with an unknown outcome"] += error.unknown
            except (StoreError, UnknownJob, PyMongoError):
                self.counts["calls that failed"] += 1
            except Exception as error:  # noqa: BLE001 - without load the rest of the run would show nothing
                self.trouble = f"the load ended: {error!r}"
                return

    def _wish(self) -> tuple[str, dict[str, Any]]:
        random = self._random
        wishes: list[tuple[float, str, dict[str, Any]]] = [
            (30, "quick", {"number": random.randrange(1000)}),
            (10, "nap", {"seconds": random.uniform(0.05, 2.5)}),
            (8, "async_nap", {"seconds": random.uniform(0.05, 2.5)}),
            (1, "nap", {"seconds": random.uniform(5, 12)}),
            (5, "flaky", {"failures": random.randint(1, 3)}),
            (2, "doomed", {}),
            (1, "crash", {"times": 1}),
            (0.2, "crash", {"times": 99}),
            (3, "careful", {"seconds": random.uniform(0.05, 1)}),
            (0.5, "overlong", {}),
        ]
        _, task, args = random.choices(wishes, [weight for weight, _, _ in wishes])[0]
        return f"chaos.{task}", args

    def _staged(self) -> None:
        """A job in stages, whose outputs are stored in it or apart."""
        random = self._random
        args = {
            "rows": random.choice([10, 10, 1000]),
            "seconds": random.uniform(0.0, 1.0),
            "stumbles": random.choice([0, 0, 1, 2]),
        }
        job = self._client.submit("etl.orders", args)
        self.counts["submitted"] += 1
        self._took(job.id, job.seq)

    def _counting(self) -> None:
        """Never put back by hand: what it counted is compared with what it noted."""
        number = self._random.randint(1, 20)
        rows = [{"rows": self._random.randrange(1000)} for _ in range(number)]
        for job in self._client.submit_many("etl.tally", rows):
            self._took(job.id, None)
        self.counts["submitted"] += number

    def _ranged(self) -> None:
        """Jobs for some versions of a module only, which all nodes have; from any driver."""
        random = self._random
        task, args = self._wish()
        if random.random() < 0.2:
            task, args = "etl.orders", {"rows": 10, "seconds": 0.1, "stumbles": 0}
        wanted = random.choice(_RANGES)
        if random.random() < 0.3:
            self._insert({"task": f"{task}@{wanted}", "args": args})
            return
        delay = random.uniform(0.5, 10) if random.random() < 0.2 else None
        priority = random.choice([0, 0, 0, 5])
        job = self._client.submit(task, args, version=wanted, delay=delay, priority=priority)
        self.counts["submitted with a range"] += 1
        self._took(job.id, job.seq)

    def _priced(self) -> None:
        """A new version of a state, and jobs that look at it."""
        value = {"euro": self._random.randrange(1000)}
        given = json.dumps(value).encode()
        self._store.run(states.set_state("chaos/prices", given, value, by="load"))
        job = self._client.submit("chaos.priced", {"seconds": self._random.uniform(0.05, 2)})
        self.counts["states set"] += 1
        self._took(job.id, job.seq)

    def _letter(self) -> None:
        job = self._client.submit("letters.send")
        self.counts["submitted"] += 1
        self._took(job.id, job.seq)

    def _one(self) -> None:
        task, args = self._wish()
        random = self._random
        delay = random.uniform(0.5, 10) if random.random() < 0.15 else None
        key = f"key-{random.randrange(10)}" if random.random() < 0.1 else None
        priority = random.choice([0, 0, 0, 0, 5, -5])
        job = self._client.submit(task, args, delay=delay, key=key, priority=priority)
        self.counts["existed" if job.existed else "submitted"] += 1
        self._took(job.id, job.seq)

    def _many(self) -> None:
        number = self._random.randint(20, 200)
        for job in self._client.submit_many(
            "chaos.quick", [{"number": one} for one in range(number)]
        ):
            self._took(job.id, job.seq)
        self.counts["submitted"] += number

    def _raw(self) -> None:
        task, args = self._wish()
        self._insert({"task": task, "args": args})

    def _broken(self) -> None:
        self._insert(dict(self._random.choice(_BROKEN)))

    def _insert(self, document: dict[str, Any]) -> None:
        document.setdefault("_id", ObjectId())
        jobs = self._database.get_collection("jobs", write_concern=WriteConcern("majority", j=True))
        jobs.insert_one(as_written(document))
        self.counts["raw"] += 1
        if isinstance(
            document["_id"], ObjectId
        ):  # by one that cannot be read nothing can be found again
            self._took(document["_id"], None)

    def _submit(self, task: str, args: dict[str, Any]) -> None:
        try:
            job = self._client.submit(f"chaos.{task}", args)
        except ConfigError:  # said at once, and to whom it concerns
            self.counts["too large to be submitted"] += 1
        else:
            self.counts["submitted"] += 1
            self._took(job.id, None)  # neither cancelled nor retried: it is for the nodes to end it

    def _leaving(self, random: Random) -> list[Callable[[], None]]:
        ways = random.sample(["shell", "session", "multiprocessing", "fork", "copy"], 3)
        return [
            *(partial(self._submit, "leave", {"how": way}) for way in ways),
            partial(self._submit, "pool", {}),
        ]

    def _abrupt(self, random: Random) -> list[Callable[[], None]]:
        return [
            partial(self._submit, "abrupt", {"after": after, "code": random.choice([1, 75])})
            for after in (0.0, 0.001, random.uniform(1e-5, 0.01))
        ]

    def _large(self, random: Random) -> list[Callable[[], None]]:
        fill = "x" * int(
            1024 * 1024 * random.choice([random.uniform(6, 14), random.uniform(6, 14), 15.6])
        )
        # What is left in the document: not enough for its number, for being held, for its outcome;
        # and enough.
        room = random.choice([120, 180, 210, 240, 240, 270, 2_000])
        raw = {"task": "chaos.take", "args": {"load": "x" * (16 * 1024 * 1024 - room)}}
        return [
            partial(self._insert, raw),
            random.choice(
                [
                    partial(self._submit, "take", {"load": fill}),
                    partial(self._submit, "give", {"megabytes": random.choice([8.0, 15.9, 15.99])}),
                ]
            ),
        ]

    def _deep(self, random: Random) -> list[Callable[[], None]]:
        raw = {"task": "chaos.take", "args": {"load": nested(150)}}
        levels = random.choice([90, 150, 180])
        return [
            partial(self._submit, "take", {"load": nested(150)}),
            partial(self._submit, "give", {"levels": levels}),
            partial(self._insert, raw),
        ]

    def _unreadable(self, random: Random) -> list[Callable[[], None]]:
        documents: list[dict[str, Any]] = [
            {"_id": f"{NOT_UTF8}{random.randrange(10**9)}", "task": "chaos.quick"},
            {"_id": {"n": random.randrange(10**9), "t": NOT_UTF8}, "task": "chaos.quick"},
            {"task": "chaos.take", "args": {"load": NOT_UTF8}},
            {"task": NOT_UTF8},
        ]
        return [partial(self._insert, document) for document in documents]

    def _took(self, id: Any, seq: int | None) -> None:
        self.sure.add(id)
        if seq is not None:
            self._recent.append(seq)

    def _cancel(self) -> None:
        if self._recent:
            self._client.cancel(self._random.choice(self._recent))
            self.counts["cancels"] += 1

    def _retry(self) -> None:
        if self._recent:
            seq = self._random.choice(self._recent)
            self.retried.add(seq)
            try:
                self._client.retry(seq)
                self.counts["retries by hand"] += 1
            except TontineError:
                self.counts["retries refused"] += 1


BAD_KINDS: dict[str, Callable[[Load, Random], list[Callable[[], None]]]] = {
    "leave": Load._leaving,
    "abrupt": Load._abrupt,
    "large": Load._large,
    "deep": Load._deep,
    "unreadable": Load._unreadable,
}
