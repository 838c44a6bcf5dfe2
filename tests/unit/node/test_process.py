"""A process that a node keeps, whatever it is for."""

from __future__ import annotations

import asyncio
import os
import sys

import pytest

from tontine_node.running.process import Process, explain_exit, keep_alive, memory_of


@pytest.mark.parametrize(
    ("code", "told"),
    [
        (0, "exited with code 0"),
        (70, "exited with code 70"),
        (-9, "was ended by signal SIGKILL"),
        (-99, "was ended by signal 99"),
    ],
)
def test_an_exit_is_explained(code: int, told: str) -> None:
    assert explain_exit(code) == told


async def test_it_is_started_ended_and_reaped() -> None:
    process = Process([sys.executable, "-c", "import time; time.sleep(600)"], os.environ, ())
    assert memory_of(process.pid) > 0
    process.kill()
    async with asyncio.timeout(60):
        await process.ended.wait()
    assert explain_exit(process.returncode or 0) == "was ended by signal SIGKILL"
    assert memory_of(process.pid) == 0


async def test_lives_in_vain_have_growing_pauses_between_them_and_others_none(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.setattr("tontine_node.running.process.PAUSE_AT_MOST", 0.3)
    pauses: list[float] = []
    ending = asyncio.Event()
    lives = iter([False, False, False, True, False])

    async def wait_for(waiting: object, seconds: float) -> None:
        getattr(waiting, "close")()  # noqa: B009 - nobody awaits it
        pauses.append(seconds)
        raise TimeoutError

    async def live() -> bool:
        was_useful = next(lives, None)
        if was_useful is None:
            ending.set()
        return bool(was_useful)

    monkeypatch.setattr("tontine_node.running.process.asyncio.wait_for", wait_for)
    await keep_alive(live, ending)
    assert pauses == [0.1, 0.2, 0.3, 0.1]
