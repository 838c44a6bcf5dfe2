"""Follows every job from change to change, and keeps of each only what the next change is judged
by."""

from __future__ import annotations

import sys
from collections.abc import Callable, Iterator
from typing import Any

from ...records.change import Delta, DeltaKind
from ...records.job import is_whole
from ...records.states import OPEN, JobState
from ...records.task_key import has_range
from .invariant import Finding
from .job_moves import Before, Facts, judge_counts, judge_move, judge_numbering, went_back
from .plan_changes import plan_of

_VALUES = ("seq", "state", "attempt", "node", "fails", "lost", "finished_at", "task")
_MARKS = ("result", "error", "cancel")
_NAMES = (*_VALUES, *_MARKS)
_UNKNOWN = ...


class JobChanges:
    """What is known of each job. A field is missing where it is not known, and None where the
    document has none."""

    def __init__(
        self,
        is_alive: Callable[[str], bool],
        has_offered: Callable[[str, str], bool] = lambda *_: True,
        is_careful: Callable[[str, str], bool] = lambda *_: False,
    ) -> None:
        self.put_back: set[int] = set()
        self._is_alive = is_alive
        self._has_offered = has_offered
        self._is_careful = is_careful
        self._known: dict[str, tuple[Any, ...]] = {}
        self._claimed_at: dict[str, float] = {}
        self._careful: set[str] = set()
        """Jobs that are held and must not run again once they are lost, by what their holder said
        before it claimed them."""
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
                if self._is_careful(*_holding(after)):
                    self._careful.add(key)
            if claimed_at is not None:
                self._claimed_at[key] = claimed_at
        yield from self._judge_seq(change, key)
        if before:
            seq = after.get("seq") if before.get("seq") is None else before["seq"]
            for invariant, fact in self._judge(change, Before(before, claimed_at), after):
                yield Finding(invariant, fact, seq)
            for invariant, fact in self._judge_run(key, before, after, claimed_at is not None):
                yield Finding(invariant, fact, seq, str(before.get("node")))
        if after.get("state") != JobState.WORKING:
            self._careful.discard(key)

    def _judge_run(
        self, key: str, before: Facts, after: Facts, was_seen: bool
    ) -> Iterator[tuple[str, str]]:
        """An attempt that ended, of a claim that was seen: whether its node may have run it, and
        whether it may be made again."""
        if before.get("state") != JobState.WORKING or after.get("state") == JobState.WORKING:
            return
        node, task = _holding(before)
        has_run = after.get("state") == JobState.DONE or _grew("fails", before, after)
        if was_seen and has_run and has_range(task) and not self._has_offered(node, task):
            yield "MI3", f"{task} ran on {node}, which has never offered such a version"
        is_again = after.get("state") == JobState.QUEUED and _grew("lost", before, after)
        if is_again and key in self._careful:
            yield (
                "MI8",
                f"attempt {before.get('attempt')} of {task} was lost, and it is queued again",
            )

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


def _holding(facts: Facts) -> tuple[str, str]:
    return str(facts.get("node")), str(facts.get("task") or "")


def _grew(name: str, before: Facts, after: Facts) -> bool:
    was, now = before.get(name), after.get(name)
    return is_whole(was) and is_whole(now) and now > was


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
