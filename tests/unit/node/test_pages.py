"""Pages of results: whoever waits for one gets it or is told why not, and nothing is left over."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any

import bson
import pytest

from tests.support.interleaving.loop import ManualClock
from tontine import ClaimLost, ResultGone
from tontine.errors import StoreError, StoreUnavailable
from tontine.records.plan import PlanPlace
from tontine_node.claims import Entry
from tontine_node.running import pages as master
from tontine_node.running.pages import PageReader
from tontine_node.running.pipe import Orders, PageAnswer, PageWanted
from tontine_node.telling.troubles import Troubles
from tontine_node.worker.pages import Pages


def jobs(*items: int) -> bytes:
    places = [PlanPlace(7, "m", item=item) for item in items]
    documents = [
        {"_id": one.id, "plan": one.to_document(), "state": "done", "result": one.item}
        for one in places
    ]
    return b"".join(map(bson.encode, documents))


DOCUMENT: dict[str, Any] = {
    "seq": 9,
    "attempt": 1,
    "plan": {"seq": 7, "stream": {"results": {"step": "m", "total": 3}}},
}


def test_a_task_gets_what_its_master_has_read() -> None:
    sent: list[PageWanted] = []

    def post(wanted: PageWanted) -> None:
        sent.append(wanted)
        body = jobs(0, 1) if wanted.first == 0 else jobs(2)
        pages.take_answer(PageAnswer(wanted.number, None, body))

    pages = Pages(post)
    stream = pages.streams_of(DOCUMENT)["results"]
    assert stream.total == 3
    assert list(stream) == [0, 1, 2]
    assert [(one.seq, one.attempt, one.step, one.first) for one in sent] == [
        (9, 2, "m", 0),
        (9, 2, "m", 2),
    ]
    assert not pages._asked


@pytest.mark.parametrize(
    ("answer", "error"),
    [
        ((["ClaimLost", ""], b""), ClaimLost),
        ((["StoreError", "no"], b""), StoreError),
        ((None, b""), ResultGone),
        ((None, jobs(1)), ResultGone),
        ((None, b"no bson"), Exception),
    ],
)
def test_a_task_is_told_why_there_is_no_page(answer: Any, error: type[Exception]) -> None:
    def post(wanted: PageWanted) -> None:
        pages.take_answer(PageAnswer(wanted.number, *answer))

    pages = Pages(post)
    with pytest.raises(error):
        next(pages.streams_of(DOCUMENT)["results"])
    assert not pages._asked


class Node:
    """A master with a store that answers as it is told."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.sent: list[PageAnswer] = []
        self.clock = ManualClock()
        child = SimpleNamespace(send=self._send)
        self.workload: Any = SimpleNamespace(child=child, sent={})
        place = PlanPlace(7, "pack")
        self.workload.sent[9] = Entry(9, attempt=2, since=0.0, place=place)
        store: Any = self
        self.reader = PageReader(store, self.clock, Troubles())

    def _send(self, orders: Orders) -> None:
        self.sent += orders.pages

    async def run(self, steps: Any, *, causal: Any) -> bytes:
        answer = self.answers.pop(0)
        if callable(answer):
            answer = answer()
        if isinstance(answer, Exception):
            raise answer
        return bytes(answer)

    async def serve(self, wanted: PageWanted) -> None:
        self.reader.take(self.workload, [wanted])
        await asyncio.gather(*self.reader.tasks)
        assert not self.reader.tasks


WANTED = PageWanted(1, 9, 2, "m", 0, 500)


@pytest.fixture(autouse=True)
def hurried(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(master, "_PAUSE", 0.001)


async def test_a_store_that_is_away_is_asked_again() -> None:
    node = Node(StoreUnavailable("away"), StoreError("refused"), jobs(0))
    await node.serve(WANTED)
    assert node.sent == [PageAnswer(1, None, jobs(0))]


async def test_what_the_store_refuses_for_long_is_told() -> None:
    def refuse() -> StoreError:
        node.clock.advance(master.REFUSED_FOR + 1)
        return StoreError("no right to read")

    node = Node(refuse)
    await node.serve(WANTED)
    assert node.sent == [PageAnswer(1, ("StoreError", "no right to read"), b"")]


async def test_a_job_that_is_the_workers_no_more_gets_no_page() -> None:
    def lose() -> StoreUnavailable:
        del node.workload.sent[9]
        return StoreUnavailable("away")

    node = Node(lose)
    await node.serve(WANTED)
    await node.serve(WANTED)
    lost = (ClaimLost.__name__, str(ClaimLost(9, 2)))
    assert node.sent == [PageAnswer(1, lost, b"")] * 2
