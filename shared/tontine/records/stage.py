"""What a job keeps of its stages, and what its task saved, read tolerantly: any driver may have
written there. Pure."""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from typing import Any

AT_MOST = 32
"""Stages of a task."""


@dataclass(frozen=True, slots=True)
class StageDone:
    """A stage of a job that is done and does not run again."""

    name: str
    """As the task's code names it."""
    attempt: int = 0
    """The attempt that ran it."""
    version: str = ""
    """Of the module that ran it."""
    ms: int = 0
    """Milliseconds that it ran."""
    bytes: int = 0
    """Of its output."""
    parts: int = 0
    """How many documents of `outputs` hold that; none where it is in the job itself."""
    node: str = ""
    """The id of the node that ran it."""

    @classmethod
    def from_document(cls, document: Any) -> StageDone | None:
        if not isinstance(document, Mapping) or document.get("state") != "done":
            return None
        if not isinstance(document.get("name"), str):
            return None
        return cls(
            document["name"],
            _whole(document.get("attempt")),
            str(document.get("version") or ""),
            _whole(document.get("ms")),
            _whole(document.get("bytes")),
            _whole(document.get("parts")),
            str(document.get("node") or ""),
        )


def stages_in(value: Any) -> tuple[StageDone, ...]:
    """The field `stages` of a job, up to the first that is none."""
    found: list[StageDone] = []
    for one in value if isinstance(value, list) else ():
        stage = StageDone.from_document(one)
        if stage is None:
            break
        found.append(stage)
    return tuple(found)


def misfit(stored: Any, names: Sequence[str]) -> str | None:
    """Why a job cannot go on from what is stored with the stages that the code has now; None when
    it can (ME4)."""
    if stored is None:
        return None
    done = [stage.name for stage in stages_in(stored)]
    if not isinstance(stored, list) or len(done) != len(stored):
        return f"its field `stages` is not as nodes write it; the code has {_told(names)}"
    if len(done) < len(names) and done == list(names[: len(done)]):
        return None
    return f"the job has done {_told(done)}, and the code has {_told(names)}"


def _told(names: Sequence[str]) -> str:
    return ", ".join(name[:60] for name in names[:AT_MOST]) or "no stage"


def saved_in(value: Any) -> Any:
    """What a task saved last, out of the field `saved` of its job; None if nothing."""
    return value.get("value") if isinstance(value, Mapping) else None


def _whole(value: Any) -> int:
    is_number = isinstance(value, int) and not isinstance(value, bool)
    return value if is_number and value >= 0 else 0
