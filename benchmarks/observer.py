"""What the observer costs: `python -m benchmarks.observer [--only screen,rows,reads,throughput]`.

Real observers on terminals, on a real MongoDB, while other processes make changes. The ratios are
those that the observer was designed for; seconds belong to the machine. Each measurement is a
process of its own, with its own memory.
"""

from __future__ import annotations

import json
import os
import platform
import subprocess
import sys
import tempfile
import threading
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import asdict
from pathlib import Path
from typing import Any

import click
from bson import Int64
from pymongo import MongoClient

from tests.screens.terminals import terminal
from tontine.cli.output import console, write_table
from tontine.embedded import server as embedded
from tontine.store.call import Store
from tontine_observer.terminal.pace import RATES

from .load import prepare
from .onlookers import idle_reads, throughput
from .progress import say
from .report import number
from .servers import stop_when_told
from .targets import Bound, Verdict
from .watched import WARM_UP, Watched

ROOT = Path(__file__).resolve().parents[1]
INTERVAL = 1 / RATES[0]
WIDE, SMALL = (160, 48), (80, 24)
IDLE, CALM, LOADED = 0, 100, 2_000
FEW, MANY = 200, 5_000
UNTIL = 60.0
"""Memory is compared between ten and so many seconds."""
PARTS = ("screen", "rows", "reads", "throughput")

Client = MongoClient[dict[str, Any]]


@contextmanager
def load(uri: str, database: str, rate: float, seconds: float) -> Iterator[None]:
    """Changes from another process."""
    command = [sys.executable, "-m", "benchmarks.load", uri, database, str(rate), str(seconds)]
    process = subprocess.Popen(command, cwd=ROOT, stdout=subprocess.DEVNULL)
    try:
        yield
    finally:
        process.terminate()
        process.wait()


class Bench:
    """One run: what was measured, and what it is judged by."""

    def __init__(self, client: Client, uri: str, seconds: float, rounds: int, jobs: int) -> None:
        self.figures: dict[str, Any] = {}
        self.verdicts: list[Verdict] = []
        self._client, self._uri = client, uri
        self._seconds, self._rounds, self._jobs = seconds, rounds, jobs

    def screen(self) -> None:
        """The whole observer at rest and under load, small and large."""
        idle = self._watch("idle", IDLE, WIDE, self._seconds)
        calm = self._watch("100 changes/s", CALM, WIDE, self._seconds)
        loaded = self._watch("2,000 changes/s", LOADED, WIDE, max(self._seconds, UNTIL - WARM_UP))
        small = self._watch("2,000 changes/s, 80x24", LOADED, SMALL, self._seconds)
        self._judge("CPU: 2,000 / 100 changes a second", loaded.busy / calm.busy, Bound(most=1.5))
        self._judge("CPU: idle / 2,000 changes a second", idle.busy / loaded.busy, Bound(most=0.3))
        self._judge("frame cost: 80x24 / 160x48", small.frame / loaded.frame, Bound(most=0.7))
        self._judge("frame cost / interval", loaded.frame / INTERVAL, Bound(most=0.5))
        self._judge("read to paint, p95 / interval", loaded.paint / INTERVAL, Bound(most=2.5))
        self._judge("frame late, p99 / interval", loaded.lag / INTERVAL, Bound(most=0.75))
        self._judge("memory: after 60 s / after 10 s", loaded.grown, Bound(most=1.1))

    def rows(self) -> None:
        """The same changes beside few and beside many jobs that wait."""
        few, many = (
            self._watch(f"{rows:,} rows", CALM, WIDE, self._seconds, rows) for rows in (FEW, MANY)
        )
        self._judge("frame cost: 5,000 / 200 rows", many.frame / few.frame, Bound(most=1.3))

    def reads(self) -> None:
        """What is asked of the server while nothing happens."""
        observer, node = idle_reads(self._uri, max(self._seconds, 20.0))
        self.figures["server reads a second"] = {"observer": observer, "idle node": node}
        say(f"server reads: an idle observer {observer:.2f}/s, an idle node {node:.2f}/s")
        self._judge("server reads: observer / idle node", observer / node, Bound(most=2))

    def throughput(self) -> None:
        """A full backlog worked off with and without observers; another one begins each round."""
        ratios, speeds = [], []
        for number_ in range(self._rounds):
            found = {}
            for count in (0, 3) if number_ % 2 == 0 else (3, 0):
                found[count] = throughput(self._uri, self._jobs, count)
                say(
                    f"throughput, round {number_ + 1}: {count} observers, {found[count]:,.0f} "
                    "jobs/s"
                )
            speeds.append(found)
            ratios.append(found[3] / found[0])
        self.figures["jobs a second by observers"] = speeds
        self._judge("throughput: 3 observers / none", ratios, Bound(least=0.97))

    def _judge(self, target: str, found: float | list[float], bound: Bound) -> None:
        self.verdicts.append(bound.judge(target, found if isinstance(found, list) else [found]))

    def _watch(
        self, name: str, rate: int, size: tuple[int, int], seconds: float, rows: int = 0
    ) -> Watched:
        database = "bench_" + "".join(letter for letter in name if letter.isalnum())
        store = Store(self._client[database])
        prepare(store)
        if rows:
            _queue(store, rows)
        try:
            with load(self._uri, database, rate, seconds + WARM_UP + 60):
                found = watch(self._uri, database, size, seconds)
        finally:
            self._client.drop_database(database)
        self.figures[name] = asdict(found)
        say(f"{name} at {size[0]}x{size[1]}: {_told(found)}")
        return found


