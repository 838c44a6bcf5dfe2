"""What a node says when it stops: what it waits for, what it ends, and what it has done."""

from __future__ import annotations

import logging
from collections.abc import Collection, Mapping

from tontine.legible import count, duration, legible
from tontine.records.task_key import name_of

log = logging.getLogger(__name__)

JOBS_SHOWN = 5


def tell_stopping(running: int, grace: float, signals: int) -> None:
    """It leaves; `signals` says how many it was told so by: an operator may have asked instead."""
    sentence = "stopping: no job runs"
    if running:
        more = "another Ctrl-C or SIGTERM" if signals else "Ctrl-C or SIGTERM, twice,"
        them = "it" if running == 1 else "them"
        waits = f"waits up to {duration(grace)} for {count(running, 'running job')}"
        sentence = f"stopping: {waits}; {more} ends {them} now and gives {them} back"
    log.info(
        "stopping",
        extra={"event": "stopping", "running": running, "grace": grace, "sentence": sentence},
    )


def tell_ending(jobs: Mapping[int, str], careful: Collection[str], why: str) -> None:
    """It does not wait for these any longer."""
    fail = sorted(seq for seq, task in jobs.items() if name_of(task) in careful)
    back = sorted(jobs.keys() - set(fail))
    parts = [
        f"gives {_named(back, jobs)} back to run again" if back else "",
        f"{_named(fail, jobs)} must not run twice and fails" if fail else "",
    ]
    sentence = f"{why}: ends what runs; " + (
        "; ".join(part for part in parts if part) or "that is nothing"
    )
    log.warning(
        "ending what runs",
        extra={"event": "ending", "back": back, "failing": fail, "sentence": sentence},
    )


def tell_stopped(done: int, failed: int, lived: float) -> None:
    """The last line of a node that stopped in order."""
    sentence = f"stopped after {duration(lived)}: {count(done, 'job')} done, {failed:,} failed"
    facts = {"event": "stopped", "done": done, "failed": failed, "lived": round(lived, 1)}
    log.info("stopped", extra=facts | {"sentence": sentence})


def _named(seqs: list[int], jobs: Mapping[int, str]) -> str:
    shown = ", ".join(f"{seq} {legible(jobs[seq], 60)}".rstrip() for seq in seqs[:JOBS_SHOWN])
    more = f" and {len(seqs) - JOBS_SHOWN:,} more" if len(seqs) > JOBS_SHOWN else ""
    return f"job{'s' if len(seqs) > 1 else ''} {shown}{more}"
