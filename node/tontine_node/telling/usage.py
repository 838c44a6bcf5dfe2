"""What a node takes of its machine."""

from __future__ import annotations

import os
from collections.abc import Collection
from typing import Any

import psutil


class Usage:
    """CPU and memory of the master and its workers. Asked in the heartbeat's thread."""

    def __init__(self) -> None:
        self._processes: dict[int, psutil.Process] = {}

    def metrics(self, workers: Collection[int]) -> dict[str, Any]:
        """For the node's record; 1.0 of `cpu` is one core."""
        pids = [os.getpid(), *workers]
        cpu, memory = 0.0, 0
        for pid in pids:
            try:
                process = self._processes.setdefault(pid, psutil.Process(pid))
                cpu += process.cpu_percent() / 100
                memory += process.memory_info().rss
            except (
                psutil.Error,
                OSError,
            ):  # it has ended, or no file can be opened: no reason not to beat
                continue
        self._processes = {pid: process for pid, process in self._processes.items() if pid in pids}
        return {"cpu": round(cpu, 3), "memory": memory, "host": _host()}


def _host() -> dict[str, Any]:
    """What all of the machine's processes take of it; 1.0 of `cpu` is all of its cores."""
    try:
        memory = psutil.virtual_memory()
        cpu = round(psutil.cpu_percent() / 100, 3)
    except (psutil.Error, OSError):  # as above
        return {}
    return {"cpu": cpu, "memory": memory.total, "memory_used": memory.total - memory.available}
