"""The screen, driven without a terminal."""

from __future__ import annotations

from textual.widgets import DataTable, Static

from tests.unit.observer.test_board import node, snapshot
from tontine.config import StoreConfig
from tontine_observer.app import ObserverApp

NOWHERE = StoreConfig("mongodb://127.0.0.1:1", "prod")


def text(app: ObserverApp, id: str) -> str:
    return str(app.query_one(id, Static).render())


async def test_a_store_that_is_away_leaves_the_last_picture_and_says_how_old_it_is() -> None:
    app = ObserverApp(NOWHERE, answer_within=0.1)
    async with app.run_test(size=(100, 30)) as pilot:
        app._take(snapshot(node("ada"), node("bea"), unknown={"a.b": 1}, counts={"queued": 1}))
        while "STALE" not in text(app, "#status"):
            await pilot.pause(0.05)
        assert app.query_one(DataTable).row_count == 2
        assert "a.b" in text(app, "#alerts")
        await pilot.press("question_mark")
        assert len(app.screen_stack) == 2
        await pilot.press("question_mark")
        assert len(app.screen_stack) == 1
        await pilot.press("q")
    assert app.return_code == 0
