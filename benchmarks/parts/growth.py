"""What a job costs the store, by the number of nodes and by the length of the backlog."""

from __future__ import annotations

import asyncio
import time
from typing import Any

from pymongo import AsyncMongoClient

from tontine.cli.bench import measure
from tontine.store.call import Store

from ..contender import TONTINE
from ..examined import CLAIM, LOOK_UP, SETTLE, Profile, profiled
from ..nodes import fresh_store
from ..progress import say
from ..scene import Scene
from ..simulated import CountingStore, drain


def measure_of(nodes: int, backlog: int) -> str:
    return f"{nodes} node{'' if nodes == 1 else 's'}, backlog {backlog:,}"


def run(scene: Scene) -> None:
    for backlog in scene.plan.backlogs:
        with fresh_store(scene.uri) as store:
            queued = 0
            for nodes in scene.plan.crowds:
                if queued < backlog:
                    measure.submit(store, backlog - queued)
                queued = backlog - _once(scene, store, nodes, backlog)


def _once(scene: Scene, store: Store, nodes: int, backlog: int) -> int:
    jobs = min(backlog, scene.plan.sample)
    before, began = _bytes(store), time.perf_counter()
    with profiled(store.database) as profile:
        settled, calls = asyncio.run(_drain(scene.uri, store.database.name, nodes, jobs))
        took, passed = time.perf_counter() - began, _bytes(store) - before
    _note(scene, measure_of(nodes, backlog), settled, profile)
    for what, value, unit in (
        ("store calls per job", calls, "calls"),
        (
            "server operations on jobs per job",
            sum(one.operations for one in profile.kinds.values()),
            "operations",
        ),
        ("bytes per job", passed, "bytes"),
        ("time per job", took * 1e6, "us"),
    ):
        scene.record.add(
            "growth", f"{what}, {measure_of(nodes, backlog)}", TONTINE, value / settled, unit
        )
    looked = profile.kinds[LOOK_UP].keys / settled
    say(
        f"growth, {measure_of(nodes, backlog)}: {looked:.2f} keys to find a job, "
        f"{calls / settled:.3f} calls per job"
    )
    return settled


def _note(scene: Scene, where: str, settled: int, profile: Profile) -> None:
    for kind in (LOOK_UP, CLAIM, SETTLE):
        examined = profile.kinds[kind]
        scene.record.add(
            "growth", f"keys per job by {kind}, {where}", TONTINE, examined.keys / settled, "keys"
        )
        scene.record.add(
            "growth",
            f"documents per job by {kind}, {where}",
            TONTINE,
            examined.documents / settled,
            "docs",
        )


async def _drain(uri: str, name: str, nodes: int, jobs: int) -> tuple[int, int]:
    async with AsyncMongoClient[dict[str, Any]](uri, tz_aware=True) as client:
        store = CountingStore(client[name])
        settled = await drain(store, nodes, jobs)
        return settled, store.calls.total()


def _bytes(store: Store) -> int:
    network = store.database.client.admin.command("serverStatus")["network"]
    return int(network["bytesIn"]) + int(network["bytesOut"])
