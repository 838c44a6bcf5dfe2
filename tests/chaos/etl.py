"""A module that comes and goes while a run lasts: a job in stages, and one that counts. Both note
what they did, to be compared with what was stored."""

from __future__ import annotations

import json
import os
import time
from collections.abc import Iterator
from contextlib import contextmanager
from random import Random
from typing import Any

from tests.chaos.tasks import note, noted_in
from tontine import Module, current_job

etl = Module("etl", version="1.0", authors=["The tests <tests@example.org>"])
orders = etl.stages("orders", max_attempts=8)

_begun: set[tuple[int, int]] = set()


@contextmanager
def _stage(name: str, *, is_last: bool = False) -> Iterator[None]:
    """The record of one stage; all that an attempt runs are one run of the job."""
    job = current_job()
    if (job.seq, job.attempt) not in _begun:
        _begun.add((job.seq, job.attempt))
        note("began")
    _write("CHAOS_STAGES", stage=name)
    yield
    if is_last:
        note("ended")


def _write(file: str, **facts: Any) -> None:
    job = current_job()
    line = {"seq": job.seq, "attempt": job.attempt, **facts}
    os.write(noted_in(file), json.dumps(line).encode() + b"\n")


@orders.extract
def fetch(rows: int, seconds: float) -> list[int]:
    with _stage("fetch"):
        time.sleep(seconds)
        return list(range(rows))


@orders.transform(timeout=60)
def clean(found: list[int], seconds: float, stumbles: int) -> dict[str, Any]:
    """Large enough to be stored apart, if there are many rows."""
    with _stage("clean"):
        time.sleep(seconds)
        if current_job().attempt <= stumbles:
            raise RuntimeError(f"attempt {current_job().attempt} stumbles")
        return {"total": sum(found), "load": "x" * (100 * len(found))}


@orders.load
def store(cleaned: dict[str, Any], rows: int, seconds: float) -> dict[str, int]:
    with _stage("store", is_last=True):
        time.sleep(seconds)
        if cleaned["total"] != sum(range(rows)):
            raise ValueError(f"{cleaned['total']} is not the sum of {rows} rows")
        return {"attempt": current_job().attempt, "pid": os.getpid()}


@etl.task
def tally(rows: int) -> dict[str, int]:
    """Counts, differently in each attempt, and notes how much."""
    note("began")
    counted = rows + Random(current_job().attempt).randrange(1000)
    _write("CHAOS_COUNTS", rows=counted)
    current_job().count("rows", counted)
    note("ended")
    return {"attempt": current_job().attempt, "pid": os.getpid()}
