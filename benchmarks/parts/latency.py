"""From submit to start: with idle workers, and with half of the slots' time taken by other jobs."""

from __future__ import annotations

import threading
import time
from collections.abc import Iterator
from contextlib import contextmanager
from statistics import quantiles

from tontine import Client
from tontine.config import StoreConfig
from tontine.errors import TontineError
from tontine.store.connect import open_store

from ..contender import Starter
from ..nodes import PROCESSES, Nodes, fresh_nodes
from ..ours import ping
from ..progress import say
from ..scene import Scene

_NAP = 0.01


def run(scene: Scene) -> None:
    plan = scene.plan
    contenders: list[Starter] = [scene.tontine, scene.bare, *scene.rivals]
    contenders = [one for one in contenders if one.name != "PgQueuer, batch 100"]
    for number in range(plan.rounds):
        for contender in contenders:
            where = f"latency, round {number + 1} of {plan.rounds}, {contender.name}"
            try:
                _note(
                    scene,
                    "idle",
                    contender.name,
                    contender.latency(plan.probes, plan.warm_up),
                    where,
                )
            except TontineError as error:
                say(f"{where}: {error}")
                scene.record.leave_out(f"{where}: {error}")
        where = f"latency at 50 % load, round {number + 1} of {plan.rounds}, Tontine"
        _note(scene, "50 % load", "Tontine", _loaded(scene), where)


def _note(scene: Scene, what: str, who: str, passed: list[float], where: str) -> None:
    cuts = quantiles(passed, n=100, method="inclusive")
    for name, value in (("p50", cuts[49]), ("p95", cuts[94]), ("p99", cuts[98])):
        scene.record.add("latency", f"{what}, {name}", who, value, "ms")
    say(f"{where}: p50 {cuts[49]:.1f}, p95 {cuts[94]:.1f}, p99 {cuts[98]:.1f} ms")


def _loaded(scene: Scene) -> list[float]:
    plan = scene.plan
    with fresh_nodes(scene.uri) as nodes:
        nodes.bring_up(modules=("benchmarks.tasks",))
        with _load(nodes, scene.uri):
            return ping(nodes, plan.warm_up + plan.loaded_probes)[plan.warm_up :]


@contextmanager
def _load(nodes: Nodes, uri: str) -> Iterator[None]:
    """Naps that come at even intervals, so many that they keep half of the slots at any time."""
    interval, ending = _NAP / (PROCESSES / 2), threading.Event()
    store = open_store(StoreConfig(uri, nodes.store.database.name))

    def submit() -> None:
        client, due = Client(store.database), time.monotonic()
        while not ending.wait(max(0.0, due - time.monotonic())):
            client.submit("nap.sleep", {"seconds": _NAP})
            due += interval

    thread = threading.Thread(target=submit, daemon=True)
    thread.start()
    try:
        yield
    finally:
        ending.set()
        thread.join()
        store.database.client.close()
