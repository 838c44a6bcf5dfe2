"""Jobs that were left in the inbox run, each as one job, also when the node that takes them is
killed on the way."""

from __future__ import annotations

import signal

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine.store import inbox

pytestmark = pytest.mark.story

COUNT = 3000


def test_nodes_take_what_is_left_in_the_inbox_and_a_kill_on_the_way_costs_nothing(
    cluster: Cluster,
) -> None:
    cluster.options = ["--lease", "3s"]
    first, _ = cluster.begin_all("a", "b")
    jobs, box = cluster.database.jobs, cluster.database.inbox
    box.insert_one({"task": "story.double", "args": {"x": 21}})
    cluster.store.run(inbox.make())
    (job,) = cluster.wait_for_all(1)
    assert (job["state"], job["result"]) == ("done", 42)

    left = [{"task": "story.double", "args": {"x": x}} for x in range(COUNT)]
    box.insert_many(left[:-500])
    eventually(lambda: jobs.count_documents({}) > 1, what="the first node takes them")
    first.signal_all(signal.SIGKILL)
    box.insert_many(left[-500:])
    ended = cluster.wait_for_all(COUNT + 1)
    assert box.count_documents({}) == 0
    assert jobs.count_documents({}) == COUNT + 1
    assert {job["state"] for job in ended} == {"done"}
    assert sorted(job["result"] for job in ended) == sorted([42, *(2 * x for x in range(COUNT))])
