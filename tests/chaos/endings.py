"""How a job of each task must have ended, whatever happened to the nodes that ran it."""

from __future__ import annotations

from collections.abc import Collection, Iterator, Mapping
from typing import Any

from tontine.diagnose.audit.invariant import Finding
from tontine.records.job import LIMIT
from tontine.records.states import FINAL, JobState
from tontine.records.task_key import name_of

_ENDS_WELL = (
    *("chaos.quick", "chaos.nap", "chaos.async_nap", "chaos.flaky", "chaos.careful", "chaos.crash"),
    *("chaos.leave", "chaos.abrupt", "chaos.take", "chaos.give", "chaos.priced"),
    *("etl.orders", "etl.tally", "letters.send"),
    *("trip.pack", "trip.leg", "trip.join", "trip.back", "trip.ahead", "trip.close"),
)
_ENDS_BADLY = {
    "chaos.doomed": ("RuntimeError",),
    "chaos.overlong": ("TimeoutError",),
    "chaos.pool": ("TimeoutError",),
    "chaos.take": ("InvalidJob", "ResultTooLarge", "UnstorableResult"),
    "chaos.give": ("ResultTooLarge", "UnstorableResult"),
    "trip.leg": ("RuntimeError",),
    "trip.back": ("RuntimeError",),
}
_NO_JOB = ("InvalidJob", "InvalidArguments")
_RUNS_OF_POISON = 30
"""Each run of one that ends its worker costs it a life; a fence or a kill in the middle may give it
another."""


def judge_final(document: Mapping[str, Any]) -> Iterator[Finding]:
    """L1: it has ended."""
    seq, state = document.get("seq"), document.get("state")
    if state not in FINAL:
        yield Finding(
            "L1", f"{state or 'raw'} when all should have ended (_id {document['_id']})", seq
        )


def judge_ending(document: Mapping[str, Any]) -> Iterator[Finding]:
    """It has ended, and as its task says."""
    yield from judge_final(document)
    document = _whatever_version(document)
    seq, state = document.get("seq"), document.get("state")
    if state == JobState.DONE:
        if not _may_succeed(document):
            yield Finding(
                "L1", f"{document.get('task')} with {document.get('args')} cannot be done", seq
            )
        elif document["result"]["attempt"] != document["attempt"]:
            made = document["result"]["attempt"]
            yield Finding(
                "S2",
                f"attempt {document['attempt']} is done with the result of attempt {made}",
                seq,
            )
    elif state == JobState.FAILED and not _may_fail(document):
        yield Finding(
            "S9",
            f"{document.get('task')} failed: {document.get('error')}, lost {document.get('lost')}",
            seq,
        )


def judge_care(
    document: Mapping[str, Any], runs: int, retried: Collection[int]
) -> Iterator[Finding]:
    """A task that must not run twice has not, unless an operator asked for it; and none runs for
    ever."""
    document = _whatever_version(document)
    if document.get("task") in ("chaos.abrupt", "chaos.crash") and runs > _RUNS_OF_POISON:
        yield Finding("S9", f"ended its worker, and ran {runs} times", document["seq"])
    if document.get("task") == "chaos.careful" and runs > 1 and document["seq"] not in retried:
        yield Finding("S3", f"must not run twice, and ran {runs} times", document["seq"])


def _whatever_version(document: Mapping[str, Any]) -> Mapping[str, Any]:
    """A range says who may run a job, not how it ends."""
    task = document.get("task")
    return {**document, "task": name_of(task)} if isinstance(task, str) else document


def _is_sound(document: Mapping[str, Any]) -> bool:
    args = document.get("args")
    return (
        isinstance(document.get("task"), str)
        and isinstance(args, Mapping)
        and "unheard" not in args
    )


def _may_succeed(document: Mapping[str, Any]) -> bool:
    return (
        _is_sound(document)
        and document["task"] in _ENDS_WELL
        and not _is_poison(document["task"], document["args"])
    )


def _is_poison(task: str, args: Mapping[str, Any]) -> bool:
    """Whether it ends its worker before it has returned, each time."""
    return (task == "chaos.crash" and args["times"] > LIMIT) or (
        task == "chaos.abrupt" and not args["after"]
    )


def _had_no_descriptors(document: Mapping[str, Any]) -> bool:
    """Whether a pool could not be made: a worker that was started while the fault `starve` had its
    master has that limit for life."""
    error = document.get("error") or {}
    return document["task"] == "chaos.pool" and "[Errno 24]" in str(error.get("message"))


def _may_fail(document: Mapping[str, Any]) -> bool:
    kind = (document.get("error") or {}).get("type")
    if not _is_sound(document) or not isinstance(document.get("max_attempts", 1), int):
        return kind in _NO_JOB
    if _had_no_descriptors(document):
        return True
    if kind == "Lost":
        return bool(document["lost"] >= LIMIT or document["task"] == "chaos.careful")
    return kind in _ENDS_BADLY.get(document["task"], _NO_JOB if not _is_readable(document) else ())


def _is_readable(document: Mapping[str, Any]) -> bool:
    """Whether its `_id` and its task are text, or no text at all, rather than bytes that are
    none."""
    return "\ufffd" not in f"{document['_id']}{document['task']}"
