"""How an application tests its tasks: inline, on a queue in memory, and a few for real."""

from __future__ import annotations

from pathlib import Path

import pytest
from shop_tasks import charge, resize, shop

from tontine import Module, Reject, Retry
from tontine.testing import EagerQueue, Queue, run_task

TASKS = str(Path(__file__).with_name("shop_tasks.py"))


@pytest.fixture
def tontine_modules() -> list[Module]:
    return [shop]


def test_resizing_reports_its_progress() -> None:
    run = run_task(resize, image="a.png", width=400)
    assert run.result == {"image": "a.png", "width": 400}
    assert run.progress[-1] == (1.0, "400 pixels")


def test_a_busy_bank_is_asked_again() -> None:
    with pytest.raises(Retry):
        run_task(charge, order=7, cents=100)
    assert "charged 100 cents" in run_task(charge, order=7, cents=100, attempt=3).result
    with pytest.raises(Reject):
        run_task(charge, order=7, cents=0)


def test_an_order_is_charged_without_a_mongodb(tontine_eager: EagerQueue) -> None:
    paid = tontine_eager.submit("shop.charge", {"order": 1, "cents": 500})
    assert tontine_eager.get(paid).fails == 1
    assert [job.fails for job in tontine_eager.advance(0.1)] == [2]
    assert tontine_eager.wait(paid).result == "order 1: charged 500 cents at attempt 3"
    assert [job.args["order"] for job in tontine_eager.submitted("shop.charge")] == [1]


def test_orders_are_charged_by_a_real_node(tontine_queue: Queue) -> None:
    with tontine_queue.client() as client:
        paid = client.submit("shop.charge", {"order": 1, "cents": 500})
        free = client.submit("shop.charge", {"order": 2, "cents": 0})
        tontine_queue.run_until_idle(TASKS)
        assert client.get(paid.seq).result == "order 1: charged 500 cents at attempt 3"
        assert client.get(free.seq).state == "failed"
