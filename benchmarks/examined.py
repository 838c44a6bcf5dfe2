"""What MongoDB looked at for the jobs of a database, by its own profiler."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass, field
from typing import Any

from pymongo.database import Database

from tontine.store.names import JOBS

LOOK_UP, CLAIM, SETTLE = "look-ups", "claims", "settlements"
_SPACE = 64 << 20


@dataclass(slots=True)
class Examined:
    """Sums over all operations of a kind."""

    operations: int = 0
    keys: int = 0
    documents: int = 0


@dataclass(slots=True)
class Profile:
    """What was examined, by kind."""

    kinds: dict[str, Examined] = field(
        default_factory=lambda: {LOOK_UP: Examined(), CLAIM: Examined(), SETTLE: Examined()}
    )

    def keys(self) -> int:
        return sum(one.keys for one in self.kinds.values())

    def read(self, database: Database[dict[str, Any]]) -> None:
        for entry in database["system.profile"].find({"ns": f"{database.name}.{JOBS}"}):
            kind = _kind(entry)
            if kind is not None:
                one = self.kinds[kind]
                one.operations += 1
                one.keys += int(entry.get("keysExamined", 0))
                one.documents += int(entry.get("docsExamined", 0))


def _kind(entry: dict[str, Any]) -> str | None:
    if entry["op"] in ("query", "getmore"):
        return LOOK_UP
    if entry["op"] != "update":
        return None
    # A claim sets fields; a settlement is a pipeline, or so long that the profiler cut it.
    return CLAIM if isinstance(entry.get("command", {}).get("u"), dict) else SETTLE


@contextmanager
def profiled(database: Database[dict[str, Any]]) -> Iterator[Profile]:
    """Profile every operation meanwhile; filled at the end."""
    profile = Profile()
    database.command("profile", 0)
    database.drop_collection("system.profile")
    database.create_collection("system.profile", capped=True, size=_SPACE)
    database.command("profile", 2)
    try:
        yield profile
    finally:
        database.command("profile", 0)
    profile.read(database)
