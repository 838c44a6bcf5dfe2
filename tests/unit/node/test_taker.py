"""What a node claims with its release: for a slot that is free, and in doubt until it is known
to be there."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from tests.unit.node.test_dispatch import dispatcher, outcomes
from tontine.records.plan import PlanPlace
from tontine.store.call import Causal
from tontine.store.plans.licence import Licences
from tontine_node.claiming.choice import Choice
from tontine_node.claiming.taker import Taker
from tontine_node.claims import Entry, Status
from tontine_node.running.dispatch import Dispatcher
from tontine_node.telling.troubles import Troubles

__all__ = ["dispatcher", "outcomes"]


class OneLane:
    """A node with a share of these tasks, whose cursor is elsewhere."""

    def of(self, key: str) -> Any:
        return self if key in ("plain", "careful") else None

    def may_take(self, seq: int) -> bool:
        return False


class Answers:
    """A store that answers with what the test has put there."""

    def __init__(self) -> None:
        self.answers: list[Any] = []
        self.waiting: list[tuple[str, asyncio.Future[Any]]] = []
        """Calls that are answered later, by the names of their operations."""

    async def run(self, steps: Any, *, causal: Any = False) -> Any:
        steps.close()
        if self.answers:
            return self.answers.pop(0)
        answer = asyncio.get_running_loop().create_future()
        self.waiting.append((steps.__name__, answer))
        return await answer


@pytest.fixture
def store() -> Answers:
    return Answers()


@pytest.fixture
def taker(dispatcher: Dispatcher, store: Answers) -> Taker:
    choice = Choice(dispatcher.claims, dispatcher, dispatcher.is_noted, list)
    lanes: Any = OneLane()
    return Taker(
        "n",
        store,  # type: ignore[arg-type]
        dispatcher.clock,
        dispatcher.claims,
        dispatcher,
        lanes,
        choice,
        Troubles(),
        lambda: True,
        lambda _: None,
    )


def job(seq: int, task: str = "plain") -> dict[str, Any]:
    """A step's job, as it is about to be inserted."""
    place = PlanPlace(1, f"s{seq}")
    return {
        "_id": place.id,
        "seq": seq,
        "task": task,
        "args": {},
        "state": "queued",
        "attempt": 0,
        "fails": 0,
        "lost": 0,
        "plan": place.to_document(),
    }


async def test_as_many_as_slots_are_free(taker: Taker, dispatcher: Dispatcher) -> None:
    assert [taker.enter(job(seq)) for seq in (1, 2, 3)] == [True, True, False]
    assert dispatcher.free_slots() == 0, "nothing else is claimed for them"
    assert [entry.status for entry in dispatcher.claims] == [Status.PENDING] * 2
    assert not taker.has_doubts, "its insertion is under way: there is nothing to read yet"


async def test_a_slot_that_a_claim_under_way_is_for_is_not_free(
    taker: Taker, dispatcher: Dispatcher
) -> None:
    dispatcher.claims.enter(Entry(8, 1, 0.0, "plain"))
    assert [taker.enter(job(seq)) for seq in (1, 2)] == [True, False]


@pytest.mark.parametrize("task", ["elsewhere", "careful"])
async def test_none_that_it_may_not_claim(taker: Taker, dispatcher: Dispatcher, task: str) -> None:
    """It has no share of the task, or its record does not say yet that it must not run twice."""
    taker._choice._is_noted = lambda _: False
    assert not taker.enter(job(1, task))
    assert not len(dispatcher.claims)


async def test_what_is_there_starts_with_a_licence(
    taker: Taker, dispatcher: Dispatcher, store: Answers
) -> None:
    taker.enter(job(1))
    store.answers = [Licences(frozenset({1}), frozenset())]
    await taker.keep_entered([1], [1], Causal())
    assert [sorted(load.sent) for load in dispatcher.workloads.values()] == [[1], []]
    assert not dispatcher.coming


async def test_what_is_being_inserted_is_not_asked_about(
    taker: Taker, dispatcher: Dispatcher, store: Answers
) -> None:
    """Another plan's release was answered, and this one's is under way."""
    taker.enter(job(1))
    taker.enter(job(2))
    store.answers = [Licences(frozenset({1}), frozenset())]
    await taker.keep_entered([1], [1], Causal())
    assert not taker.has_doubts
    await taker.resolve()
    assert dispatcher.claims.licensed(2, 1)


async def test_without_a_licence_it_ends(
    taker: Taker, dispatcher: Dispatcher, store: Answers, outcomes: list[Any]
) -> None:
    taker.enter(job(1))
    store.answers = [Licences(frozenset(), frozenset())]
    await taker.keep_entered([1], [1], Causal())
    assert [(one.kind, one.seq, one.attempt) for one in outcomes] == [("unlicensed", 1, 1)]


@pytest.mark.parametrize("is_there", [True, False])
async def test_of_what_was_not_confirmed_a_read_tells(
    taker: Taker, dispatcher: Dispatcher, store: Answers, *, is_there: bool
) -> None:
    taker.enter(job(1))
    await taker.keep_entered([1], [], Causal())
    assert taker.has_doubts
    assert dispatcher.claims.licensed(1, 1), "what lands now is not given back as a stray"
    store.answers = [{1} if is_there else set(), Licences(frozenset({1}), frozenset())]
    await taker.resolve()
    assert (1 in dispatcher.workloads[0].sent) is is_there
    assert (1 in dispatcher.claims) is is_there
    assert not dispatcher.coming


async def test_what_its_release_and_the_claim_loop_both_ask_about_starts_once(
    taker: Taker, dispatcher: Dispatcher, store: Answers
) -> None:
    """Something else is in doubt, so the claim loop asks while the licence is being read."""
    taker.enter(job(1))
    dispatcher.claims.enter(Entry(8, 1, 0.0, "plain"))
    taker._unsure.add(8)
    keeping = asyncio.create_task(taker.keep_entered([1], [1], Causal()))
    await asyncio.sleep(0)
    resolving = asyncio.create_task(taker.resolve())
    for _ in range(5):  # the last call that was made is answered first
        await asyncio.sleep(0)
        if store.waiting:
            what, answer = store.waiting.pop()
            answer.set_result({1} if what == "held" else Licences(frozenset({1}), frozenset()))
    await asyncio.gather(keeping, resolving)
    assert [sorted(load.sent) for load in dispatcher.workloads.values()] == [[1], []]
    assert not dispatcher.held
