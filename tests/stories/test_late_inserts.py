"""A producer that takes numbers, and inserts its jobs only after the nodes have passed them."""

from __future__ import annotations

import pytest
from bson import Int64, ObjectId

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.store.counter import take

pytestmark = pytest.mark.story


@pytest.mark.parametrize("listening", ["--listen", "--no-listen"])
def test_a_large_block_that_is_inserted_late_is_found(cluster: Cluster, listening: str) -> None:
    cluster.options = ["--lease", "5s", listening]
    block = cluster.store.run(take(3000))
    cluster.begin_all("a", "b")
    with Client(cluster.database) as client:
        later = client.submit("story.double", {"x": 21})
        assert client.wait(later, timeout=30).result == 42, "the nodes have passed the block"
    cluster.database.jobs.insert_many(
        [
            {
                "_id": ObjectId(),
                "seq": Int64(seq),
                "task": "story.double",
                "args": {"x": 1},
                "state": "queued",
                "attempt": 0,
                "fails": 0,
                "lost": 0,
                "created_at": block.at,
            }
            for seq in block
        ]
    )
    eventually(
        lambda: cluster.database.jobs.count_documents({"state": "done"}) == 3001, 90, "all are done"
    )
    assert set(cluster.runs().values()) == {1}
