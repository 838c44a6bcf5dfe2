"""What becomes of plans whose advance, or removal, goes wrong."""

from __future__ import annotations

import asyncio
import contextlib
import random
from types import SimpleNamespace
from typing import TYPE_CHECKING, Any, cast

import pytest

from tests.support.interleaving.life import TIMING
from tests.support.interleaving.loop import ManualClock
from tontine.errors import StoreError, StoreUnavailable
from tontine.records.plan import PlanRecord
from tontine.records.share import Share
from tontine.records.states import PlanState
from tontine.store.call import AsyncStore
from tontine.store.plans import remove
from tontine.store.plans.advance import Advanced
from tontine.store.raw import Raw, Some
from tontine.store.retention import FOR_EVER
from tontine_node.planning import advances as advancing
from tontine_node.planning.accepter import Accepter
from tontine_node.planning.advances import KNOWN_FOR, Advances
from tontine_node.planning.onlooker import AT_MOST_EVERY, Onlooker
from tontine_node.planning.remover import Remover
from tontine_node.telling.troubles import Troubles

if TYPE_CHECKING:
    from tontine_node.membership.member import Member


class Store:
    """Answers each operation with what comes next."""

    def __init__(self, *answers: Any) -> None:
        self.answers = list(answers)
        self.asked: list[str] = []

    async def run(self, operation: Any, *, causal: Any = False) -> Any:
        self.asked.append(operation.__name__)
        operation.close()
        answer = self.answers.pop(0)
        if isinstance(answer, Exception):
            raise answer
        return answer


def advances(store: Store, clock: ManualClock | None = None) -> Advances:
    return Advances(
        cast("AsyncStore", store),
        clock or ManualClock(),
        lambda: Share(1, 0, 1),
        lambda: FOR_EVER,
        Troubles(),
    )


async def advance_all(mine: Advances) -> None:
    task = asyncio.create_task(mine.run())
    async with asyncio.timeout(30):
        await mine.drained()
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


@pytest.mark.parametrize(
    "error", [OverflowError("odd"), StoreError("refused"), StoreUnavailable("away")]
)
async def test_whatever_goes_wrong_plans_are_gone_through_again(
    error: Exception, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(advancing, "PAUSE", 0.0)
    store = Store(True, error, Advanced())
    mine = advances(store)
    mine.look_at([7])
    await advance_all(mine)
    assert store.asked == ["all_know_plans", "advance", "advance"]


async def test_a_plan_that_takes_long_holds_up_no_other(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(advancing, "PATIENCE", 0.0)
    begun: list[set[int]] = []
    is_begun, ended, others = asyncio.Event(), asyncio.Event(), asyncio.Event()

    async def advance(batch: dict[int, Any]) -> None:
        begun.append(set(batch))
        is_begun.set()
        if batch.keys() == {7} and len(begun) == 1:
            await ended.wait()
        others.set()

    mine = advances(Store())
    monkeypatch.setattr(mine, "_advance", advance)
    task = asyncio.create_task(mine.run())
    mine.look_at([7])
    async with asyncio.timeout(30):
        await is_begun.wait()
        mine.look_at([7, 8])
        await others.wait()
        assert begun == [{7}, {8}], "no plan is gone through twice at a time"
        ended.set()
        await mine.drained()
    assert begun == [{7}, {8}, {7}]
    task.cancel()
    with contextlib.suppress(asyncio.CancelledError):
        await task


async def test_what_one_advance_has_left_is_due_again() -> None:
    store = Store(True, Advanced(left={7}), Advanced())
    mine = advances(store)
    mine.look_at([7])
    await advance_all(mine)
    assert store.asked.count("advance") == 2


async def test_an_older_node_that_joins_is_told_at_once(caplog: pytest.LogCaptureFixture) -> None:
    clock = ManualClock()
    mine = advances(Store(False, True, False), clock)
    assert not await mine.all_know()
    assert not caplog.records, "plans that wait for it are told by who would accept them"
    assert await mine.all_know()
    clock.advance(KNOWN_FOR + 1)
    assert not await mine.all_know()
    (told,) = caplog.records
    assert told.__dict__["event"] == "plans-halted"


async def test_owners_look_after_a_plan_that_may_have_been_accepted() -> None:
    found = Some([Raw({"_id": 1}, b"")])
    store = Store(found, True, StoreUnavailable("away"), Some(), None, Some())
    clock, share = ManualClock(), Share(1, 0, 1)
    accepter = Accepter(
        cast("AsyncStore", store),
        TIMING,
        clock,
        lambda: share,
        advances(store, clock),
        lambda: FOR_EVER,
        Troubles(),
    )
    with pytest.raises(StoreUnavailable):
        await accepter._look()
    await accepter._look()
    await accepter._look()
    asked = ["find_new", "all_know_plans", "accept", "find_new", "ring", "find_new"]
    assert store.asked == asked, "once, when the store is back"


async def test_one_plan_that_cannot_be_removed_stands_before_no_other() -> None:
    plans = [PlanRecord(seq, seq, PlanState.DONE, {}) for seq in (1, 2)]
    store = Store(plans, StoreError("refused"), True)
    remover = Remover(cast("AsyncStore", store), lambda: Share(1, 0, 1), Troubles())
    await remover._remove_all()
    assert store.asked == ["find_expired", "remove", "remove"]


async def test_all_plans_that_have_expired_are_removed_however_many() -> None:
    page = [PlanRecord(seq, seq, PlanState.DONE, {}) for seq in range(remove.AT_ONCE)]
    store = Store(page, *[True] * len(page), page[:2], True, False)
    remover = Remover(cast("AsyncStore", store), lambda: Share(1, 0, 1), Troubles())
    await remover._remove_all()
    assert store.asked.count("find_expired") == 2
    store.answers = [page, *[False] * len(page)]
    await remover._remove_all()
    assert store.asked.count("find_expired") == 3, "those that cannot go are not looked for again"


async def test_a_look_after_a_death_that_failed_is_made_again() -> None:
    clock, repaired = ManualClock(), []
    member = SimpleNamespace(
        own_share=lambda: Share(1, 0, 1), others=frozenset({"other"}), crowd=1.0
    )
    store = Store([], StoreUnavailable("away"), [7])
    mine = advances(store, clock)
    onlooker = Onlooker(
        cast("AsyncStore", store), TIMING, clock, cast("Member", member), mine, Troubles()
    )

    async def repair() -> None:
        repaired.append(clock.now())

    onlooker.repair = repair
    await onlooker._look()
    clock.advance(AT_MOST_EVERY + 1)
    member.others = frozenset()
    with pytest.raises(StoreUnavailable):
        await onlooker._look()
    clock.advance(AT_MOST_EVERY + 1)
    await onlooker._look()
    assert len(repaired) == 1
    assert mine._due == {7: None}


@pytest.mark.parametrize(("drawn", "rank", "looks"), [(0.99, 0, 1), (0.25, 1, 0), (0.15, 1, 1)])
async def test_who_is_first_by_now_looks_for_expired_plans_at_once(
    drawn: float, rank: int, looks: int, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(random, "random", lambda: drawn)
    store, shares = Store([], []), [None, Share(1, rank, 2)]
    remover = Remover(cast("AsyncStore", store), lambda: shares.pop(0), Troubles())
    await remover._look()
    await remover._look()
    assert len(store.asked) == looks, "not before it is a member, then by its rank"
