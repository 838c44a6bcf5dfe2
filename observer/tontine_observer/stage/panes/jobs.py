"""The jobs that are known at the moment, newest first. Pure."""

from __future__ import annotations

from collections.abc import Sequence

from tontine.records.share import rank_of

from ...draw.columns import Column
from ...draw.line import Line, Span
from ...draw.plot import bar
from ...draw.words import age, moment
from ...query.filters import Facts
from ...records.job import JobRow
from ..layout import JOBS
from .alert import speaks_of
from .scene import Scene
from .states import job_state
from .table import Table

COLUMNS = (
    Column("seq", "SEQ", 7, 99, most=10),
    Column("state", "STATE", 11, 98),
    Column("task", "TASK", 11, 80, most=18),
    Column("node", "NODE", 7, 60, most=12),
    Column("attempt", "ATT", 3, 40, is_right=True),
    Column("age", "AGE", 5, 70, is_right=True),
    Column("ran", "RAN", 5, 45, is_right=True),
    Column("note", "PROGRESS/ERROR", 15, 30, most=200, key="error"),
)
FIELDS = frozenset(
    {
        "seq",
        "state",
        "task",
        "node",
        "attempt",
        "fails",
        "lost",
        "age",
        "ran",
        "error",
        "key",
        "priority",
        "rank",
    }
)
METER = 10


def facts(job: JobRow, scene: Scene) -> Facts:
    size = scene.picture.status.members
    return {
        "seq": None if job.seq is None else float(job.seq),
        "state": job.state,
        "task": job.task,
        "node": scene.names.get(job.node, job.node) if job.node else None,
        "attempt": float(job.attempt),
        "fails": float(job.fails),
        "lost": float(job.lost),
        "age": lived(job, scene.seconds),
        "ran": ran(job, scene.seconds),
        "error": job.error,
        "key": job.key,
        "priority": float(job.priority),
        "rank": float(rank_of(job.seq, size)) if size and job.seq is not None else None,
    }


def lived(job: JobRow, now: float) -> float | None:
    """Seconds since it came, or since it ended."""
    since = job.finished_at if not job.is_open and job.finished_at is not None else job.created_at
    return None if since is None else max(0.0, now - since)


def ran(job: JobRow, now: float) -> float | None:
    """Seconds it ran, or has been running."""
    if job.state == "working" and job.started_at is not None:
        return max(0.0, now - job.started_at)
    return job.ran


def cells(job: JobRow, scene: Scene, widths: dict[str, int]) -> dict[str, Span | Line]:
    state, role = job_state(job.state, scene.glyphs)
    is_chosen = job.seq in scene.view.marked
    seq = "raw" if job.seq is None else f"#{job.seq}"
    mark = scene.glyphs.mark if is_chosen else ""
    return {
        "seq": (f"{seq}{mark}", "match" if is_chosen else "strong"),
        "state": (state, role),
        "task": (job.task, "text"),
        "node": (scene.names.get(job.node, job.node) or "-", "text" if job.node else "faint"),
        "attempt": (str(job.attempt), "warn" if job.attempt > 1 else "muted"),
        "age": (age(lived(job, scene.seconds)), "muted"),
        "ran": (age(ran(job, scene.seconds)), "text" if job.state == "working" else "muted"),
        "note": _note(job, scene, widths.get("note", 0)),
    }


def _note(job: JobRow, scene: Scene, width: int) -> Span | Line:
    if job.state == "failed" or (job.error and job.is_open):
        is_told = job.state == "failed" and speaks_of(scene, "failing")
        return job.error, "bad" if is_told else "warn"
    if job.cancel and job.state == "working":
        return "cancelling was asked for", "warn"
    if job.progress is not None and job.state == "working":
        note = job.progress_note if width >= METER + 12 else ""
        return meter(job.progress, note, scene, max(3, min(METER, width - 6)))
    if job.state == "queued" and job.run_at is not None and job.run_at > scene.seconds:
        return f"in {age(job.run_at - scene.seconds)}", "muted"
    if job.finished_at is not None and not job.is_open:
        return "", "muted"
    return ("with priority " + str(job.priority) if job.priority else ""), "muted"


def meter(value: float, note: str, scene: Scene, width: int = METER) -> Line:
    """A progress bar, its percentage and what the task said."""
    share = max(0.0, min(1.0, value))
    done = bar(share, 1.0, width, scene.glyphs)
    rest = scene.glyphs.across * (width - len(done))
    return [(done, "job.working"), (rest, "rule"), (f" {share:4.0%} ", "text"), (note, "muted")]


def newest_first(scene: Scene) -> Sequence[JobRow]:
    return _Reversed(scene.jobs.rows)


class _Reversed(Sequence[JobRow]):
    """The rows from the last to the first, without a copy of thousands of them for every frame."""

    def __init__(self, rows: Sequence[JobRow]) -> None:
        self._rows = rows

    def __len__(self) -> int:
        return len(self._rows)

    def __getitem__(self, place: int) -> JobRow:  # type: ignore[override]
        return self._rows[-1 - place]


def job_key(job: JobRow) -> str:
    return f"#{job.seq}" if job.seq is not None else job.id


def _empty(scene: Scene) -> str:
    if scene.jobs.note:
        return scene.jobs.note
    if scene.view.lists[JOBS].chosen:
        return "no job here matches the filter (esc clears it)"
    if scene.picture.is_past:
        return f"no job is known of {moment(scene.picture.at, scene.zone)}"
    return "no job yet: `tontine submit` makes one"


TABLE: Table[JobRow] = Table(JOBS, COLUMNS, newest_first, job_key, facts, cells, _empty, FIELDS)
