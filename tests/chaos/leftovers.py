"""Processes that tasks left behind: none may outlive its worker, except those of a master that was
killed with -9."""

from __future__ import annotations

import json
from collections.abc import Collection, Iterator
from contextlib import suppress
from pathlib import Path

import psutil


def of_run(runs: Path) -> Iterator[tuple[psutil.Process, str]]:
    """Every process that nodes of this run started, itself or not, and of which of them it is."""
    for process in psutil.process_iter():
        with suppress(psutil.Error):
            environment = process.environ()
            if (
                environment.get("CHAOS_RUNS") == str(runs)
                and process.status() != psutil.STATUS_ZOMBIE
            ):
                yield process, environment.get("CHAOS_NODE", "")


def orphans(runs: Path, left: Path, killed: Collection[str]) -> list[str]:
    """What outlived the worker whose task had started it, while its node lives on."""
    there = {process.pid: process for process, _ in of_run(runs)}
    return [
        f"process {note['pid']} of {note['node']} outlived its worker {note['worker']}"
        for note in map(json.loads, left.read_text().splitlines())
        if note["pid"] in there and note["worker"] not in there and note["node"] not in killed
    ]


def survivors(runs: Path, killed: Collection[str]) -> list[str]:
    """What is there after all nodes have ended."""
    found = []
    for process, node in of_run(runs):
        with suppress(psutil.Error):
            if node not in killed:
                found.append(
                    f"process {process.pid} ({' '.join(process.cmdline())[:100]}) outlived {node}"
                )
    return found


def end(runs: Path) -> None:
    """Those of masters that were killed with -9 cannot be helped, but by us."""
    for process, _ in of_run(runs):
        with suppress(psutil.Error):
            process.kill()
