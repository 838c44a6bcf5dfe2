"""The demo's nodes: real `tontine node` processes with friendly names and a log file each."""

from __future__ import annotations

import os
import time
from pathlib import Path

from ...config import StoreConfig, home
from ...errors import ConfigError
from ...legible import legible
from ...records.node import Sighting
from ...rules.health import has_lease
from ...store import read
from ...store.call import Store
from ...testing.cluster import Cluster, NodeProcess

NAMES = ("ada", "bea", "cyd", "dee", "eli", "fay", "gus", "hal", "ivy", "jon", "kim", "lou")
LEASE = 5.0
SLOTS = 4
# The user's own settings are for the user's own nodes.
SETTINGS_ASIDE = {"TONTINE_CONFIG": os.devnull}


def log_directory(command: str) -> Path:
    """Where a command's nodes write their logs; it is made if it is not there."""
    directory = home() / command
    try:
        directory.mkdir(parents=True, exist_ok=True)
    except OSError as error:
        raise ConfigError(
            f"cannot write the nodes' logs to {directory}: {error.strerror}"
        ) from error
    return directory


def make_crew(config: StoreConfig, uri: str, store: Store, directory: Path) -> Cluster:
    """No node yet, and a place for their logs."""
    options = ("--slots", str(SLOTS), "--lease", f"{LEASE:g}s", "--grace", "5s")
    return Cluster(
        uri,
        config.database,
        directory=directory,
        options=options,
        environment=SETTINGS_ASIDE,
        store=store,
    )


def launch_next(crew: Cluster) -> NodeProcess:
    """Start the next node, without waiting for it."""
    lap, place = divmod(len(crew.nodes), len(NAMES))
    name = NAMES[place] + (str(lap + 1) if lap else "")
    return crew.launch("tontine.demo_tasks", name=name)


def refuse_company(store: Store, database: str) -> None:
    """Refuse to start beside another demo. What was killed a moment ago counts as alive until its
    lease ends."""
    until = time.monotonic() + LEASE + 1
    while True:
        nodes = map(Sighting.from_document, store.run(read.read_nodes(dead=False)))
        alive = [node for node in nodes if has_lease(node)]
        if not alive:
            return
        if time.monotonic() > until:
            names = ", ".join(sorted(legible(node.name, 40) for node in alive))
            raise ConfigError(
                f"nodes run in the database {database!r} already ({names}): "
                f"`tontine stop --all --database {database}` stops them, or choose another "
                "--database"
            )
        time.sleep(0.2)
