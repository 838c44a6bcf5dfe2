"""Named states in a task: one version for a job, a default, and what stands in for one in tests."""

from __future__ import annotations

import bson
import pytest

from tests.support.lone_worker import attempt, lone_worker
from tontine import Module, NoState
from tontine.testing import run_task
from tontine_node.running.pipe import StateValue

shop = Module("shop")
prices = shop.state("prices")
rates = shop.state("rates", default={})


@shop.task
def look() -> list[object]:
    return [prices.value, prices.version, rates.value, rates.version]


def version(number: int, value: object) -> StateValue:
    return StateValue("shop/prices", number, bson.encode({"r": value}))


def test_a_job_has_the_version_that_its_worker_had_when_it_began() -> None:
    with lone_worker(shop) as worker:
        kind, why = attempt(worker, "shop.look")
        assert kind == "failed"
        assert (why.type, "tontine state set shop/prices" in why.message) == ("NoState", True)
        worker.runner.take_states([version(1, {"a": 1})])
        assert attempt(worker, "shop.look") == ("done", [{"a": 1}, 1, {}, None])
        worker.runner.take_states([StateValue("shop/prices", 2, b"")])
        assert attempt(worker, "shop.look")[0] == "failed"


def test_what_comes_while_a_job_runs_is_for_the_next() -> None:
    module = Module("shop")

    with lone_worker(module) as worker:

        @module.task
        def wait() -> list[object]:
            first = prices.version
            worker.runner.take_states([version(2, "new")])
            value = prices.value
            value.append("changed by a task")
            return [first, prices.version, prices.value]

        worker.runner.take_states([version(1, ["old"])])
        assert attempt(worker, "shop.wait") == ("done", [1, 1, ["old", "changed by a task"]])
        worker.runner.take_states([version(3, ["third"])])
        assert attempt(worker, "shop.wait")[1][2] == ["third", "changed by a task"]


def test_a_test_gives_a_state_a_value() -> None:
    with pytest.raises(NoState):
        run_task(look)
    with prices.standing_in([1]):
        assert run_task(look).result == [[1], None, {}, None]
    assert repr(prices) == "<state shop/prices>"
