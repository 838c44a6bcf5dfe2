"""`tontine job SEQ --logs`: what a job's task printed and logged."""

from __future__ import annotations

import time
from typing import TYPE_CHECKING

import click

from ..legible import legible
from ..records.states import FINAL
from .output import note, write_json

if TYPE_CHECKING:
    from ..records.job import Job
    from ..store.call import Store
    from ..store.logs import Line

LOOK_EVERY = 0.5


def write_lines(store: Store, job: Job, *, follow: bool, as_json: bool) -> None:
    """Write a job's lines; with `follow`, until it has ended: a node stores them before the
    outcome."""
    from ..store import logs, which

    seen: set[tuple[int, object, str, int]] = set()
    while True:
        for line in _unseen(store.run(logs.read_lines(job.seq, job.id)), seen):
            _write(line, as_json)
        if job.state in FINAL or not follow:
            break
        time.sleep(LOOK_EVERY)
        job = store.run(which.read_job(job))
    if not seen and not as_json:
        note(f"job {job.seq} has printed and logged nothing")


def _unseen(lines: list[Line], seen: set[tuple[int, object, str, int]]) -> list[Line]:
    """Lines not written yet. The store keeps the newest, so a place in the list is no name for a
    line."""
    fresh: list[Line] = []
    same: dict[tuple[int, object, str], int] = {}
    for line in lines:
        key = (line.attempt, line.at, line.text)
        same[key] = same.get(key, -1) + 1
        name = (*key, same[key])
        if name not in seen:
            seen.add(name)
            fresh.append(line)
    return fresh


def _write(line: Line, as_json: bool) -> None:
    if as_json:
        write_json({"attempt": line.attempt, "at": line.at, "text": line.text})
    else:
        local = line.at.astimezone()
        click.echo(f"{local:%H:%M:%S} {line.attempt}  {legible(line.text)}")
