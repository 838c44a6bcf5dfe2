"""The screen: the board drawn once a second. It only shows; what there is to show is the board's business."""

from __future__ import annotations

import asyncio
import random
import signal
import time
from typing import ClassVar

from rich.text import Text
from textual.app import App, ComposeResult
from textual.binding import BindingType
from textual.screen import ModalScreen
from textual.widgets import DataTable, Footer, Static

from tontine.cli.output import NODE_LOOKS
from tontine.config import StoreConfig
from tontine.errors import ConfigError, StoreError
from tontine.legible import duration, legible
from tontine.store.call import AsyncStore
from tontine.store.connect import open_async_store
from tontine.store.look import count_states, hurried

from .board import Board, Pulse, Snapshot, draw
from .feed import read_snapshot
from .once import row

EVERY = 1.0
STALE_AFTER = 4.0
RETRY_FROM, RETRY_TO = 0.5, 15.0
COUNT_SHARE = 20
EVENTS_SHOWN = 50
COLUMNS = ("NODE", "STATE", "SHARE", "RUNNING", "DONE", "FAILED", "BEAT", "TICK", "HOST", "NOTE")

HELP = """\
The observer looks at the store once a second and never writes.

STATE    ◌ initializing  ○ waiting  ● working  ‖ paused  ✕ dead
SHARE    1/3 e5: of 3 members it is number 1 (from 0) in epoch 5,
         and owns every job whose seq divided by 3 leaves 1
BEAT     age of the last heartbeat
TICK     rounds of the claim loop: it must grow while BEAT is young
LIVE     the data is fresh; STALE: the store does not answer, and
         what you see is as old as it says

q quits, ? opens and closes this help"""


class Help(ModalScreen[None]):
    """What the columns and keys mean."""

    BINDINGS: ClassVar[list[BindingType]] = [("escape,question_mark,q", "dismiss", "Close")]

    def compose(self) -> ComposeResult:
        yield Static(Text(HELP), id="help")


class ObserverApp(App[None]):
    """The live board."""

    TITLE = "tontine"
    ENABLE_COMMAND_PALETTE = False
    BINDINGS: ClassVar[list[BindingType]] = [
        ("q,ctrl+c", "quit", "Quit"),
        ("question_mark", "help", "Help"),
    ]
    CSS = """
    #status { height: 1; text-style: bold; }
    #alerts { height: auto; max-height: 4; color: $warning; }
    #nodes { height: auto; max-height: 60%; }
    #flow { height: 1; margin: 1 0; }
    #events { height: 1fr; }
    Help { align: center middle; }
    #help { width: auto; height: auto; padding: 1 2; border: round $primary; background: $surface; }
    """

    def __init__(self, config: StoreConfig, answer_within: float = 10.0) -> None:
        super().__init__()
        self._answer_within = answer_within
        self._config = config
        self._board: Board | None = None
        self._seen_at = time.monotonic()
        self._trouble = ""
        self._pulse = Pulse()
        self._counts: dict[str, int] | None = None
        self._count_at = 0.0

    def compose(self) -> ComposeResult:
        yield Static(id="status")
        yield Static(id="alerts")
        table: DataTable[Text] = DataTable(id="nodes", cursor_type="row", zebra_stripes=True)
        yield table
        yield Static(id="flow")
        yield Static(id="events")
        yield Footer()

    def on_mount(self) -> None:
        self.query_one(DataTable).add_columns(*COLUMNS)
        # Ended by a signal, Textual would leave the terminal in its own mode.
        for number in (signal.SIGTERM, signal.SIGHUP):
            asyncio.get_running_loop().add_signal_handler(number, self.exit)
        self.set_interval(EVERY, self._show_status)
        self.run_worker(self._watch(), exclusive=True)
        self._show_status()

    def action_help(self) -> None:
        self.push_screen(Help())

    async def _watch(self) -> None:
        """Open the store, look at it for ever, and close it when the screen ends."""
        store: AsyncStore | None = None
        try:
            while store is None:
                try:
                    store = await asyncio.to_thread(open_async_store, self._config)
                except ConfigError as error:  # the embedded MongoDB does not start
                    await self._rest_after(error, RETRY_TO)
            await self._look_for_ever(store)
        finally:
            if store is not None:
                await store.database.client.close()

    async def _look_for_ever(self, store: AsyncStore) -> None:
        """A store that is away is asked again, less and less often."""
        pause = RETRY_FROM
        while True:
            try:
                snapshot = await store.run(hurried(read_snapshot(await self._count(store)), self._answer_within))
            except (StoreError, ConfigError) as error:
                await self._rest_after(error, pause)
                pause = min(pause * 2, RETRY_TO)
            else:
                pause = RETRY_FROM
                self._take(snapshot)
                await asyncio.sleep(EVERY)

    async def _rest_after(self, error: Exception, pause: float) -> None:
        self._trouble = legible(error, 160)
        self._show_status()
        await asyncio.sleep(pause * random.uniform(0.8, 1.2))  # noqa: S311

    async def _count(self, store: AsyncStore) -> dict[str, int]:
        """The jobs by state. Counting reads them all: the more there are, the less often it is done."""
        began = time.monotonic()
        if self._counts is None or began >= self._count_at:
            self._counts = await store.run(hurried(count_states(), self._answer_within))
            self._count_at = time.monotonic() + COUNT_SHARE * (time.monotonic() - began)
        return self._counts

    def _take(self, snapshot: Snapshot) -> None:
        self._board = draw(snapshot, self._pulse.note(snapshot.nodes))
        self._seen_at = time.monotonic()
        self._trouble = ""
        self._show(self._board)

    def _show_status(self) -> None:
        parts = [f"tontine · {self._config.database}"]
        if self._board is not None:
            parts.append(f"epoch {self._board.epoch}  members {len(self._board.members)}")
            states = self._board.states()
            parts.append("  ".join(f"{glyph} {states.get(state, 0)}" for state, (glyph, _) in NODE_LOOKS.items()))
        age = time.monotonic() - self._seen_at
        is_stale = bool(self._trouble) or age > STALE_AFTER
        if is_stale:
            parts.append(f"STALE {duration(age)}: {self._trouble or 'no answer yet'}")
        else:
            parts.append("LIVE" if self._board is not None else "connecting ...")
        self.query_one("#status", Static).update(Text("   ".join(parts), style="red" if is_stale else ""))

    def _show(self, board: Board) -> None:
        self._show_status()
        self.query_one("#alerts", Static).update(Text("\n".join(f"! {alert.text}" for alert in board.alerts)))
        flow = "   ".join(f"{state} {number:,}" for state, number in board.counts.items())
        self.query_one("#flow", Static).update(Text(f"jobs   {flow}   last seq {board.seq:,}"))
        events = [f"{at.astimezone():%H:%M:%S}  {text}" if at else text for at, text in reversed(board.events)]
        self.query_one("#events", Static).update(Text("\n".join(events[:EVENTS_SHOWN]), no_wrap=True))
        self._show_nodes(board)

    def _show_nodes(self, board: Board) -> None:
        table: DataTable[Text] = self.query_one(DataTable)
        place = table.cursor_row
        table.clear()
        for node in board.nodes:
            table.add_row(*(cell if isinstance(cell, Text) else Text(str(cell)) for cell in row(node)), key=node.id)
        table.move_cursor(row=min(place, max(0, len(board.nodes) - 1)))
