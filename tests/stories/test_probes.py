"""What watches a node from outside: `tontine nodes --check` with a database, `--live-file` without
one."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import time
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tontine.diagnose.doctor import read
from tontine.store.call import Store
from tontine.testing import NodeProcess

pytestmark = [pytest.mark.story, pytest.mark.long]


def run(cluster: Cluster, *arguments: str) -> subprocess.CompletedProcess[str]:
    mine = {"TONTINE_URI": cluster.uri, "TONTINE_DATABASE": cluster.database.name}
    command = [sys.executable, "-m", "tontine", "nodes", *arguments]
    return subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT,
        env=os.environ | mine,
        timeout=60,
        check=False,
    )


def unwell(checked: subprocess.CompletedProcess[str]) -> str:
    return checked.stdout if checked.returncode == 1 else ""


def is_well(probe: subprocess.CompletedProcess[str]) -> bool:
    return (probe.returncode, probe.stdout, probe.stderr) == (0, "ada waits for jobs\n", "")


def touched_at(live: Path) -> float:
    """0 while there is none: where the machine is slow, a lease may be over for a moment."""
    try:
        return live.stat().st_mtime
    except FileNotFoundError:
        return 0.0


def is_frozen_with(node: NodeProcess, live: Path) -> bool:
    """Freeze it; if that was at a moment without a lease, let it go on."""
    node.signal_all(signal.SIGSTOP)
    if not live.exists():
        node.signal_all(signal.SIGCONT)
    return live.exists()


def test_a_node_is_probed_through_its_life(cluster: Cluster, tmp_path: Path) -> None:
    live = tmp_path / "live"
    live.write_text("left by one that was killed")
    node = cluster.begin("ada", "--lease", "3s", "--live-file", str(live))
    cluster.wait_for_members(1)
    record = cluster.record("ada") or {}
    eventually(
        lambda: live.exists() and live.read_text() == f"{record['_id']}\n",
        what="the node's own live file",
    )
    eventually(lambda: is_well(run(cluster, "--check", "ada")), what="a node that is well")
    touched = eventually(lambda: touched_at(live), what="a live file")
    eventually(lambda: touched_at(live) > touched, what="a younger live file")

    eventually(lambda: is_frozen_with(node, live), what="a node that is frozen while it is well")
    # Nobody is there to bury it, and nothing can remove its file: what a probe sees of a frozen
    # node.
    beat_stands_still = eventually(
        lambda: unwell(run(cluster, "--check", str(record["_id"]))), what="no beat"
    )
    assert "ada has not beaten for" in beat_stands_still
    eventually(
        lambda: "lease is over;" in unwell(run(cluster, "--check", "ada")),
        what="a lease that is over",
    )
    frozen = run(cluster, "--check", "ada", "--json")
    told = orjson.loads(frozen.stdout)
    assert (frozen.returncode, told["healthy"], told["name"]) == (1, False, "ada")
    assert "its lease is over" in told["why"]
    assert live.exists()
    os.utime(live, (0, 0))

    node.signal_all(signal.SIGCONT)
    eventually(lambda: touched_at(live) > 0, what="a young live file after the thaw")
    node.signal(signal.SIGTERM)
    assert node.process.wait(60) == 0
    assert not live.exists()
    dead = run(cluster, "--check", "ada")
    assert dead.returncode == 1
    assert "ada died" in dead.stdout
    assert len(dead.stdout.splitlines()) == 1


def plant(store: Store, name: str, **facts: Any) -> None:
    store.database.nodes.insert_one(
        {"_id": f"{name}-{time.monotonic_ns()}", "name": name, "beat": 1, **facts}
    )


def test_the_list_shows_module_versions_and_says_where_they_differ(cluster: Cluster) -> None:
    for name, version in (("ada", "1.2.0"), ("bea", "1.3.0")):
        modules = [
            {"name": "shop", "version": version, "tasks": []},
            {"name": "mail", "version": "0.3", "tasks": []},
        ]
        plant(cluster.store, name, state="waiting", modules=modules)
    plant(cluster.store, "stillborn", state="dead", modules=[], died_at=datetime.now(UTC))
    listed = run(cluster)
    assert "stillborn" not in listed.stdout
    assert "1 dead node not shown (--all)" in listed.stdout + listed.stderr
    assert "mail 0.3, shop 1.2.0" in listed.stdout
    assert "! versions differ: shop 1.2.0 (ada), 1.3.0 (bea)\n" in listed.stdout


def test_a_probe_of_nobody_is_a_users_mistake(cluster: Cluster) -> None:
    ended = run(cluster, "--check", "nobody")
    assert (ended.returncode, ended.stdout) == (2, "")
    assert (
        ended.stderr
        == "tontine: there is no node named 'nobody': `tontine nodes --all` lists them\n"
    )
    assert run(cluster, "--check", "nobody", "--all").returncode == 2


def test_a_probe_looks_at_the_living_of_a_name_before_its_dead(store: Store) -> None:
    plant(store, "ada", state="dead", death="stopped")
    plant(store, "ada", state="waiting")
    plant(store, "bea", state="waiting")
    seen = store.run(read.look_at("ada")).nodes
    assert [(node.name, node.is_dead) for node in seen] == [("ada", False), ("ada", True)]
    assert store.run(read.look_at("nobody")).nodes == ()
