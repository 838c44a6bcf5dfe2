"""What a node notes as failing, and when that is over."""

from __future__ import annotations

import asyncio

import pytest

from tests.support.feeding import until
from tontine.records.trouble import read_troubles
from tontine_node import loop
from tontine_node.telling.troubles import Troubles


def test_a_trouble_lasts_from_its_first_failure_to_the_next_success() -> None:
    troubles = Troubles()
    troubles.note("claiming", ValueError("first"))
    (first,) = read_troubles(troubles.to_document())
    troubles.note("claiming", ValueError("second"))
    troubles.note("settling", ValueError())
    again, other = read_troubles(troubles.to_document())
    assert (again.what, again.why, again.times, again.since) == (
        "claiming",
        "second",
        2,
        first.since,
    )
    assert (other.what, other.times) == ("settling", 1)
    troubles.over("claiming")
    troubles.over("numbering")
    assert [one.what for one in read_troubles(troubles.to_document())] == ["settling"]


async def test_a_loop_that_runs_again_for_long_enough_is_mended(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr(loop, "MENDED_AFTER", 0.05)
    troubles, runs = Troubles(), 0

    async def fail_once() -> None:
        nonlocal runs
        runs += 1
        if runs == 1:
            raise RuntimeError("once")
        await asyncio.Event().wait()

    running = asyncio.create_task(loop.keep_going("samples", fail_once, troubles))
    await until(lambda: troubles, "a trouble")
    await until(lambda: not troubles, "none any more")
    assert runs == 2
    running.cancel()
