"""docs/observer-plan.svg: a plan with a map of 10,000 whose last step has failed, while it is
undone. Run by `scripts/screenshots`, on the store that the environment names; a node loads this
file, too."""

from __future__ import annotations

import asyncio
import subprocess
import sys
import time
from datetime import UTC
from pathlib import Path

from tontine import Client, Module, Plan
from tontine.config import StoreConfig
from tontine.store.connect import resolve
from tontine_observer.feed.live import LiveSource
from tontine_observer.picture.board import Board
from tontine_observer.terminal import export
from tontine_observer.terminal.app import ObserverApp
from tontine_observer.terminal.screens.page import ListPage
from tontine_observer.terminal.settings import Settings

PICTURE = Path(__file__).resolve().parents[2] / "docs" / "observer-plan.svg"
PHOTOS = 10_000
shop = Module("shop")


@shop.task
def open_album() -> list[int]:
    return list(range(PHOTOS))


@shop.task
def fetch(photo: int) -> int:
    return photo


@shop.task
def forget(photo: int) -> None:
    time.sleep(0.001)  # so that the way back takes longer than drawing it


@shop.task
def pack() -> str:
    return "album.zip"


@shop.task
def mail() -> None:
    raise RuntimeError("the mailbox is full")


def album() -> Plan:
    plan = Plan("album")
    photos = plan.step("shop.open_album", name="open")
    fetched = plan.map("shop.fetch", photos, as_="photo")
    fetched.undo("shop.forget", {"photo": fetched})
    look = plan.step("shop.pack", name="look", after=[photos])
    packed = plan.step("shop.pack", after=[fetched, look])
    packed.undo("shop.pack", {})
    plan.step("shop.mail", after=[packed])
    plan.finally_("shop.pack", {})
    return plan


def wait_for_the_way_back(client: Client, seq: int) -> None:
    while True:
        undo = client.plan(seq).steps["fetch"].undo
        if undo is not None and undo.done > PHOTOS // 4:
            return
        time.sleep(0.2)


async def draw(uri: str, database: str, seq: int) -> str:
    source = LiveSource(StoreConfig(uri, database), Board(database))
    app = ObserverApp(source, Settings(zone=UTC))
    async with app.run_test(size=(120, 36)) as pilot:
        await pilot.press("0")
        while not app.stage.ledger.plans:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        app.hands.pages.open_plan(seq)
        while not isinstance(app.screen, ListPage):  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await pilot.pause()
        app.overview.flush()
        await pilot.pause()
        return export.screen(app, app.stage, ".svg")


def main(database: str) -> None:
    command = [str(Path(sys.executable).with_name("tontine")), "node", __file__, "--name", "ada"]
    node = subprocess.Popen([*command, "--processes", "2", "--database", database])
    try:
        uri = resolve(StoreConfig())
        with Client(uri, database=database) as client:
            seq = client.submit_plan(album()).seq
            assert seq is not None
            wait_for_the_way_back(client, seq)
        PICTURE.write_text(asyncio.run(draw(uri, database, seq)), encoding="utf-8")
    finally:
        node.terminate()
        node.wait()


if __name__ == "__main__":
    main(sys.argv[1])
