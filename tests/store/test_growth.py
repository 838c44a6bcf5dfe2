"""A job costs the store no more with many nodes than with one: counted in calls and index keys,
never in seconds."""

from __future__ import annotations

from dataclasses import dataclass

import pytest

from benchmarks.examined import CLAIM, LOOK_UP, SETTLE, Profile, profiled
from benchmarks.simulated import CountingStore, drain
from tontine.cli.bench.measure import NOOP
from tontine.store import insert
from tontine.store.call import AsyncStore, Store
from tontine.store.insert import Wish

JOBS = 2_000


@dataclass(frozen=True, slots=True)
class Cost:
    """What one drain took."""

    calls: int
    profile: Profile

    def keys_per_job(self, kind: str) -> float:
        return self.profile.kinds[kind].keys / JOBS


async def cost_of(store: Store, async_store: AsyncStore, nodes: int) -> Cost:
    store.run(insert.submit_many(Wish(NOOP), [None] * JOBS))
    counting = CountingStore(async_store.database)
    with profiled(store.database) as profile:
        assert await drain(counting, nodes, JOBS) == JOBS
    assert store.database.jobs.count_documents({"state": "done", "attempt": 1}) == JOBS
    return Cost(counting.calls.total(), profile)


@pytest.mark.parametrize("nodes", [1, 4])
async def test_finding_claiming_and_settling_examine_few_keys_however_many_nodes(
    store: Store, async_store: AsyncStore, nodes: int
) -> None:
    cost = await cost_of(store, async_store, nodes)
    for kind, most in ((LOOK_UP, 3.0), (CLAIM, 2.5), (SETTLE, 2.5)):
        assert cost.profile.kinds[kind].operations >= nodes
        assert 1.0 <= cost.keys_per_job(kind) <= most, (kind, cost)


@pytest.mark.parametrize("nodes", [1, 4])
async def test_jobs_are_found_claimed_and_settled_many_at_a_time(
    store: Store, async_store: AsyncStore, nodes: int
) -> None:
    cost = await cost_of(store, async_store, nodes)
    # Three calls for each 500 jobs; a dozen more per node for its other looks, which come by time
    # and not by job.
    assert cost.calls <= 3 * (JOBS // 500) + 12 * nodes, cost
