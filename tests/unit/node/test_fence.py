"""How often the lease is looked at: no job may be late to be ended, or to be given back."""

from __future__ import annotations

import asyncio
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tontine_node.membership.fence import GUARD_EVERY, GUARD_IDLE_EVERY, Fence


@pytest.mark.parametrize(
    ("held", "is_up", "left", "pause"),
    [
        ([], False, 15.0, GUARD_IDLE_EVERY),
        ([], False, 0.5, 0.5),
        ([], False, -3.0, GUARD_EVERY),
        (["a job"], False, 15.0, GUARD_EVERY),
        (
            [],
            True,
            15.0,
            GUARD_EVERY,
        ),  # the lease came back while workers were being ended: new ones must start
    ],
)
def test_the_lease_is_looked_at_often_unless_there_is_nothing_to_end(
    held: list[str], is_up: bool, left: float, pause: float
) -> None:
    clock, contexts, nobody = (
        SimpleNamespace(now=lambda: 100.0),
        SimpleNamespace(deadline=100.0 + left),
        None,
    )
    fence = Fence(*cast("Any", (clock, nobody, held, contexts)))
    fence._is_up = is_up
    assert fence._pause() == pause


async def test_a_long_rest_ends_when_something_comes_in(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr("tontine_node.membership.fence.GUARD_IDLE_EVERY", 3600.0)
    ended = asyncio.Event()

    async def kill_all(_: str) -> None:
        fence.is_over = True
        ended.set()

    clock = SimpleNamespace(now=lambda: 0.0)
    beat = SimpleNamespace(has_lease=lambda: False, failed_since_renewal=True)
    held: list[str] = []
    contexts = SimpleNamespace(deadline=3600.0, kill_all=kill_all)
    fence = Fence(*cast("Any", (clock, beat, held, contexts)))
    guard = asyncio.create_task(fence.run())
    await asyncio.sleep(0)
    assert not ended.is_set()
    fence.wake.set()
    async with asyncio.timeout(30):
        await guard
    assert ended.is_set()
