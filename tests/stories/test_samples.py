"""Nodes keep samples of themselves, and do their work where they cannot."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.records.states import Desired
from tontine.store import control, names, read, samples
from tontine.store.samples import Sample

pytestmark = pytest.mark.story


@pytest.fixture(autouse=True)
def _short_lease(cluster: Cluster) -> None:
    cluster.options = ["--lease", "3s"]


def kept(cluster: Cluster) -> list[Sample]:
    now = datetime.now(UTC)
    return cluster.store.run(
        samples.read(now - timedelta(hours=1), now + timedelta(hours=1), 0.001)
    )


def test_what_a_node_did_can_be_read_from_its_samples(cluster: Cluster) -> None:
    began = cluster.store.run(read.now())
    cluster.begin_all("a", "b", options=("--processes", "2"))
    with Client(cluster.database) as client:
        client.submit_many("story.double", [{"x": x} for x in range(20)])
    cluster.wait_for_all(20)

    def told() -> list[Sample]:
        found = [one for one in kept(cluster) if one.seq == 20]
        newest = {one.name: one for one in found}
        return list(newest.values()) if sum(one.done for one in newest.values()) == 20 else []

    both = eventually(told, 60, "samples that tell of all jobs")
    assert {one.name for one in both} == {"a", "b"}
    for one in both:
        record = cluster.record(one.name)
        assert record is not None
        assert (one.node, one.slots) == (record["_id"], 2)
        assert one.share is not None
        assert (one.share.to_document(), one.failed) == (record["share"], 0)
        assert one.memory > 1_000_000
        assert one.at >= began
        assert isinstance(record["metrics"]["clock"], datetime)
    cluster.store.run(control.ask("a", Desired.PAUSED))
    eventually(
        lambda: [one for one in kept(cluster) if one.state == "paused" and one.share is None],
        60,
        "paused",
    )


def test_a_collection_that_is_no_time_series_is_not_written_to(cluster: Cluster) -> None:
    cluster.database.drop_collection(names.SAMPLES)
    cluster.database[names.SAMPLES].insert_one({"_id": "theirs"})
    (node,) = cluster.begin_all("a", options=("--verbose",))
    eventually(lambda: "no samples are kept" in node.text(), 60, "it has looked")
    with Client(cluster.database) as client:
        job = client.submit("story.double", {"x": 1})
        assert client.wait(job, timeout=60).result == 2
    assert list(cluster.database[names.SAMPLES].find()) == [{"_id": "theirs"}]