def watch(uri: str, database: str, size: tuple[int, int], seconds: float) -> Watched:
    """A whole observer on a terminal of that size."""
    with tempfile.TemporaryDirectory(prefix="tontine-bench-") as directory:
        file = Path(directory) / "watched.json"
        command = [
            sys.executable,
            "-m",
            "benchmarks.watched",
            uri,
            database,
            str(seconds),
            str(file),
        ]
        with terminal(command, size) as shown:
            timer = threading.Timer(seconds + WARM_UP + 60, shown.process.kill)
            timer.daemon = True
            timer.start()
            while shown.read(0.5):
                shown.written = shown.written[-4000:]
            shown.process.wait()
            timer.cancel()
        if not file.exists():
            raise click.ClickException(f"the observer ended early: {shown.text[-500:]}")
        return Watched(**json.loads(file.read_text()))


def _queue(store: Store, rows: int) -> None:
    """Jobs that wait and stay."""
    job = {"task": "load.never", "args": {}, "state": "queued", "attempt": 0, "lost": 0, "fails": 0}
    store.database.jobs.insert_many([{**job, "seq": Int64(seq)} for seq in range(1, rows + 1)])
    store.database.cluster.update_one(
        {"_id": "counter"}, {"$set": {"seq": Int64(rows)}}, upsert=True
    )


def _told(found: Watched) -> str:
    return (
        f"{found.busy:.1%} of a core, {found.heard:,.0f} changes/s heard ({found.mode}), "
        f"{found.fps:.1f} frames/s, "
        f"{1000 * found.frame:.1f} ms each, to paint p95 {1000 * found.paint:.0f} ms "
        f"({1000 * found.whole:.0f} ms from the change itself), "
        f"late p99 {1000 * found.lag:.0f} ms, {found.memory:.0f} MB x {found.grown:.2f}"
    )


def _report(bench: Bench) -> None:
    word = {True: "pass", False: "FAIL", None: ""}
    rows = [(one.target, number(one.found), one.wanted, word[one.is_met]) for one in bench.verdicts]
    write_table(("TARGET", "FOUND", "WANTED", "VERDICT"), rows, right=("FOUND",))


def _parts(_: click.Context, __: click.Parameter, value: str) -> list[str]:
    wanted = [part.strip() for part in value.split(",")]
    if unknown := [part for part in wanted if part not in PARTS]:
        raise click.BadParameter(f"there is no part {unknown[0]!r}; there are {', '.join(PARTS)}")
    return wanted


@click.command()
@click.option(
    "--only", default=",".join(PARTS), show_default=True, callback=_parts, help="Some of the parts."
)
@click.option(
    "--seconds", default=20.0, show_default=True, help="How long each screen is measured."
)
@click.option("--rounds", default=3, show_default=True, help="How often throughput is compared.")
@click.option("--jobs", default=200_000, show_default=True, help="The backlog for it.")
@click.option(
    "--out",
    type=click.Path(path_type=Path, dir_okay=False),
    default=ROOT / "benchmarks/results/observer.json",
    help="Where every figure goes, as JSON. [default: benchmarks/results/observer.json]",
)
def main(only: list[str], seconds: float, rounds: int, jobs: int, out: Path) -> None:
    """Measure what the observer costs, and judge the ratios."""
    stop_when_told()
    with tempfile.TemporaryDirectory(prefix="tontine-bench-") as home:
        uri = embedded.start(Path(home)).uri
        try:
            with Client(uri, tz_aware=True) as client:
                bench = Bench(client, uri, seconds, rounds, jobs)
                parts: dict[str, Callable[[], None]] = {
                    part: getattr(bench, part) for part in PARTS
                }
                for part in only:
                    parts[part]()
        finally:
            embedded.stop(Path(home))
    _report(bench)
    place = {"cpus": os.cpu_count(), "python": platform.python_version()}
    found = {
        "place": place,
        "figures": bench.figures,
        "targets": [asdict(one) for one in bench.verdicts],
    }
    out.parent.mkdir(parents=True, exist_ok=True)
    out.write_text(json.dumps(found, indent=2))
    console(stderr=True).print(f"written to {out}")
    if any(one.is_met is False for one in bench.verdicts):
        raise click.exceptions.Exit(1)


if __name__ == "__main__":
    main()
