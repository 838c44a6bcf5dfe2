"""A module that declares its schedules, on a busy node: known once, never overlapping, and what is
late never runs."""

from __future__ import annotations

from pathlib import Path

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client

pytestmark = pytest.mark.story

MODULE = """
import time
from pathlib import Path
from tontine import Module

shop = Module("shop", version="1.0")

@shop.schedule(every=1, overlap="skip", args={{"path": {gate!r}}})
@shop.task
def patient(path):
    while not Path(path).exists():
        time.sleep(0.01)

@shop.task
def mark(path):
    Path(path).touch()
    return "marked"
"""


def test_a_declared_schedule_fires_one_job_at_a_time_and_what_waits_too_long_behind_it_is_cancelled(
    cluster: Cluster, tmp_path: Path
) -> None:
    gate, ran, module = tmp_path / "gate", tmp_path / "ran", tmp_path / "shop_tasks.py"
    module.write_text(MODULE.format(gate=str(gate)))
    node = cluster.begin("a", "--processes", "1", "--slots", "1", modules=str(module))

    def schedule() -> dict[str, object]:
        return dict(cluster.database.schedules.find_one({"_id": "shop.patient"}) or {})

    def skipped() -> bool:
        times = schedule().get("skipped", 0)
        return isinstance(times, int) and times >= 2

    def on_demand() -> set[str]:
        return {"start_by", "held_key"}.intersection(cluster.database.jobs.index_information())

    eventually(lambda: cluster.jobs(schedule="shop.patient", state="working"), 60, "it fires")
    with Client(cluster.database) as client:
        assert on_demand() == set(), "no job has needed one"
        late = client.submit("shop.mark", {"path": str(ran)}, max_age=0.3)
        assert on_demand() == {"start_by"}
        ended = client.wait(late, timeout=60)
        assert (ended.state, ended.error.type if ended.error else None) == ("cancelled", "TooLate")
        eventually(skipped, 60, "times are passed over")
        assert len(cluster.jobs(schedule="shop.patient")) == 1, "one at a time"
        (event,) = cluster.database.events.find({"kind": "late"})
        assert (event["jobs"], event["by"]) == (1, "a")
        assert client.unschedule("shop.patient")
        gate.touch()
        assert not ran.exists(), "what was cancelled has never run"
        cluster.database.jobs.drop_index("start_by")
        eventually(lambda: on_demand() == {"start_by"}, 60, "the node puts it back")
        in_time = client.submit(
            "shop.mark", {"path": str(ran)}, key="mark", max_age="1h", unique_for="1h"
        )
        assert client.wait(in_time, timeout=60).result == "marked"
        again = client.submit("shop.mark", {"path": str(ran)}, key="mark", unique_for="1h")
        assert (again.seq, again.existed, again.result) == (in_time.seq, True, "marked")
    assert schedule()["removed"] is True, "its name is left, so that the node does not add it again"
    assert "Traceback" not in node.text()
