"""The demo's jobs: a steady, varied stream, submitted by a thread until it is told to stop."""

from __future__ import annotations

import random
import threading
from collections.abc import Mapping
from typing import Any

from ...errors import TontineError
from ...store import insert
from ...store.call import Store
from ...store.insert import Wish

EVERY = 0.25
_NAMES = ("Ada", "Grace", "Alan", "Edsger", "Barbara", "Donald", "Leslie", "Frances")


def sample(chance: random.Random) -> tuple[str, dict[str, Any]]:
    """One job of the stream: mostly quick ones, some slow, some that fail."""
    kind = chance.choices(
        ("add", "greet", "resize", "report", "backup", "fetch", "charge"), (25, 25, 25, 5, 5, 10, 5)
    )[0]
    args: dict[str, dict[str, Any]] = {
        "add": {"a": chance.randint(1, 99), "b": chance.randint(1, 99)},
        "greet": {"name": chance.choice(_NAMES)},
        "resize": {
            "image": f"photo-{chance.randint(1, 999)}.jpg",
            "width": chance.choice((320, 800, 1600)),
        },
        "report": {"pages": chance.randint(5, 12)},
        "backup": {"files": chance.randint(10, 25)},
        "fetch": {
            "url": f"https://example.org/{chance.randint(1, 99)}",
            "fails": chance.choice((0, 1, 2)),
        },
        "charge": {
            "card": chance.choice((*["valid"] * 5, "expired")),
            "amount": chance.randint(1, 500),
        },
    }
    return f"demo.{kind}", args[kind]


def is_as_designed(document: Mapping[str, Any]) -> bool:
    """Whether a job that failed was meant to."""
    args = document.get("args")
    return (
        document.get("task") == "demo.charge"
        and isinstance(args, Mapping)
        and args.get("card") == "expired"
    )


class JobStream:
    """Submits two jobs every quarter of a second."""

    def __init__(self, store: Store) -> None:
        self.submitted = 0
        self.first: int | None = None
        self.last = 0
        self._store = store
        self._stopping = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="demo-stream")

    def start(self) -> None:
        self._thread.start()

    def stop(self) -> None:
        self._stopping.set()
        if self._thread.is_alive():
            self._thread.join(10)

    def _run(self) -> None:
        chance = random.Random()  # noqa: S311
        while not self._stopping.wait(EVERY):
            for _ in range(2):
                task, args = sample(chance)
                try:
                    job = self._store.run(insert.submit(Wish(task), args))
                except TontineError:
                    continue  # the store is away: the demo goes on when it is back
                self.submitted += 1
                self.last = job.seq or self.last
                self.first = self.first or job.seq
