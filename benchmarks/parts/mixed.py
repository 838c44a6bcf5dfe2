"""A module that few of many nodes have: what finding its jobs costs the store, and how soon they
start."""

from __future__ import annotations

import asyncio
from datetime import timedelta
from statistics import median
from typing import Any

from pymongo import AsyncMongoClient

from tontine.cli.bench.measure import NOOP
from tontine.store import insert, read
from tontine.store.call import Store
from tontine.store.insert import Wish

from ..contender import TONTINE
from ..examined import LOOK_UP, profiled
from ..nodes import fresh_nodes, fresh_store
from ..ours import ping
from ..progress import say
from ..scene import Scene
from ..simulated import CountingStore, drain_by

RARE = "rare.task"
NODES, HAVING, ONE_IN = 50, 3, 100
REAL = 4
"""Real nodes, of which one, or all, have the module of the probes."""

ALL_HAVE, ONE_HAS = "p50 where all have it", "p50 where one has it"


def measure_of(what: str, sort: str) -> str:
    return f"{what} per {sort} job, {HAVING} of {NODES} nodes, 1 job in {ONE_IN}"


def run(scene: Scene) -> None:
    for sort in ("fresh", "due"):
        _examine(scene, sort)
    _start(scene)


def _examine(scene: Scene, sort: str) -> None:
    rare = max(10, scene.plan.sample // 10)
    having = [f"node-{number * NODES // HAVING}" for number in range(HAVING)]
    crew = {
        name: [RARE] if name in having else [NOOP]
        for name in (f"node-{number}" for number in range(NODES))
    }
    with fresh_store(scene.uri) as store:
        for _ in range(rare):
            store.run(insert.submit(Wish(RARE), None))
            store.run(insert.submit_many(Wish(NOOP), [None] * (ONE_IN - 1)))
        if sort == "due":
            past = store.run(read.now()) - timedelta(minutes=5)
            store.database.jobs.update_many({}, {"$set": {"run_at": past}})
        with profiled(store.database) as profile:
            asyncio.run(_drain(scene.uri, store, crew, rare, having))
    looks = profile.kinds[LOOK_UP]
    for what, number in (("keys", looks.keys), ("documents", looks.documents)):
        scene.record.add("mixed", measure_of(what, sort), TONTINE, number / rare, what)
    say(f"mixed, {sort}: {looks.keys / rare:.1f} keys and {looks.documents / rare:.1f} documents")


async def _drain(
    uri: str, store: Store, crew: dict[str, list[str]], jobs: int, at_work: list[str]
) -> None:
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        counting = CountingStore(client[store.database.name])
        await drain_by(counting, crew, jobs, at_work)


def _start(scene: Scene) -> None:
    """The median time from submit to start, where one of some nodes has the module and where all
    have."""
    plan = scene.plan
    for what, having in ((ALL_HAVE, REAL), (ONE_HAS, 1)):
        with fresh_nodes(scene.uri) as nodes:
            nodes.bring_up(having, modules=("benchmarks.tasks",), processes=1)
            if having < REAL:
                nodes.bring_up(REAL - having, processes=1)
            passed = ping(nodes, plan.warm_up + plan.probes)[plan.warm_up :]
        scene.record.add("mixed", what, TONTINE, median(passed), "ms")
        say(f"mixed, {what}: {median(passed):.1f} ms")
