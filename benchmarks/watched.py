"""One whole observer on the terminal it is started on, watched from inside.

It is what `benchmarks.observer` starts.

`python -m benchmarks.watched URI DATABASE SECONDS FILE` draws for ten seconds, measures for so
many more, and writes what it found to the file.
"""

from __future__ import annotations

import asyncio
import json
import sys
import time
from collections.abc import Iterable, Sequence
from dataclasses import asdict, dataclass
from pathlib import Path
from typing import Any

import psutil

from tests.support.feeding import until
from tontine.clock import wall_time
from tontine.config import StoreConfig
from tontine.records.change import Delta
from tontine_observer.feed.live import LiveSource
from tontine_observer.feed.process import settle_in
from tontine_observer.model import intake
from tontine_observer.model.known import Known
from tontine_observer.picture.board import Board
from tontine_observer.terminal.app import ObserverApp
from tontine_observer.terminal.settings import Settings

WARM_UP = 10.0


@dataclass(frozen=True, slots=True)
class Watched:
    """One measurement."""

    busy: float
    """Part of one core, everything included: reading, drawing, writing to the terminal."""
    frame: float
    """Processor seconds of a frame, mean: from the board to the terminal."""
    paint: float
    """Seconds from the reading of a change to its painting, 95 of 100."""
    whole: float
    """Seconds from a change in the store to its painting, 95 of 100; of the first, middle and last
    of each answer. The server tells a change when its journal has it."""
    lag: float
    """Seconds that a frame came late, 99 of 100."""
    memory: float
    """Megabytes after ten seconds."""
    grown: float
    """Memory at the end, of that after ten seconds."""
    heard: float
    """Changes a second."""
    fps: float
    paints: int
    """Frames that changed anything."""
    mode: str


class Watch:
    """Takes the time of changes and frames, where they go by."""

    def __init__(self, app: ObserverApp) -> None:
        self.costs: list[float] = []
        self.lags: list[float] = []
        self.paint_waits: list[float] = []
        self.whole_waits: list[float] = []
        self.heard = self.paints = 0
        self._told: list[tuple[float, float]] = []
        self._drawn: list[tuple[float, float]] = []
        self._app = app
        self._take, self._flush = intake.take, app.overview.flush
        self._refresh = app.overview._compositor_refresh
        intake.take = self.take
        app.overview.flush = self.flush  # type: ignore[method-assign]
        app.overview._compositor_refresh = self.refresh  # type: ignore[method-assign]

    def take(self, known: Known, deltas: Iterable[Delta]) -> None:
        now = wall_time()
        told = list(deltas)
        self._take(known, told)
        self.heard += len(told)
        for place in (0, len(told) // 2, -1) if told else ():
            self._told.append((told[place].at + known.link.ahead, now))

    def flush(self) -> int:
        began = time.process_time()
        painted = self._flush()
        self.costs.append(time.process_time() - began)
        self.lags.append(self._app.overview.lag)
        self.paints += painted > 0
        if painted:
            self._drawn, self._told = self._drawn + self._told, []
        return painted

    def refresh(self) -> None:
        """The toolkit's part of a frame: what `flush` changed goes to the terminal."""
        began = time.process_time()
        self._refresh()
        if self.costs:
            self.costs[-1] += time.process_time() - began
        now = wall_time()
        self.whole_waits += [max(0.0, now - at) for at, _ in self._drawn]
        self.paint_waits += [max(0.0, now - read) for _, read in self._drawn]
        self._drawn = []

    def clear(self) -> None:
        self.costs, self.lags, self.paint_waits, self.whole_waits = [], [], [], []
        self.heard = self.paints = 0


async def measure(watch: Watch, board: Board, seconds: float) -> Watched:
    process = psutil.Process()
    await until(lambda: board.link.is_fresh)
    await asyncio.sleep(WARM_UP)
    watch.clear()
    memory, cpu, began = process.memory_info().rss, time.process_time(), time.monotonic()
    await asyncio.sleep(seconds)
    passed, used = time.monotonic() - began, time.process_time() - cpu
    return Watched(
        busy=used / passed,
        frame=sum(watch.costs) / max(1, len(watch.costs)),
        paint=_at(watch.paint_waits, 0.95),
        whole=_at(watch.whole_waits, 0.95),
        lag=_at(watch.lags, 0.99),
        memory=memory / 1e6,
        grown=process.memory_info().rss / memory,
        heard=watch.heard / passed,
        fps=len(watch.costs) / passed,
        paints=watch.paints,
        mode=board.link.mode,
    )


def _at(values: Sequence[float], part: float) -> float:
    return sorted(values)[int(part * (len(values) - 1))] if values else 0.0


class WatchedApp(ObserverApp):
    """Ends by itself when it has been measured."""

    def __init__(self, source: LiveSource, seconds: float, file: Path) -> None:
        super().__init__(source, Settings())
        self._seconds, self._file = seconds, file
        self._watch = Watch(self)

    async def on_mount(self) -> None:  # beside its parent's, which the toolkit calls, too
        self.run_worker(self._measure(), group="measure", exit_on_error=True)

    async def _measure(self) -> None:
        board: Any = self.source.board
        found = await measure(self._watch, board, self._seconds)
        self._file.write_text(json.dumps(asdict(found)))
        self.exit()


def main() -> None:
    uri, database, seconds, file = sys.argv[1:]
    board = Board(database)
    app = WatchedApp(LiveSource(StoreConfig(uri, database), board), float(seconds), Path(file))
    settle_in()
    app.run()


if __name__ == "__main__":
    main()
