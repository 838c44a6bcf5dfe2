"""Ten nodes join, pause, resume and leave at random while jobs flow."""

from __future__ import annotations

import contextlib
import random
import signal
import time

import pytest

from tests.support.cluster import LIVE, Cluster
from tests.support.eventually import eventually
from tontine import Client, Job
from tontine.errors import UnknownNode
from tontine.records.roster import Roster
from tontine.records.states import Desired
from tontine.store import control
from tontine.testing import NodeProcess

pytestmark = [pytest.mark.story, pytest.mark.long]

JOBS = 5000


def is_registered(cluster: Cluster, node: NodeProcess) -> bool:
    """Before that, a signal ends a bare interpreter. Its name may have been another's."""
    return any(record.get("pid") == node.process.pid for record in cluster.records(dead=True))


def test_ten_nodes_come_and_go_while_five_thousand_jobs_flow(cluster: Cluster) -> None:
    cluster.options = ["--lease", "10s"]
    chance = random.Random(20261116)
    names = [f"n{number}" for number in range(10)]
    running = dict(zip(names, cluster.begin_all(*names[:6]), strict=False))
    with Client(cluster.database) as client:
        jobs: list[Job] = []
        for _ in range(20):
            jobs += client.submit_many("story.double", [{"x": x} for x in range(JOBS // 20)])
            name = chance.choice(names)
            if name not in running:
                running[name] = cluster.begin(name)
            elif chance.random() < 0.4 and is_registered(cluster, running[name]):
                running.pop(name).signal(signal.SIGTERM)
            else:
                wish = Desired.PAUSED if chance.random() < 0.5 else Desired.RUNNING
                with contextlib.suppress(UnknownNode):  # it has only just been started
                    cluster.store.run(control.ask(name, wish))
            time.sleep(0.5 * chance.random())
        cluster.store.run(control.ask(None, Desired.RUNNING))
        ended = client.wait(jobs, timeout=150)

    assert [job.result for job in ended] == [2 * (place % (JOBS // 20)) for place in range(JOBS)]
    assert {job.state for job in ended} == {"done"}
    assert {job.lost + job.fails for job in ended} == {0}
    assert cluster.runs() == {job.seq: 1 for job in ended}
    stopped = [node for node in cluster.nodes if node not in running.values()]
    assert {node.process.wait(60) for node in stopped} <= {0}
    for name in running:
        cluster.wait_for_state(name, *LIVE)
    cluster.wait_for_members(len(running))

    rosters = sorted(
        cluster.database.events.find({"kind": "roster"}), key=lambda event: event["epoch"]
    )
    epochs = [event["epoch"] for event in rosters]
    assert epochs == sorted(set(epochs))
    for event in rosters:
        shares = Roster(event["epoch"], tuple(event["members"])).shares().values()
        size = len(event["members"])
        assert sorted(share.rank for share in shares) == list(range(size))
        for seq in range(1, 50):
            assert sum(share.owns(seq) for share in shares) == (1 if size else 0)
    final = cluster.roster()
    eventually(
        lambda: (
            {
                node["_id"]: (node["share"]["epoch"], node["share"]["rank"])
                for node in cluster.records()
                if "share" in node
            }
            == {node: (final.epoch, rank) for rank, node in enumerate(final.members)}
        ),
        30,
        "the records show the shares of the last epoch",
    )
