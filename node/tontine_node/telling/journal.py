"""What the node's log says of its jobs: one line per attempt that failed; with `--verbose` how each
one ended."""

from __future__ import annotations

import logging
from collections.abc import Callable
from datetime import UTC, datetime, timedelta
from typing import Any

from tontine.clock import wall_time
from tontine.legible import duration, legible
from tontine.records.job import LIMIT
from tontine.store.call import PLAIN
from tontine.store.raw import read
from tontine.store.settle import Outcome

from ..claims import Entry

log = logging.getLogger(__name__)

SHOWN = 300
"""Characters of an error's message in a line for people; the job has all of it."""


_WORDS = {
    "done": "is done",
    "cancelled": "was cancelled",
    "released": "was given back",
    "late": "was not started in time",
}


class Journal:
    """Told of each outcome that the store has accepted, but for plain successes, unless it is
    thorough."""

    def __init__(self, node: str, attempts_of: Callable[[Entry], int]) -> None:
        """`attempts_of` tells how many attempts of a job may fail."""
        self.node = node
        self.is_thorough = log.isEnabledFor(logging.DEBUG)
        self._attempts_of = attempts_of

    def note(self, one: Outcome, entry: Entry) -> None:
        """Write the line of one outcome; whatever is wrong with that, the outcome is settled, and
        stays so."""
        try:
            self._note(one, entry)
        except Exception:
            log.exception(
                "a job's end could not be told", extra={"event": "untold", "seq": one.seq}
            )

    def _note(self, one: Outcome, entry: Entry) -> None:
        if one.kind in ("failed", "refused") or (one.kind == "lost" and _is_last(one, entry)):
            self._failed(one, entry)
        elif one.kind in ("retry", "lost"):
            self._runs_again(one, entry)
        elif self.is_thorough:
            self._ended(one, entry)

    def _failed(self, one: Outcome, entry: Entry) -> None:
        what = f"{_job(entry)} failed for good{self._of_how_many(one, entry)}: {_error(one)}"
        sentence = f"{what}; see `tontine job {entry.seq}`"
        log.error(
            "a job failed", extra=self._facts("job-failed", one, entry) | {"sentence": sentence}
        )

    def _runs_again(self, one: Outcome, entry: Entry) -> None:
        again = f"runs again in {duration(one.delay)}" if one.delay else "runs again"
        what = "was lost" if one.kind == "lost" else "failed"
        sentence = f"{_job(entry)} {what}{self._of_how_many(one, entry)}, {again}: {_error(one)}"
        facts = self._facts(f"attempt-{'lost' if one.kind == 'lost' else 'failed'}", one, entry)
        due = datetime.fromtimestamp(wall_time(), UTC) + timedelta(seconds=one.delay)
        facts |= {"again_in": round(one.delay, 3), "run_at": due.isoformat(), "sentence": sentence}
        log.warning("an attempt failed and the job runs again", extra=facts)

    def _ended(self, one: Outcome, entry: Entry) -> None:
        words = _WORDS.get(one.kind, one.kind)
        after = f" after {duration(one.ran)}" if one.ran is not None else ""
        facts = {
            "event": f"job-{one.kind}",
            "seq": one.seq,
            "task": entry.task,
            "attempt": one.attempt,
            "ran": one.ran,
        }
        log.debug("a job ended", extra=facts | {"sentence": f"{_job(entry)} {words}{after}"})

    def _of_how_many(self, one: Outcome, entry: Entry) -> str:
        if one.kind == "lost":
            return f" with its worker ({entry.lost + 1} of {LIMIT} times)"
        if one.kind == "refused":
            return ""
        return f" (attempt {entry.fails + 1} of {self._attempts_of(entry)})"

    def _facts(self, event: str, one: Outcome, entry: Entry) -> dict[str, Any]:
        error = one.error
        return {
            "event": event,
            "seq": one.seq,
            "task": entry.task,
            "key": read(entry.raw, PLAIN).get("key") if entry.raw else None,
            "node": self.node,
            "attempt": one.attempt,
            "fails": entry.fails + (one.kind in ("failed", "retry")),
            "lost": entry.lost + (one.kind == "lost"),
            "max_attempts": self._attempts_of(entry),
            "ran": one.ran,
            "error_type": error.type if error else None,
            "error": error.message if error else None,
            "traceback": error.traceback if error else None,
        }


def _is_last(one: Outcome, entry: Entry) -> bool:
    """Whether the store gives a lost job up."""
    return one.final or entry.lost + 1 >= LIMIT


def _job(entry: Entry) -> str:
    return f"job {entry.seq} {legible(entry.task, 200)}".rstrip()


def _error(one: Outcome) -> str:
    if one.error is None:
        return "no error was given"
    message = one.error.message.strip()
    return legible(f"{one.error.type}: {message}" if message else one.error.type, SHOWN)
