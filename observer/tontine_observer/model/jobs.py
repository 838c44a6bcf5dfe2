"""The window of jobs: every unfinished one as far as there is room, the newest finished, and how to
undo what happened.

Changes are applied in the order of their versions, so that hearing of one twice, or of one that a
reading already contained, does no harm. Pure.
"""

from __future__ import annotations

from collections import OrderedDict, deque
from collections.abc import Iterable, Mapping
from itertools import islice
from typing import Any, NamedTuple

from tontine.records.change import LAST, NEVER, Delta, DeltaKind, Version
from tontine.records.states import JobState
from tontine.rules.health import LATEST_JOBS

from ..records.clean import Cleaner
from ..records.job import JobRow
from ..records.rows import changed_row, job_row
from ..records.values import job_key

MOVES_KEPT = 20_000
OPEN_KEPT = 20_000
ENDED_KEPT = 5_000
GRAVES_KEPT = 10_000
TASKS_KEPT = 500
"""Tasks whose latest outcomes are kept, however many jobs of others have ended since."""


class JobMoved(NamedTuple):
    """One change of one job: what it was, and what it became. None is no job."""

    at: float
    key: Any
    before: JobRow | None
    after: JobRow | None


class JobTable:
    """Rows by `_id`, and their newest moves."""

    def __init__(
        self, clean: Cleaner, *, open_kept: int = OPEN_KEPT, ended_kept: int = ENDED_KEPT
    ) -> None:
        self.rows: dict[Any, JobRow] = {}
        self.moves: deque[JobMoved] = deque(maxlen=MOVES_KEPT)
        self.is_complete = True
        """Whether every unfinished job is in the table."""
        self.known_from = 0
        """From this seq on, a number that is not in the table belongs to no job."""
        self._clean = clean
        self._open_kept = open_kept
        self._ended_kept = ended_kept
        self._versions: dict[Any, Version] = {}
        self._graves: OrderedDict[Any, Version] = OrderedDict()
        self._unfinished: dict[Any, JobRow] = {}
        self._ended: OrderedDict[Any, None] = OrderedDict()
        self._outcomes: OrderedDict[str, OrderedDict[Any, JobRow]] = OrderedDict()
        self.ended_from = 0.0
        """Jobs that ended before this moment may be left out."""
        self.found: dict[Any, JobRow] = {}
        """Rows that somebody looked for and the window would not hold, as they were found."""
        self.trusted: dict[str, JobRow] = {}
        """All rows that were found, by their ids: as long as a row is the same, what was looked for
        holds for it."""
        self.moves_from = 0.0
        """Moves are kept from this moment on."""

    def read(
        self,
        documents: Iterable[Mapping[str, Any]],
        version: Version,
        *,
        complete: bool,
        known_from: int,
    ) -> None:
        """Take in what a reading found that began at `version`; what has changed since it began
        stays."""
        self.add(documents, version)
        self.is_complete = complete
        self.known_from = max(known_from, 0)

    def add(self, documents: Iterable[Mapping[str, Any]], version: Version) -> None:
        """The same, for jobs that say nothing about the others."""
        for document in documents:
            key = job_key(document["_id"])
            if max(self._versions.get(key, NEVER), self._graves.get(key, NEVER)) > version:
                continue
            row = job_row(document["_id"], document, self._clean)
            before = self.rows.get(key)
            if before is not None and before.attempt == row.attempt:
                row = row._replace(claimed_at=before.claimed_at)
            self.found.pop(key, None)
            self._put(key, row, version)

    def add_found(self, documents: Iterable[Mapping[str, Any]], version: Version) -> None:
        """The same for jobs that somebody looked for: they stay until that is over."""
        for document in documents:
            key = job_key(document["_id"])
            if self._graves.get(key, NEVER) > version or self._versions.get(key, NEVER) > version:
                continue
            row = job_row(document["_id"], document, self._clean)
            if key not in self.rows or key in self.found:
                self.found[key] = row
                self._put(key, row, version)
            self.trusted[row.id] = self.rows[key]

    def forget_found(self) -> None:
        """Nobody looks for anything any more."""
        found, self.found, self.trusted = self.found, {}, {}
        for key in found:
            if key in self.rows and not self.rows[key].is_open:
                self._drop(key)

    def forget(self, at: float) -> None:
        """Begin again: what happens until the next reading is not known, so nothing from before
        `at` can be undone."""
        self.rows.clear()
        self._unfinished.clear()
        self._versions.clear()
        self._graves.clear()
        self._ended.clear()
        self._outcomes.clear()
        self.moves.clear()
        self.moves_from = at
        for key, row in self.found.items():
            self._put(key, row, NEVER)

    def retain(self, ids: Iterable[Any], version: Version) -> None:
        """Drop unfinished rows that a complete reading of all unfinished jobs at `version` did not
        find."""
        found = set(map(job_key, ids))
        stale = [key for key in self._unfinished if key not in found]
        for key in stale:
            if self._versions.get(key, NEVER) <= version:
                self._drop(key)

    def apply(self, delta: Delta) -> JobMoved | None:
        """Take in one change; None when it is old news, or about a job that is not in the
        window."""
        key = job_key(delta.id)
        if delta.version <= (self._versions.get(key) or self._graves.get(key, NEVER)):
            return None
        before = self.rows.get(key)
        if delta.kind is DeltaKind.GONE:
            self._bury(key, delta.version)
            return self._log(delta.at, key, before, None) if before is not None else None
        if delta.is_whole:
            after = job_row(delta.id, delta.fields, self._clean)
            if after.state == JobState.WORKING and (
                before is None or after.attempt != before.attempt
            ):
                after = after._replace(claimed_at=delta.at)
        elif before is None:
            return None
        else:
            after = changed_row(before, delta.fields, delta.removed, self._clean, delta.at)
        if before is None and after.is_open and len(self._unfinished) >= self._open_kept:
            self.is_complete = False
            return None
        self._put(key, after, delta.version)
        return self._log(delta.at, key, before, after)

    def unfinished(self) -> Iterable[JobRow]:
        """The rows that have not ended."""
        return self._unfinished.values()

    def held_by(self, node: str) -> dict[Any, JobRow]:
        """What a node holds, by `_id`."""
        return {
            key: row
            for key, row in self._unfinished.items()
            if row.node == node and row.state == JobState.WORKING
        }

    def newest_ended(self, most: int) -> list[JobRow]:
        """Those that ended last, the newest first."""
        return [self.rows[key] for key in islice(reversed(self._ended), most)]

    def outcomes(self) -> list[JobRow]:
        """Of each task those that ended last, the newest first: a task that fails is seen behind
        one that is busy."""
        return [row for rows in self._outcomes.values() for row in reversed(rows.values())]

    def as_of(self, at: float) -> dict[Any, JobRow]:
        """The rows as they were: everything after `at` undone."""
        rows = dict(self.rows)
        for moved in reversed(self.moves):
            if moved.at <= at:
                break
            if moved.before is None:
                rows.pop(moved.key, None)
            else:
                rows[moved.key] = moved.before
        return rows

    def _log(self, at: float, key: Any, before: JobRow | None, after: JobRow | None) -> JobMoved:
        if len(self.moves) == self.moves.maxlen:
            self.moves_from = self.moves[0].at
        moved = JobMoved(at, key, before, after)
        self.moves.append(moved)
        return moved

    def _put(self, key: Any, row: JobRow, version: Version) -> None:
        self.rows[key] = row
        self._versions[key] = version
        if row.is_open:
            self._unfinished[key] = row
            self._ended.pop(key, None)
            self._outcomes.get(row.task, {}).pop(key, None)
            return
        self._unfinished.pop(key, None)
        if key in self.found:
            return
        self._ended.setdefault(key)
        self._keep_outcome(key, row)
        if len(self._ended) > self._ended_kept:
            oldest = next(iter(self._ended))
            seq = self.rows[oldest].seq
            self.ended_from = max(self.ended_from, self.rows[oldest].finished_at or 0.0)
            if seq is not None:
                self.known_from = max(self.known_from, seq + 1)
            self._drop(oldest)

    def _keep_outcome(self, key: Any, row: JobRow) -> None:
        rows = self._outcomes.setdefault(row.task, OrderedDict())
        rows[key] = row
        if len(rows) > LATEST_JOBS:
            rows.popitem(last=False)
        self._outcomes.move_to_end(row.task)
        if len(self._outcomes) > TASKS_KEPT:
            self._outcomes.popitem(last=False)

    def _drop(self, key: Any) -> None:
        self.rows.pop(key, None)
        self._unfinished.pop(key, None)
        self._versions.pop(key, None)
        self._ended.pop(key, None)
        self.found.pop(key, None)

    def _bury(self, key: Any, version: Version) -> None:
        self._drop(key)
        self._graves[key] = version
        self._graves.move_to_end(key)
        if len(self._graves) > GRAVES_KEPT:
            self._graves.popitem(last=False)


def reading_version(time: tuple[int, int]) -> Version:
    """The version of a reading that began at this operation time: everything of that time is in
    it."""
    return (*time, LAST)
