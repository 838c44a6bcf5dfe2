"""Watches a run from the side: every change in the store, the memory of masters, and how late this
process is."""

from __future__ import annotations

import threading
import time
from collections import defaultdict

from pymongo import MongoClient

from tests.chaos.crew import Crew
from tontine.diagnose.audit.history import History
from tontine.diagnose.audit.invariant import Finding
from tontine.records.change import Delta
from tontine.store import read
from tontine.store.call import Store
from tontine.store.names import CLUSTER, JOBS, NODES, PLANS, STATES
from tontine.store.stream import changes


class Witness:
    """Judges every change as it happens."""

    def __init__(self, uri: str, database: str) -> None:
        self.findings: list[tuple[Delta, Finding]] = []
        self.trouble = ""
        self.history = History(JOBS, NODES, CLUSTER, PLANS, STATES)
        self._client: MongoClient[dict[str, object]] = MongoClient(uri, tz_aware=True)
        self._store = Store(self._client[database])
        self._until: float | None = None
        self._open = threading.Event()
        self._thread = threading.Thread(target=self._run, name="witness", daemon=True)

    def start(self) -> None:
        self._thread.start()
        assert self._open.wait(60), self.trouble

    def stop(self) -> None:
        """Take in what has already happened, and end."""
        self._until = self._store.run(read.now()).timestamp()
        self._thread.join()
        self._client.close()

    def _run(self) -> None:
        try:
            for change in changes(self._store):
                self._open.set()
                if change is not None:
                    self.findings.extend(
                        (_bare(change), finding) for finding in self.history.see(change)
                    )
                # Nodes beat all the time: there is no quiet moment to wait for.
                if self._until is not None and (change is None or change.at > self._until):
                    return
        except Exception as error:  # noqa: BLE001 - a witness that is gone has seen nothing wrong
            self.trouble = f"the witness is gone: {error!r}"
            self._open.set()


def _bare(change: Delta) -> Delta:
    """Which document it was, and when; its fields may be large."""
    return change._replace(fields={}, removed=())


class Scales:
    """Weighs the masters now and then. What grows without end shows in the processes that live
    longest."""

    def __init__(self, crew: Crew) -> None:
        self._crew = crew
        self._seen: dict[int, list[int]] = defaultdict(list)

    def weigh(self) -> None:
        for pid, size in self._crew.memory().items():
            self._seen[pid].append(size)

    @property
    def largest(self) -> int:
        return max((max(sizes) for sizes in self._seen.values()), default=0)

    @property
    def growth(self) -> float:
        """The most that a master grew from the first third of its life to the last, of those
        weighed often enough.

        By its least in each: with a large job in hand it takes more, and gives it back.
        """
        lives = [sizes for sizes in self._seen.values() if len(sizes) >= 6]
        return max(
            (min(sizes[-len(sizes) // 3 :]) / min(sizes[: len(sizes) // 3]) for sizes in lives),
            default=1.0,
        )


class Stall:
    """How long this process itself was kept from running: on a machine that stalls, others are
    innocent."""

    def __init__(self) -> None:
        self.longest = 0.0

    def sleep(self, seconds: float) -> float:
        """Sleep; for how much longer than that it took."""
        began = time.monotonic()
        time.sleep(seconds)
        late = time.monotonic() - began - seconds
        self.longest = max(self.longest, late)
        return late
