"""The jobs that are known at the moment, newest first. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

from ...draw.columns import Column
from ...draw.line import Line, Span
from ...draw.plot import bar
from ...draw.words import age, moment
from ...query.filters import ARGS
from ...records.job import JobRow
from ..layout import JOBS
from .alert import speaks_of
from .scene import Scene
from .searched import none, progress
from .states import job_state
from .table import Table

COLUMNS = (
    Column("seq", "SEQ", 7, 99, most=10, is_whole=True),
    Column("state", "STATE", 11, 98, is_whole=True),
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
        "since",
        "until",
        ARGS,
    }
)
METER = 10


class JobFacts(Mapping[str, str | float | None]):
    """What filters and orders ask of a job, worked out when they ask: thousands are asked one
    thing."""

    __slots__ = ("_job", "_scene")

    def __init__(self, job: JobRow, scene: Scene) -> None:
        self._job = job
        self._scene = scene

    def __getitem__(self, name: str) -> str | float | None:
        return _FACTS[name](self._job, self._scene)

    def get(self, name: str, _: object = None) -> str | float | None:
        fact = _FACTS.get(name)
        return None if fact is None else fact(self._job, self._scene)

    def values(self) -> Any:
        """What a bare word is looked for in."""
        job, names = self._job, self._scene.names
        return (job.state, job.task, names.get(job.node, job.node), job.error, job.key, job.seq)

    def __iter__(self) -> Iterator[str]:
        return iter(_FACTS)

    def __len__(self) -> int:
        return len(_FACTS)


def _node(job: JobRow, scene: Scene) -> str | None:
    return scene.names.get(job.node, job.node) if job.node else None


def _rank(job: JobRow, scene: Scene) -> float | None:
    rank = None if job.seq is None else scene.picture.roster.rank_of(job.seq, job.task)
    return None if rank is None else float(rank)


def moment_of(job: JobRow) -> float | None:
    """When it came, or ended if it has."""
    return job.finished_at if not job.is_open and job.finished_at is not None else job.created_at


def lived(job: JobRow, now: float) -> float | None:
    """Seconds since it came, or since it ended."""
    since = moment_of(job)
    return None if since is None else max(0.0, now - since)


def ran(job: JobRow, now: float) -> float | None:
    """Seconds it ran, or has been running."""
    if job.state == "working" and job.started_at is not None:
        return max(0.0, now - job.started_at)
    return job.ran


_FACTS: dict[str, Callable[[JobRow, Scene], str | float | None]] = {
    "seq": lambda job, _: job.seq,
    "state": lambda job, _: job.state,
    "task": lambda job, _: job.task,
    "node": _node,
    "attempt": lambda job, _: job.attempt,
    "fails": lambda job, _: job.fails,
    "lost": lambda job, _: job.lost,
    "age": lambda job, scene: lived(job, scene.seconds),
    "at": lambda job, _: moment_of(job),
    "ran": lambda job, scene: ran(job, scene.seconds),
    "error": lambda job, _: job.error,
    "key": lambda job, _: job.key,
    "priority": lambda job, _: job.priority,
    "rank": _rank,
}


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
    if search := progress(scene):
        return none(search)
    if scene.view.lists[JOBS].chosen:
        return "no job here matches the filter (esc clears it)"
    if scene.picture.is_past:
        return f"no job is known of {moment(scene.picture.at, scene.zone)}"
    return "no job yet: `tontine submit` makes one"


def is_found(job: JobRow, scene: Scene) -> bool:
    """Whether the store found it by this filter, and nothing was heard of it since."""
    return scene.jobs.found.get(job.id) is job and progress(scene) is not None


TABLE: Table[JobRow] = Table(
    JOBS, COLUMNS, newest_first, job_key, JobFacts, cells, _empty, FIELDS, is_found=is_found
)
