"""What the observer's screen costs: `python -m benchmarks.observer [--seconds 20]`.

The whole observer without a terminal, on a real MongoDB, while another process makes changes. The ratios are those of
the design; seconds belong to the machine. Each measurement is a process of its own, so that memory is its own, too.
"""

from __future__ import annotations

import asyncio
import json
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import click
import psutil
from bson import Int64
from pymongo import MongoClient

from benchmarks.load import prepare
from benchmarks.observer_feed import load
from tests.support.feeding import until
from tontine import embedded
from tontine.config import StoreConfig
from tontine.store.call import Store
from tontine_observer.app import ObserverApp
from tontine_observer.board import Board
from tontine_observer.feed import Feed
from tontine_observer.live import LiveSource
from tontine_observer.pace import RATES
from tontine_observer.settings import Settings
from tontine_observer.told import Deltas, Told

ROOT = Path(__file__).resolve().parents[1]
INTERVAL = 1 / RATES[0]
WARM_UP = 5.0
FRAMES = 40
WIDE, SMALL = (160, 48), (80, 24)


@dataclass(frozen=True, slots=True)
class Taken:
    """One measurement."""

    busy: float
    """Part of one core, reading included."""
    frame: float
    """Processor seconds of drawing a frame, median."""
    whole: float
    """Seconds of drawing every pane anew, median."""
    paint: float
    """Seconds from a change's arrival to its painting, 95 of 100."""
    lag: float
    """Seconds that a frame came late, 99 of 100."""
    grown: float
    """Memory at the end, of that after the warm-up."""
    heard: float
    """Changes a second."""
    fps: float


class Watch:
    """Takes the time of changes and frames."""

    def __init__(self, app: ObserverApp, board: Board) -> None:
        self.costs: list[float] = []
        self.lags: list[float] = []
        self.waits: list[float] = []
        self.heard = 0
        self._arrived: float | None = None
        self._app = app
        self._flush = app.overview.flush
        app.overview.flush = self.flush  # type: ignore[method-assign]
        board.taps.append(self.note)

    def note(self, told: Told) -> None:
        if isinstance(told, Deltas):
            self.heard += len(told.deltas)
            self._arrived = self._arrived or time.monotonic()

    def flush(self) -> int:
        began = time.process_time()  # a frame that waits for the processor costs nothing
        painted = self._flush()
        self.costs.append(time.process_time() - began)
        self.lags.append(self._app.overview.lag)
        if self._arrived is not None:
            self.waits.append(time.monotonic() - self._arrived)
            self._arrived = None
        return painted

    def clear(self) -> None:
        self.costs, self.lags, self.waits, self.heard = [], [], [], 0


async def watch(uri: str, database: str, size: tuple[int, int], seconds: float) -> Taken:
    """The whole observer for a while."""
    board = Board(database)
    app = ObserverApp(LiveSource(StoreConfig(uri, database), board), Settings())
    seen = Watch(app, board)
    async with app.run_test(size=size):
        await until(lambda: board.link.is_fresh)
        await asyncio.sleep(WARM_UP)
        seen.clear()
        process = psutil.Process()
        memory, cpu, began = process.memory_info().rss, time.process_time(), time.monotonic()
        await asyncio.sleep(seconds)
        passed, used = time.monotonic() - began, time.process_time() - cpu
        grown = process.memory_info().rss / memory
        return Taken(
            busy=used / passed,
            frame=statistics.median(seen.costs),
            whole=_whole(app),
            paint=_at(seen.waits, 0.95),
            lag=_at(seen.lags, 0.99),
            grown=grown,
            heard=seen.heard / passed,
            fps=len(seen.costs) / passed,
        )


async def feed_alone(uri: str, database: str, seconds: float) -> float:
    """The processor time of reading alone, as part of one core."""
    board = Board(database)
    feed = Feed(StoreConfig(uri, database), board)
    await feed.start()
    await until(lambda: board.link.is_fresh)
    await asyncio.sleep(WARM_UP)
    began, cpu = time.monotonic(), time.process_time()
    await asyncio.sleep(seconds)
    busy = (time.process_time() - cpu) / (time.monotonic() - began)
    await feed.stop()
    return busy


def _whole(app: ObserverApp) -> float:
    """Processor seconds of drawing every pane, from the board to lines: it does not wait for anybody."""
    taken = []
    for _ in range(FRAMES):
        began = time.process_time()
        app.stage.whole()
        taken.append(time.process_time() - began)
    return statistics.median(taken)


def _at(values: Sequence[float], part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))] if values else 0.0


def in_a_process(kind: str, uri: str, database: str, size: tuple[int, int], seconds: float) -> Any:
    command = [sys.executable, "-m", "benchmarks.observer", kind, uri, database, f"{size[0]}x{size[1]}", str(seconds)]
    return json.loads(subprocess.run(command, cwd=ROOT, check=True, capture_output=True, text=True).stdout)


