"""The demo's nodes: real `tontine node` processes with friendly names and a log file each."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ...config import StoreConfig
from ...errors import ConfigError
from ...legible import legible
from ...store import look
from ...store.call import Store
from ...testing.cluster import Cluster, NodeProcess

NAMES = ("ada", "bea", "cyd", "dee", "eli", "fay", "gus", "hal", "ivy", "jon", "kim", "lou")
LEASE = 5.0
SLOTS = 4
# The user's own settings are for the user's own nodes.
SETTINGS_ASIDE = {"TONTINE_CONFIG": os.devnull}


def make_crew(config: StoreConfig, uri: str, store: Store, directory: Path) -> Cluster:
    """No node yet, and a place for their logs."""
    options = ("--slots", str(SLOTS), "--lease", f"{LEASE:g}s", "--grace", "5s")
    return Cluster(uri, config.database, directory=directory, options=options, environment=SETTINGS_ASIDE, store=store)


def launch_next(crew: Cluster) -> NodeProcess:
    """Start the next node, without waiting for it."""
    lap, place = divmod(len(crew.nodes), len(NAMES))
    name = NAMES[place] + (str(lap + 1) if lap else "")
    return crew.launch("tontine.demo_tasks", name=name)


def refuse_company(store: Store, database: str) -> None:
    """Refuse to start beside another demo. What was killed a moment ago counts as alive until its lease ends."""
    until = time.monotonic() + LEASE + 1
    while True:
        alive = [node for node in store.run(look.read_nodes(dead=False)) if _has_lease(node)]
        if not alive:
            return
        if time.monotonic() > until:
            names = ", ".join(sorted(legible(node.get("name"), 40) for node in alive))
            raise ConfigError(
                f"nodes run in the database {database!r} already ({names}): "
                f"`tontine stop --all --database {database}` stops them, or choose another --database"
            )
        time.sleep(0.2)


def _has_lease(node: dict[str, object]) -> bool:
    until, now = node.get("lease_until"), node["now"]
    return until is not None and until > now  # type: ignore[operator]
