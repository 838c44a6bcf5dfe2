"""How long until a dead node's jobs run elsewhere: `python -m benchmarks.inherit [--kills 20] [--lease 4]`.

One node is killed with -9 while it runs a job; the time until that job starts on the other counts, in leases. Then
nodes are asked to stop, and jobs that fall to the leaving node's share are submitted at that moment; the time until the
last of them has started counts, in seconds.
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
from tontine import Client, embedded
from tontine.store import schema
from tontine.store.call import Store


def kill(cluster: Cluster, client: Client, number: int) -> float:
    """Seconds from kill -9 of the node that runs a job to that job's next start."""
    gate = cluster.directory / f"gate-{number}"
    job = client.submit("story.gate", {"path": str(gate)})
    assert job.seq is not None
    seq = job.seq
    eventually(lambda: cluster.runs("began")[seq] == 1, 30, "it runs")
    holder = eventually(lambda: client.get(seq).node, 30, "its holder")
    name = holder.rsplit("-", 1)[0]
    node = next(node for node in reversed(cluster.nodes.values()) if node.name == name)
    began = time.monotonic()
    node.signal_all(signal.SIGKILL)
    eventually(lambda: cluster.runs("began")[seq] == 2, 60, "it runs again")
    took = time.monotonic() - began
    gate.touch()
    client.wait(job, timeout=60)
    return took


def stop(cluster: Cluster, client: Client, name: str) -> float:
    """Seconds from SIGTERM to the end of quick jobs of both shares that were submitted right after it."""
    node = next(node for node in reversed(cluster.nodes.values()) if node.name == name)
    began = time.monotonic()
    node.signal(signal.SIGTERM)
    client.wait(client.submit_many("story.double", [{"x": x} for x in range(20)]), timeout=60)
    took = time.monotonic() - began
    node.process.wait(60)
    return took


def told(what: str, figures: list[float], unit: str) -> None:
    if not figures:
        return
    spread = f"{min(figures):.2f} to {max(figures):.2f}"
    click.echo(f"{what}: median {statistics.median(figures):.2f} {unit}, {spread} ({len(figures)} times)")


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
    killed, stopped = measure(kills, stops, lease)
    told("kill -9 to the job's start elsewhere", [took / lease for took in killed], "leases")
    told("SIGTERM to the end of jobs of both shares", stopped, "s")


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
        cluster.start(*(name for name in names if name not in alive))
        cluster.wait_for_members(2)
        return took

    def one_stop(_: int) -> float:
        took = stop(cluster, client, "a")
        cluster.start("a")
        cluster.wait_for_members(2)
        return took

    try:
        cluster.start(*names)
        return repeat(kills, "kill", one_kill), repeat(stops, "stop", one_stop)
    finally:
        cluster.close()


if __name__ == "__main__":
    inherit()
