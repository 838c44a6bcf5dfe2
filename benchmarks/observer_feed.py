"""What an observer costs below its screen: `python -m benchmarks.observer_feed [--rate 2000] [--seconds 20]`.

A feed and its board on a real MongoDB, while another process makes changes: processor time a change, how late changes
arrive, memory over time. Then what three observers cost a node's throughput, and what one reads from the server.
Ratios count; seconds belong to the machine.
"""

from __future__ import annotations

import asyncio
import resource
import statistics
import subprocess
import sys
import tempfile
import time
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import click
from pymongo import MongoClient

from tests.support.cluster import ROOT, Cluster
from tests.support.feeding import until
from tontine import Client, embedded
from tontine.config import StoreConfig
from tontine.store import schema
from tontine.store.call import Store
from tontine_observer.board import Board
from tontine_observer.feed import Feed
from tontine_observer.told import Deltas, Told

WARM_UP = 3.0


@dataclass(frozen=True, slots=True)
class Cost:
    """What was measured at one rate."""

    heard: float
    """Changes a second."""
    busy: float
    """Part of one core."""
    lag_p50: float
    lag_p95: float
    grown: float
    """Memory at the end, of that after the warm-up."""
    mode: str

    @property
    def each(self) -> float:
        """Microseconds of processor time a change."""
        return 1e6 * self.busy / self.heard if self.heard else 0.0


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


async def measure(uri: str, database: str, seconds: float) -> Cost:
    """Follow the changes for a while, drawing a picture ten times a second as a screen would ask for one."""
    board, heard, lags = Board(database), 0, []

    def note(told: Told) -> None:
        nonlocal heard
        if isinstance(told, Deltas):
            heard += len(told.deltas)

    board.taps.append(note)
    feed = Feed(StoreConfig(uri, database), board)
    await feed.start()
    await until(lambda: board.link.is_fresh)
    await asyncio.sleep(WARM_UP)
    memory, began, cpu, first = _memory(), time.monotonic(), time.process_time(), heard
    while time.monotonic() - began < seconds:
        await asyncio.sleep(0.1)
        if board.link.lag is not None:
            lags.append(board.link.lag)
    passed = time.monotonic() - began
    cost = Cost(
        heard=(heard - first) / passed,
        busy=(time.process_time() - cpu) / passed,
        lag_p50=statistics.median(lags) if lags else 0.0,
        lag_p95=sorted(lags)[int(0.95 * len(lags))] if lags else 0.0,
        grown=_memory() / memory,
        mode=board.link.mode,
    )
    await feed.stop()
    return cost


def _memory() -> int:
    return resource.getrusage(resource.RUSAGE_SELF).ru_maxrss


def at_rate(client: MongoClient[dict[str, Any]], uri: str, rate: float, seconds: float) -> Cost:
    database = f"load_{rate:.0f}"
    from benchmarks.load import prepare

    prepare(Store(client[database]))
    with load(uri, database, rate, seconds + WARM_UP + 15):
        cost = asyncio.run(measure(uri, database, seconds))
    client.drop_database(database)
    click.echo(
        f"{rate:7,.0f} asked for: {cost.heard:7,.0f} changes/s heard, {100 * cost.busy:5.1f} % of a core, "
        f"{cost.each:5.0f} µs each, lag p50 {cost.lag_p50:.2f} s p95 {cost.lag_p95:.2f} s, "
        f"memory x {cost.grown:.2f}, {cost.mode}"
    )
    return cost


def throughput(uri: str, store: Store, directory: Path, observers: int, jobs: int) -> float:
    """Jobs a second that one node settles while observers look on."""
    cluster = Cluster(uri, store, directory)
    watching = [
        subprocess.Popen(
            [sys.executable, "-m", "tontine", "observe", "--follow", "--uri", uri, "--database", store.database.name],
            stdout=subprocess.PIPE,
            cwd=ROOT,
        )
        for _ in range(observers)
    ]
    try:
        cluster.start("ada")
        readers = [_drain(process) for process in watching]
        with Client(uri, database=store.database.name) as client:
            client.wait(client.submit_many("story.double", [{"x": 1}] * 200), timeout=60)
            began = time.monotonic()
            client.wait(client.submit_many("story.double", [{"x": 1}] * jobs), timeout=600)
            took = time.monotonic() - began
        del readers
        return jobs / took
    finally:
        for process in watching:
            process.kill()
            process.communicate()
        cluster.close()


def _drain(process: subprocess.Popen[bytes]) -> subprocess.Popen[bytes]:
    """Read its lines in another process, so that the pipe is never full."""
    assert process.stdout is not None
    process.stdout.readline()
    return subprocess.Popen(["cat"], stdin=process.stdout, stdout=subprocess.DEVNULL)


def reads(client: MongoClient[dict[str, Any]], seconds: float) -> float:
    """Reads a second that the server counts."""

    def count() -> int:
        counted = client.admin.command("serverStatus")["opcounters"]
        return int(counted["query"] + counted["getmore"] + counted["command"])

    before = count()
    time.sleep(seconds)
    return (count() - before) / seconds


def compare_reads(client: MongoClient[dict[str, Any]], uri: str, directory: Path) -> None:
    """An observer against an idle node, each alone with a quiet server."""
    store = Store(client["reads"])
    store.run(schema.init())
    quiet = reads(client, 10)
    cluster = Cluster(uri, store, directory)
    cluster.start("ada")
    node = reads(client, 20) - quiet
    cluster.close()

    async def look() -> float:
        feed = Feed(StoreConfig(uri, "reads"), Board("reads"))
        await feed.start()
        await asyncio.sleep(5)
        found = await asyncio.to_thread(reads, client, 20)
        await feed.stop()
        return found - quiet

    observer = asyncio.run(look())
    click.echo(f"server calls: observer {observer:.1f}/s ÷ idle node {node:.1f}/s = {observer / node:.2f}")


def compare_throughput(client: MongoClient[dict[str, Any]], uri: str, directory: Path, jobs: int) -> None:
    """One node alone, and the same with three observers."""
    speeds = []
    for observers in (0, 3):
        store = Store(client[f"throughput_{observers}"])
        store.run(schema.init())
        speeds.append(throughput(uri, store, directory, observers, jobs))
    click.echo(f"jobs/s: with 3 observers {speeds[1]:,.0f} ÷ none {speeds[0]:,.0f} = {speeds[1] / speeds[0]:.2f}")


@click.command()
@click.option("--rate", default=2000.0, help="Changes a second of the full load.")
@click.option("--seconds", default=20.0, help="How long each rate is measured.")
@click.option("--jobs", default=5000, help="Jobs for the comparison of throughput; 0 leaves it out.")
def main(rate: float, seconds: float, jobs: int) -> None:
    with tempfile.TemporaryDirectory() as home:
        directory = Path(home)
        running = embedded.start(directory)
        try:
            with MongoClient[dict[str, Any]](running.uri, tz_aware=True) as client:
                idle = at_rate(client, running.uri, 1, seconds)
                calm = at_rate(client, running.uri, rate / 20, seconds)
                busy = at_rate(client, running.uri, rate, seconds)
                click.echo(f"processor: {rate:,.0f}/s ÷ {rate / 20:,.0f}/s = {busy.busy / calm.busy:.2f}")
                click.echo(f"processor: idle ÷ {rate:,.0f}/s = {idle.busy / busy.busy:.2f}")
                compare_reads(client, running.uri, directory)
                if jobs:
                    compare_throughput(client, running.uri, directory, jobs)
        finally:
            embedded.stop(directory)


if __name__ == "__main__":
    main()