def taken_at(
    client: MongoClient[dict[str, Any]], uri: str, rate: float, size: tuple[int, int], seconds: float
) -> tuple[Taken, float]:
    """The whole observer at a rate of changes, and reading alone at the same rate."""
    database = f"screen_{rate:.0f}_{size[0]}"
    prepare(Store(client[database]))
    with load(uri, database, rate, 4 * (seconds + WARM_UP) + 60):
        taken = Taken(**in_a_process("screen", uri, database, size, seconds))
        alone = float(in_a_process("feed", uri, database, size, seconds))
    client.drop_database(database)
    click.echo(f"  {rate:5,.0f}/s at {size[0]}x{size[1]}: {_told(taken)}, reading alone {alone:.0%}")
    return taken, alone


def with_rows(client: MongoClient[dict[str, Any]], uri: str, rows: int) -> Taken:
    """The observer of a store at rest with this many queued jobs."""
    database = f"rows_{rows}"
    store = Store(client[database])
    prepare(store)
    job = {"task": "load.job", "args": {}, "state": "queued", "attempt": 0, "lost": 0, "fails": 0}
    store.database.jobs.insert_many([{**job, "seq": Int64(seq)} for seq in range(1, rows + 1)])
    store.database.cluster.update_one({"_id": "counter"}, {"$set": {"seq": Int64(rows)}}, upsert=True)
    taken = Taken(**in_a_process("screen", uri, database, WIDE, 2.0))
    client.drop_database(database)
    click.echo(f"  {rows:5,} rows: {_told(taken)}")
    return taken


def _told(taken: Taken) -> str:
    return (
        f"{taken.heard:,.0f} heard/s, {taken.fps:.1f} fps, {taken.busy:.0%} of a core, "
        f"frame {1000 * taken.frame:.1f} ms, all panes {1000 * taken.whole:.1f} ms, "
        f"to paint p95 {1000 * taken.paint:.0f} ms, late p99 {1000 * taken.lag:.0f} ms, memory x {taken.grown:.2f}"
    )


def ratios(client: MongoClient[dict[str, Any]], uri: str, seconds: float) -> list[tuple[str, float, float]]:
    """What is held against the design: name, found, limit."""
    idle, idle_read = taken_at(client, uri, 0, WIDE, seconds)
    slow, slow_read = taken_at(client, uri, 100, WIDE, seconds)
    fast, fast_read = taken_at(client, uri, 2000, WIDE, seconds)
    small, _ = taken_at(client, uri, 2000, SMALL, seconds)
    few, many = with_rows(client, uri, 200), with_rows(client, uri, 5000)
    drawing = [max(0.001, one.busy - read) for one, read in ((idle, idle_read), (slow, slow_read), (fast, fast_read))]
    return [
        ("CPU of drawing, 2,000 / 100 changes a second", drawing[2] / drawing[1], 1.5),
        ("CPU of drawing, idle / 2,000 changes a second", drawing[0] / drawing[2], 0.3),
        ("CPU with reading, 2,000 / 100 changes a second", fast.busy / slow.busy, 0.0),
        ("all panes, 5,000 / 200 rows", many.whole / few.whole, 1.3),
        ("all panes, 80x24 / 160x48", small.whole / fast.whole, 0.7),
        ("frame cost / interval at 2,000 a second", fast.frame / INTERVAL, 0.5),
        ("arrival to paint p95 / interval", fast.paint / INTERVAL, 2.5),
        ("frame late p99 / interval", fast.lag / INTERVAL, 0.75),
        ("memory at the end / after the warm-up", fast.grown, 1.1),
    ]


@click.command()
@click.argument("child", nargs=-1)
@click.option("--seconds", default=20.0, show_default=True, help="How long to measure each.")
def main(child: tuple[str, ...], seconds: float) -> None:
    if child:
        kind, uri, database, size, length = child
        if kind == "feed":
            click.echo(json.dumps(asyncio.run(feed_alone(uri, database, float(length)))))
        else:
            width, height = map(int, size.split("x"))
            click.echo(json.dumps(asdict(asyncio.run(watch(uri, database, (width, height), float(length))))))
        return
    home = Path(tempfile.mkdtemp(prefix="tontine-bench-"))
    uri = embedded.start(home).uri
    try:
        with MongoClient[dict[str, Any]](uri, tz_aware=True) as client:
            rows = ratios(client, uri, seconds)
    finally:
        embedded.stop(home)
    for name, found, limit in rows:
        verdict = "" if not limit else f"  at most {limit:<5} {'ok' if found <= limit else 'MISSED'}"
        click.echo(f"{name:<50} {found:6.2f}{verdict}")


if __name__ == "__main__":
    main()
