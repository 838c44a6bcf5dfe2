"""Documents and their changes become facts: typed, clean, and without anything that could be large. Pure."""

from __future__ import annotations

from collections.abc import Callable, Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from tontine.records.node import DEFAULT_LEASE, SILENT_AFTER
from tontine.records.share import Share
from tontine.records.states import JobState, NodeState
from tontine.records.trouble import Trouble, read_troubles

from .clean import Cleaner, mapping, moment, number, whole
from .picture import JobRow, ModuleRow


def key_of(id: Any) -> Any:
    """Something to find a document by, whatever a driver took as its `_id`."""
    try:
        hash(id)
    except TypeError:
        return repr(id)
    return id


def job_key(id: Any) -> Any:
    """The same for jobs, of which there are many: an ObjectId compares in Python, its bytes do not."""
    binary = getattr(id, "binary", None)
    return key_of(id) if binary is None else b"\x07" + binary  # BSON's own mark, to be no other's bytes


@dataclass(frozen=True, slots=True)
class NodeFact:
    """A node's record."""

    id: str
    name: str
    state: str
    desired: str
    share: Share | None
    running: int
    slots: int
    done: int
    failed: int
    cpu: float | None
    memory: int | None
    beat: int
    tick: int
    lease: float
    lease_until: float | None
    clock: float | None
    host: str
    pid: int
    version: str
    started_at: float | None
    died_at: float | None
    death: str
    modules: tuple[ModuleRow, ...]
    troubles: tuple[Trouble, ...]
    workers: int | None
    workers_wanted: int | None
    bytes: int | None

    @classmethod
    def from_document(cls, document: Mapping[str, Any], clean: Cleaner) -> NodeFact:
        metrics = mapping(document.get("metrics"))
        lease, lease_until = number(document.get("lease")) or DEFAULT_LEASE, moment(document.get("lease_until"))
        clock = moment(metrics.get("clock"))
        ahead = 0.0 if clock is None or lease_until is None else clock - (lease_until - lease)
        return cls(
            id=clean.name(document.get("_id")),
            name=clean.name(document.get("name", document.get("_id"))),
            state=clean.name(document.get("state")),
            desired=clean.name(document.get("desired", "")),
            share=_share(document.get("share")),
            running=whole(document.get("running")),
            slots=whole(document.get("slots")),
            done=whole(metrics.get("done")),
            failed=whole(metrics.get("failed")),
            cpu=number(metrics["cpu"]) if "cpu" in metrics else None,
            memory=whole(metrics["memory"]) if "memory" in metrics else None,
            beat=whole(document.get("beat")),
            tick=whole(document.get("tick")),
            lease=lease,
            lease_until=lease_until,
            clock=clock,
            host=clean.name(document.get("host", "-")),
            pid=whole(document.get("pid")),
            version=clean.name(document.get("version", "-")),
            started_at=moment(document.get("started_at")),
            died_at=moment(document.get("died_at")),
            death=clean.text(document.get("death") or ""),
            modules=_modules(document.get("modules"), clean),
            troubles=read_troubles(document.get("troubles"), ahead, clean.text),
            workers=whole(metrics["workers"]) if "workers" in metrics else None,
            workers_wanted=whole(metrics["workers_wanted"]) if "workers_wanted" in metrics else None,
            bytes=whole(metrics["bytes"]) if "bytes" in metrics else None,
        )

    @property
    def is_dead(self) -> bool:
        return self.state == NodeState.DEAD

    @property
    def beaten_at(self) -> float | None:
        """When its last heartbeat was, by the server's clock: a beat writes `lease_until`."""
        return None if self.lease_until is None else self.lease_until - self.lease

    @property
    def skew(self) -> float | None:
        """Seconds that its clock was ahead of the server's at the last heartbeat."""
        return None if self.clock is None or self.beaten_at is None else self.clock - self.beaten_at

    def beat_age(self, now: float) -> float | None:
        return None if self.is_dead or self.beaten_at is None else max(0.0, now - self.beaten_at)

    def is_silent(self, now: float) -> bool:
        return (self.beat_age(now) or 0.0) > SILENT_AFTER * self.lease

    @property
    def tasks(self) -> Iterable[str]:
        return (task for module in self.modules for task in module.tasks)


def _share(value: Any) -> Share | None:
    known = mapping(value)
    return Share(*(whole(known.get(name)) for name in ("epoch", "rank", "size"))) if known else None


def _modules(value: Any, clean: Cleaner) -> tuple[ModuleRow, ...]:
    return tuple(
        ModuleRow(
            clean.name(one.get("name", "?")),
            clean.name(one.get("version", "")),
            tuple(map(clean.name, tasks)) if isinstance(tasks := one.get("tasks"), list) else (),
        )
        for one in (value if isinstance(value, list) else ())
        if isinstance(one, Mapping)
    )


def job_row(id: Any, document: Mapping[str, Any], clean: Cleaner) -> JobRow:
    """The row of a job's document."""
    every = [clean.name(id), *_BLANK]
    _write(every, document, clean)
    return JobRow._make(every)


