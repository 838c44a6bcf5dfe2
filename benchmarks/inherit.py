"""How long until a dead node's jobs run elsewhere: `python -m benchmarks.inherit [--kills 20]
[--lease 4]`.

One node is killed with -9 while it runs a job; the time until that job starts on the other counts,
in leases. Then a node with a busy slot is asked to stop while jobs of its share wait for it; the
time until the last of them has run on the other counts, in seconds.
"""

from __future__ import annotations

import signal
import statistics
import tempfile
import time
from collections.abc import Callable
from pathlib import Path

import click
from pymongo import MongoClient

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client, Job
from tontine.embedded import server as embedded
from tontine.store import schema
from tontine.store.call import Store

from .servers import stop_when_told


def kill(cluster: Cluster, client: Client, number: int) -> float:
    """Seconds from kill -9 of the node that runs a job to that job's next start."""
    gate = cluster.directory / f"gate-{number}"
    job = client.submit("story.gate", {"path": str(gate)})
    assert job.seq is not None
    seq = job.seq
    eventually(lambda: cluster.runs("began")[seq] == 1, 30, "it runs")
    holder = eventually(lambda: client.get(seq).node, 30, "its holder")
    name = holder.rsplit("-", 1)[0]
    node = next(node for node in reversed(cluster.nodes) if node.name == name)
    began = time.monotonic()
    node.signal_all(signal.SIGKILL)
    eventually(lambda: cluster.runs("began")[seq] == 2, 60, "it runs again")
    took = time.monotonic() - began
    gate.touch()
    client.wait(job, timeout=60)
    return took


def stop(cluster: Cluster, client: Client, name: str, number: int) -> float:
    """Seconds from SIGTERM to a node that is busy, to the start elsewhere of all jobs that waited
    for it."""
    node = next(node for node in reversed(cluster.nodes) if node.name == name)
    gates = {job.seq: path for job, path in _two_gates(cluster, client, number)}
    eventually(
        lambda: all(cluster.runs("began")[seq or 0] for seq in gates), 30, "both nodes are busy"
    )
    (its_own,) = [
        path
        for seq, path in gates.items()
        if (client.get(seq or 0).node or "").startswith(f"{name}-")
    ]
    for path in set(gates.values()) - {its_own}:
        path.touch()
    waiting = {job.seq for job in client.submit_many("story.double", [{"x": x} for x in range(6)])}
    began = time.monotonic()
    node.signal(signal.SIGTERM)
    eventually(lambda: waiting <= set(cluster.runs()), 60, "all of them ran")
    took = time.monotonic() - began
    its_own.touch()
    node.process.wait(60)
    return took


def _two_gates(cluster: Cluster, client: Client, number: int) -> list[tuple[Job, Path]]:
    """A job for each node, which keeps its one slot busy until a file is there."""
    paths = [cluster.directory / f"busy-{number}-{place}" for place in "ab"]
    return [(client.submit("story.gate", {"path": str(path)}), path) for path in paths]


def told(what: str, figures: list[float], unit: str) -> None:
    if not figures:
        return
    spread = f"{min(figures):.2f} to {max(figures):.2f}"
    click.echo(
        f"{what}: median {statistics.median(figures):.2f} {unit}, {spread} ({len(figures)} times)"
    )


def repeat(times: int, what: str, one: Callable[[int], float]) -> list[float]:
    figures = []
    for number in range(times):
        figures.append(one(number))
        click.echo(f"{what} {number + 1}/{times}: {figures[-1]:.2f} s", err=True)
    return figures


@click.command()
@click.option("--kills", default=20, show_default=True)
@click.option("--stops", default=10, show_default=True)
@click.option("--lease", default=4.0, show_default=True)
def inherit(kills: int, stops: int, lease: float) -> None:
    """Measure how soon others go on with the jobs of a node that died or left."""
    stop_when_told()
    killed, stopped = measure(kills, stops, lease)
    told("kill -9 to the job's start elsewhere", [took / lease for took in killed], "leases")
    told("SIGTERM to the run elsewhere of jobs that waited", stopped, "s")


def measure(kills: int, stops: int, lease: float) -> tuple[list[float], list[float]]:
    """Seconds of each, on a MongoDB of its own."""
    with tempfile.TemporaryDirectory(prefix="tontine-bench-") as directory:
        home = Path(directory, "home")
        uri = embedded.start(home).uri
        try:
            with MongoClient[dict[str, object]](uri, tz_aware=True) as mongo:
                return _measure(Store(mongo["inherit"]), uri, Path(directory), kills, stops, lease)
        finally:
            embedded.stop(home)


def _measure(
    store: Store, uri: str, directory: Path, kills: int, stops: int, lease: float
) -> tuple[list[float], list[float]]:
    store.run(schema.init())
    cluster = Cluster(uri, store, directory)
    cluster.options = ["--lease", f"{lease}s"]
    client = Client(store.database)
    names = ["a", "b"]

    def one_kill(number: int) -> float:
        took = kill(cluster, client, number)
        alive = {node["name"] for node in cluster.records()}
        cluster.begin_all(*(name for name in names if name not in alive))
        cluster.wait_for_members(2)
        return took

    def one_stop(number: int) -> float:
        took = stop(cluster, client, "a", number)
        cluster.begin_all("a")
        cluster.wait_for_members(2)
        return took

    try:
        cluster.begin_all(*names)
        return repeat(kills, "kill", one_kill), repeat(stops, "stop", one_stop)
    finally:
        cluster.close()


if __name__ == "__main__":
    inherit()
