"""What loops have in common: rounds, rests and what is told of a round that fails."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from itertools import chain, repeat

import pytest

from tontine.errors import StoreError
from tontine_node.loop import Loop, rest
from tontine_node.telling.troubles import Troubles


class Rounds:
    """A loop whose rounds end as the test says; after the last of these the loop is cancelled."""

    def __init__(self, *ends: float | BaseException | None) -> None:
        self.troubles = Troubles()
        self.was_troubled: list[bool] = []
        self.rests: list[float] = []
        self.is_well = True
        self._ends: Iterator[float | BaseException | None] = chain(
            ends, repeat(asyncio.CancelledError())
        )

    async def round(self) -> float | None:
        self.was_troubled.append(self.troubles.has("rounds"))
        end = next(self._ends)
        if isinstance(end, BaseException):
            raise end
        return end

    async def run(self, monkeypatch: pytest.MonkeyPatch, *, rests_first: bool = False) -> None:
        async def rest(wake: asyncio.Event, seconds: float) -> None:
            self.rests.append(seconds)

        monkeypatch.setattr("tontine_node.loop.rest", rest)
        loop = Loop(
            "rounds",
            self.round,
            lambda: 5.0,
            self.troubles,
            "no",
            "no",
            is_well=lambda: self.is_well,
        )
        with pytest.raises(asyncio.CancelledError):
            await loop.run(rests_first=rests_first)


async def test_a_round_may_say_when_the_next_is_due(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(None, 0.0, 3.0)
    await rounds.run(monkeypatch)
    assert rounds.rests == [5.0, 0.0, 3.0]


async def test_it_may_rest_before_its_first_round(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(1.0)
    await rounds.run(monkeypatch, rests_first=True)
    assert rounds.rests == [5.0, 1.0]


async def test_a_failure_is_a_trouble_until_a_round_succeeds(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(StoreError("away"), StoreError("away"), 1.0)
    await rounds.run(monkeypatch)
    assert rounds.was_troubled == [False, True, True, False]
    assert rounds.rests == [5.0, 5.0, 1.0]


async def test_or_until_all_is_well(monkeypatch: pytest.MonkeyPatch) -> None:
    rounds = Rounds(StoreError("away"), 1.0)
    rounds.is_well = False
    await rounds.run(monkeypatch)
    assert rounds.was_troubled == [False, True, True]


async def test_what_no_round_should_raise_is_not_for_the_loop_to_swallow(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    rounds = Rounds(ZeroDivisionError())
    loop = Loop("rounds", rounds.round, lambda: 5.0, rounds.troubles, "no", "no")
    with pytest.raises(ZeroDivisionError):
        await loop.run()


async def test_a_rest_ends_when_it_is_woken_or_its_time_is_over() -> None:
    wake = asyncio.Event()
    async with asyncio.timeout(30):
        await rest(wake, 0.001)
        wake.set()
        await rest(wake, 3600.0)
