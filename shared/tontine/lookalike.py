"""Names that mean nothing, and look as if they should: fields of a job or a plan, which another
driver does not check, and tasks.

Pure.
"""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
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
_ELSEWHERE: Mapping[str, str] = {
    **dict.fromkeys(("delay", "eta", "countdown", "run_after", "run_in", "not_before"), "run_at"),
    **dict.fromkeys(("max_age", "expires", "expires_at", "ttl"), "start_by"),
    **dict.fromkeys(("kwargs", "arguments", "params", "parameters"), "args"),
    **dict.fromkeys(("retries", "max_retries", "tries"), "max_attempts"),
    **dict.fromkeys(("time_limit", "max_time"), "timeout"),
    **dict.fromkeys(("func", "function", "task_name"), "task"),
    "prio": "priority",
}
_OF_JOBS = {"task", "args", "max_attempts", "timeout"}
# Names that other workflow systems have for what steps have.
_STEP_ELSEWHERE: Mapping[str, str] = {
    **{name: field for name, field in _ELSEWHERE.items() if field in _OF_JOBS},
    **dict.fromkeys(("depends_on", "needs", "depends", "requires", "upstream"), "after"),
    **dict.fromkeys(("optional", "allow_failure", "continue_on_error"), "may_fail"),
    **dict.fromkeys(("compensate", "compensation", "rollback"), "undo"),
    **dict.fromkeys(("max_concurrency", "concurrency", "parallel"), "at_once"),
    **dict.fromkeys(("eta", "countdown", "run_in", "run_after"), "delay"),
}
_ALIKE = 0.8
_LONGEST_TASK = 200


@dataclass(frozen=True)
class Vocabulary:
    """The fields of one kind of document."""

    written: tuple[str, ...]
    """What a producer may write."""
    known: frozenset[str] = frozenset()
    """What others write beside that."""
    elsewhere: tuple[tuple[str, str], ...] = ()
    """What other systems call some of these."""


JOB = Vocabulary(WRITTEN, _KNOWN, tuple(_ELSEWHERE.items()))
PLAN = Vocabulary(
    ("name", "steps", "finally", "key", "tenant", "priority", "on_failure", "returns"),
    frozenset({"_id", "seq", "state", "try", "rev", "cause", "error", "undo", "no_undo", "widths"})
    | {"marks", "added", "outcome", "created_at", "finished_at", "expire_at", "schedule"},
    (("prio", "priority"),),
)
STEP = Vocabulary(
    (
        *("task", "args", "take", "stream", "after", "map", "as", "chunk", "at_once", "may_fail"),
        *("undo", "delay", "max_attempts", "timeout"),
    ),
    known=frozenset({"meta"}),  # the producer's own, and no `eta`
    elsewhere=tuple(_STEP_ELSEWHERE.items()),
)


def lookalikes(names: Iterable[str], words: Vocabulary = JOB) -> dict[str, str]:
    """Those of a document's fields that mean nothing here, each with the field that was probably
    meant."""
    names = frozenset(names)
    unknown = sorted(names - words.known - {*words.written})
    meant = {name: _meant(name, words) for name in unknown}
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
def _meant(name: str, words: Vocabulary) -> str | None:
    plain, fields = _plain(name), _plain_fields(words)
    if plain in fields:
        return fields[plain]
    swapped = [known for known in fields if _is_swapped(plain, known)]
    close = swapped or (get_close_matches(plain, fields, 1, _ALIKE) if 2 < len(plain) <= 30 else [])
    return fields[close[0]] if close else None


@lru_cache
def _plain_fields(words: Vocabulary) -> dict[str, str]:
    return {
        _plain(name): field
        for name, field in (*words.elsewhere, *((name, name) for name in words.written))
    }


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
