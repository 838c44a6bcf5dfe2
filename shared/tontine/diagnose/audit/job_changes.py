"""Follows every job from change to change, and keeps of each only what the next change is judged
by."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from ...records.change import Delta, DeltaKind
from ...records.states import OPEN, JobState
from .invariant import Finding
from .job_moves import Before, Facts, judge_counts, judge_move, judge_numbering, went_back
from .plan_changes import plan_of

_VALUES = ("seq", "state", "attempt", "node", "fails", "lost", "finished_at")
_MARKS = ("result", "error", "cancel")
_NAMES = (*_VALUES, *_MARKS)
_UNKNOWN = ...


class JobChanges:
    """What is known of each job. A field is missing where it is not known, and None where the
    document has none."""

    def __init__(self, is_alive: Callable[[str], bool]) -> None:
        self.put_back: set[int] = set()
        self._is_alive = is_alive
        self._known: dict[str, tuple[Any, ...]] = {}
        self._claimed_at: dict[str, float] = {}
        self._seqs: dict[int, str] = {}

    def see(self, change: Delta) -> Iterator[Finding]:
        key = repr(change.id)
        before = _unpacked(self._known.pop(key, ()))
        claimed_at = self._claimed_at.pop(key, None)
        if change.kind is DeltaKind.GONE:
            yield from _judge_removal(change, before)
            return
        after = _after(change, before)
        self._known[key] = _packed(after)
        if after.get("state") == JobState.WORKING:
            if _is_claim(change, before):
                claimed_at = change.at
            if claimed_at is not None:
                self._claimed_at[key] = claimed_at
        yield from self._judge_seq(change, key)
        if before:
            seq = after.get("seq") if before.get("seq") is None else before["seq"]
            for invariant, fact in self._judge(change, Before(before, claimed_at), after):
                yield Finding(invariant, fact, seq)

    def _judge_seq(self, change: Delta, key: str) -> Iterator[Finding]:
        seq = change.fields.get("seq")
        if isinstance(seq, int) and (owner := self._seqs.setdefault(seq, key)) != key:
            yield Finding("S7", f"given to {owner} and to {change.id!r}", seq)

    def _judge(self, change: Delta, before: Before, after: Facts) -> Iterator[tuple[str, str]]:
        was = before.facts
        if was.get("seq") is None and ("seq" in was or "seq" in change.fields):
            # Until it has a number it is whoever inserted it who may do with it what they like.
            if "seq" in was and after.get("seq") is not None:
                yield from judge_numbering(after)
            return
        if "seq" in was and after.get("seq") != was["seq"]:
            yield "S7", f"its seq became {after.get('seq')}"
        is_retried = went_back(was, after) and plan_of(change.id) is None
        if is_retried and isinstance(seq := after.get("seq"), int):
            self.put_back.add(seq)
        yield from judge_counts(was, after)
        if "state" in was:
            yield from judge_move(change, before, after, self._is_alive)


def _judge_removal(change: Delta, before: Facts) -> Iterator[Finding]:
    """Only what has ended may go; of a plan also what came too late."""
    if plan_of(change.id) is not None and before.get("state") == JobState.QUEUED:
        return
    if "seq" in before and before["seq"] is None:
        yield Finding("S1", f"the job with _id {change.id!r} was removed before it had a number")
    elif before.get("state") in OPEN:
        yield Finding("S1", f"removed while {before['state']}", before.get("seq"))


def _is_claim(change: Delta, before: Facts) -> bool:
    """Whether a change that left a job working made it so: a whole document may say again what it
    was."""
    return before.get("state") == JobState.QUEUED or (
        not change.is_whole and "state" in change.fields
    )


def _after(change: Delta, before: Facts) -> dict[str, Any]:
    """What is known after a change. Results and errors may be large: it only matters whether there
    is one."""
    after = dict.fromkeys(_NAMES) if change.is_whole else dict(before)
    for name in change.touched & set(_NAMES):
        if name in change.removed:
            after[name] = None
        else:
            after[name] = True if name in _MARKS else change.fields.get(name)
    if after.get("state") is not None:
        after["state"] = str(after["state"])  # whatever it is, it can be looked up
    return after


def _packed(facts: Facts) -> tuple[Any, ...]:
    values = (facts.get(name, _UNKNOWN) for name in _NAMES)
    return tuple(sys.intern(value) if type(value) is str else value for value in values)


def _unpacked(packed: tuple[Any, ...]) -> dict[str, Any]:
    return {
        name: value for name, value in zip(_NAMES, packed, strict=False) if value is not _UNKNOWN
    }
