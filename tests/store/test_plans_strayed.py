"""A step's job that was claimed with its release, and came to light when nobody knew of it any
more."""

from __future__ import annotations

from collections.abc import Iterator

import pytest

from tests.support.interleaving.history import CANCEL
from tests.support.interleaving.network import Message
from tests.support.interleaving.worker import TASK
from tests.support.interleaving.world import World
from tontine.store import control as jobs_control
from tontine.store.call import Store
from tontine.store.plans import control


@pytest.fixture
def world(store: Store) -> Iterator[World]:
    world = World(store.database)
    yield world
    world.close()


def is_release(message: Message) -> bool:
    return message.call.collection == "jobs" and message.call.method == "insert_many"


def test_a_plan_ends_when_its_job_went_from_a_stray_to_cancelled(
    world: World, store: Store
) -> None:
    life = world.start_node(hears=True)
    world.live_on(60)  # its first look at all plans is behind it, and the next one far away
    world._ask("submit", control.submit({"steps": {"a": {"task": TASK}}}))
    release = world.flow_until(is_release)
    (job,) = release.call.args[0]
    assert job["state"] == "working"
    world.give_up(release)
    for _ in range(1000):  # it is sent again, given up, and a read tells that it is not there
        if int(job["seq"]) not in life.node.claims:
            break
        for message in list(world.network.in_flight):
            (world.lose if is_release(message) else world.go_on)(message)
        world.pass_time(0.1)
    world.land_late(release)
    world._ask(CANCEL, jobs_control.cancel(int(job["seq"])))
    world.live_on(60)
    (found,) = store.database.jobs.find()
    assert (found["state"], found.get("started_at")) == ("cancelled", None)
    (plan,) = store.database.plans.find()
    assert plan["state"] == "failed"
    assert plan["error"]["type"] == "Cancelled"