def changed_row(
    row: JobRow, change: Mapping[str, Any], removed: Iterable[str], clean: Cleaner, at: float | None = None
) -> JobRow:
    """The row after a change of its document: fields that were set, and names of fields that were removed.

    A change that claims the job does so `at` that time.
    """
    # Thousands of rows change every second: values by their places, and one row made of them.
    every = list(row)
    for name in removed:
        for place, value in _NOTHING.get(name, ()):
            every[place] = value
    _write(every, change, clean)
    if at is not None and every[_STATE] == JobState.WORKING and every[_ATTEMPT] != row.attempt:
        every[_CLAIMED_AT] = at
    return JobRow._make(every)


def _write(every: list[Any], change: Mapping[str, Any], clean: Cleaner) -> None:
    for name, value in change.items():
        if (plain := _PLAIN.get(name)) is not None:
            place, read = plain
            every[place] = read(value)
        elif (text := _TEXTS.get(name)) is not None:
            place, otherwise = text
            every[place] = otherwise if value is None else clean.name(value)
        elif (write := _WRITERS.get(name)) is not None:
            write(every, value, clean)


_PLACES = {name: place for place, name in enumerate(JobRow._fields)}
_STATE, _ATTEMPT, _CLAIMED_AT = (_PLACES[name] for name in ("state", "attempt", "claimed_at"))
_BLANK = JobRow(id="", seq=None, task="?", state=JobState.QUEUED.value)[1:]


def _error(every: list[Any], value: Any, clean: Cleaner) -> None:
    error = mapping(value)
    kind, message = error.get("type"), error.get("message")
    if error:
        text = clean.text(f"{kind}: {message}" if kind and message else kind or message or "")
    else:
        text = "" if value is None else clean.text(value)
    every[_PLACES["error"]] = text


def _progress(every: list[Any], value: Any, clean: Cleaner) -> None:
    known = mapping(value)
    every[_PLACES["progress"]] = number(known.get("value")) if known else None
    every[_PLACES["progress_note"]] = clean.text(known.get("note") or "")


def _progress_note(every: list[Any], value: Any, clean: Cleaner) -> None:
    every[_PLACES["progress_note"]] = clean.text(value or "")


def _seq(value: Any) -> int | None:
    return value if isinstance(value, int) else None


_READERS: dict[str, Callable[[Any], Any]] = {
    "seq": _seq,
    **dict.fromkeys(("attempt", "fails", "lost", "priority"), whole),
    "cancel": bool,
    **dict.fromkeys(("run_at", "created_at", "started_at", "finished_at"), moment),
}
_PLAIN = {name: (_PLACES[name], read) for name, read in _READERS.items()} | {
    "progress.value": (_PLACES["progress"], number)
}
_TEXTS = {
    name: (_PLACES[name], otherwise)
    for name, otherwise in {"task": "?", "state": JobState.QUEUED.value, "node": "", "key": ""}.items()
}
_WRITERS: dict[str, Callable[[list[Any], Any, Cleaner], None]] = {
    "error": _error,
    "progress": _progress,
    "progress.note": _progress_note,
}
_LACKING: dict[str, dict[str, Any]] = {
    "state": {"state": JobState.QUEUED.value},
    "node": {"node": ""},
    "key": {"key": ""},
    "cancel": {"cancel": False},
    "priority": {"priority": 0},
    "error": {"error": ""},
    "progress": {"progress": None, "progress_note": ""},
    "progress.note": {"progress_note": ""},
    **{name: {name: None} for name in ("run_at", "created_at", "started_at", "finished_at", "seq")},
}
"""What a row says when its document no longer has a field."""
_NOTHING = {name: [(_PLACES[one], value) for one, value in values.items()] for name, values in _LACKING.items()}


def with_change(document: Mapping[str, Any], change: Mapping[str, Any], removed: Iterable[str]) -> dict[str, Any]:
    """A whole document after a change, by the dotted paths that a change stream names; the old one is left alone."""
    new = dict(document)
    for path in removed:
        parent, name = _parent(new, path)
        if isinstance(parent, list):
            del parent[_place(name, parent) :]  # an array that was cut short
        else:
            parent.pop(name, None)
    for path, value in change.items():
        parent, name = _parent(new, path)
        if isinstance(parent, list):
            place = _place(name, parent)
            parent[place : place + 1] = [value]
        else:
            parent[name] = value
    return new


def _parent(document: dict[str, Any], path: str) -> tuple[dict[str, Any] | list[Any], str]:
    """The mapping or array that a dotted path leads to, copied on the way, and the name or place in it."""
    *steps, name = path.split(".")
    parent: dict[str, Any] | list[Any] = document
    for step in steps:
        inner: Any
        if isinstance(parent, list):
            place = _place(step, parent)
            inner = _copy(parent[place] if place < len(parent) else None)
            parent[place : place + 1] = [inner]
        else:
            inner = parent[step] = _copy(parent.get(step))
        parent = inner
    return parent, name


def _copy(value: Any) -> dict[str, Any] | list[Any]:
    return list(value) if isinstance(value, list) else dict(value) if isinstance(value, Mapping) else {}


def _place(name: str, array: list[Any]) -> int:
    """A place in an array, or its end when there is no such place."""
    return min(int(name), len(array)) if name.isascii() and name.isdecimal() and len(name) < 9 else len(array)
