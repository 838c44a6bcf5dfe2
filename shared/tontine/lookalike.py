"""Names that mean nothing, and look as if they should: fields of a job, which another driver does
not check, and tasks.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable
from difflib import get_close_matches
from functools import lru_cache

from .legible import legible

# What a producer may write, and what nodes and this package write beside it.
WRITTEN = (
    "task",
    "args",
    "run_at",
    "start_by",
    "priority",
    "key",
    "max_attempts",
    "timeout",
    "meta",
)
_KNOWN = frozenset(WRITTEN) | {
    *(
        "_id",
        "seq",
        "state",
        "attempt",
        "fails",
        "lost",
        "cancel",
        "node",
        "progress",
        "result",
        "error",
        "errors",
    ),
    *("created_at", "started_at", "finished_at", "expire_at", "schedule", "parent", "inbox"),
    *("unique_for", "held_key", "held_until", "counts", "stages", "saved"),
    *("plan", "refused", "stopped", "more", "tenant"),
}
# Names that other queues have for the same thing.
_ELSEWHERE = {
    **dict.fromkeys(("delay", "eta", "countdown", "run_after", "run_in", "not_before"), "run_at"),
    **dict.fromkeys(("max_age", "expires", "expires_at", "ttl"), "start_by"),
    **dict.fromkeys(("kwargs", "arguments", "params", "parameters"), "args"),
    **dict.fromkeys(("retries", "max_retries", "tries"), "max_attempts"),
    **dict.fromkeys(("time_limit", "max_time"), "timeout"),
    **dict.fromkeys(("func", "function", "task_name"), "task"),
    "prio": "priority",
}
_ALIKE = 0.8
_LONGEST_TASK = 200


def lookalikes(names: Iterable[str]) -> dict[str, str]:
    """Those of a document's fields that mean nothing here, each with the field that was probably
    meant."""
    names = frozenset(names)
    unknown = sorted(names - _KNOWN)
    meant = {name: _meant(name) for name in unknown}
    return {
        name: field for name, field in meant.items() if field is not None and field not in names
    }


def tell(name: str, field: str) -> str:
    """A sentence about such a field."""
    return (
        f"its field `{legible(name, 40)}` means nothing and changes nothing: `{field}` was "
        "meant, perhaps"
    )


def near_tasks(task: str, known: Iterable[str]) -> list[str]:
    """The tasks that may have been meant: spelt alike, or of the same name in another module; the
    nearest first."""
    if len(task) > _LONGEST_TASK:
        return []
    known = sorted(known)
    own = task.rpartition(".")[2]
    return (
        get_close_matches(task, known, 3, _ALIKE)
        or [one for one in known if one.rpartition(".")[2] == own][:3]
    )


@lru_cache(1000)
def _meant(name: str) -> str | None:
    plain = _plain(name)
    if plain in _PLAIN:
        return _PLAIN[plain]
    swapped = [known for known in _PLAIN if _is_swapped(plain, known)]
    close = swapped or (get_close_matches(plain, _PLAIN, 1, _ALIKE) if 2 < len(plain) <= 30 else [])
    return _PLAIN[close[0]] if close else None


def _is_swapped(name: str, known: str) -> bool:
    """Whether two neighbours changed places, which short names look less alike for than they are:
    `taks`."""
    if len(name) != len(known):
        return False
    places = [
        place for place, (one, other) in enumerate(zip(name, known, strict=True)) if one != other
    ]
    return len(places) == 2 and places[1] == places[0] + 1 and sorted(name) == sorted(known)


def _plain(name: str) -> str:
    return name.lower().replace("_", "").replace("-", "")


_PLAIN = {
    _plain(name): field
    for name, field in (*_ELSEWHERE.items(), *((name, name) for name in WRITTEN))
}
