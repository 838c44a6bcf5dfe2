"""What was dropped or changed in the database is put back while nodes work, and they say so."""

from __future__ import annotations

from typing import Any

from tests.support import earlier_schema
from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.store import bell, read, schema
from tontine.store.names import BELL, JOBS, SAMPLES


def healed(cluster: Cluster) -> set[str]:
    """All that nodes say they have put back."""
    return {
        what for event in cluster.database.events.find({"kind": "healed"}) for what in event["what"]
    }


def wait_until_whole(cluster: Cluster) -> None:
    eventually(lambda: cluster.store.run(schema.faults()) == [], 90, "everything is back")


def test_what_was_dropped_is_put_back_and_jobs_go_on(cluster: Cluster) -> None:
    database = cluster.database
    first, _ = cluster.begin_all("a", "b", options=("--lease", "4"))
    with Client(database) as client:
        database.jobs.drop_index("seq")
        database.jobs.drop_index("fresh")
        database.drop_collection(BELL)
        database.drop_collection("schedules")
        database.drop_collection("logs")
        database.drop_collection(SAMPLES)
        cluster.store.run(bell.ring(JOBS))
        jobs = [client.submit("story.double", {"x": number}) for number in range(20)]
        assert [client.wait(job, timeout=120).result for job in jobs] == [
            2 * number for number in range(20)
        ]
        wait_until_whole(cluster)
        assert eventually(
            lambda: {"jobs.seq", "jobs.fresh", "schedules", "logs"} <= healed(cluster),
            30,
            "it is told",
        )
        assert "put back what was missing" in first.text() + "".join(
            node.text() for node in cluster.nodes
        )

        database.drop_collection("jobs")
        database.drop_collection("events")
        wait_until_whole(cluster)
        job = client.submit("story.double", {"x": 4})
        assert client.wait(job, timeout=120).result == 8
    moment = cluster.store.run(read.now())
    eventually(
        lambda: database[SAMPLES].count_documents({"at": {"$gt": moment}}),
        60,
        "samples are kept again",
    )


def test_the_release_before_starts_beside_and_its_schema_does_not_stay(cluster: Cluster) -> None:
    cluster.begin_all("a", options=("--lease", "4"))
    assert earlier_schema.init(cluster.database) == []
    assert cluster.store.run(schema.faults()) != []
    wait_until_whole(cluster)


def test_a_node_parts_jobs_of_one_number_lives_with_other_doubles_and_says_which(
    cluster: Cluster,
) -> None:
    def trouble() -> dict[str, Any] | None:
        record = cluster.record("a") or {}
        return next((one for one in record.get("troubles") or () if one["what"] == "healing"), None)

    cluster.database.jobs.drop_index("seq")
    job = {
        "task": "story.double",
        "args": {"x": 1},
        "state": "done",
        "attempt": 1,
        "fails": 0,
        "lost": 0,
    }
    cluster.database.jobs.insert_many([{"seq": 7, **job}, {"seq": 7, **job}])
    cluster.database.logs.drop_index("attempt")
    cluster.database.logs.insert_many([{"seq": 7, "attempt": 1}, {"seq": 7, "attempt": 1}])
    (node,) = cluster.begin_all("a", options=("--lease", "4"))
    told = eventually(trouble, 90, "it says what it cannot mend")
    assert told["why"].startswith("logs.attempt cannot be made")
    assert "seq: 7" in told["why"]
    assert cluster.store.run(schema.faults()) == ["logs.attempt is missing"]
    assert len({one["seq"] for one in cluster.jobs()}) == 2
    assert node.process.poll() is None
