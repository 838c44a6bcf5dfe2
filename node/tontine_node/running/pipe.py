"""Orders and reports: the messages between a master and its workers, each frame carrying many of
them.

A frame is two lengths, a JSON head and a body of BSON documents: a job's document goes to the
worker as MongoDB sent it, and a result comes back as MongoDB will store it, so the master decodes
neither. How a message lies in a frame is known here only.
"""

from __future__ import annotations

import asyncio
import socket
import struct
from collections.abc import Callable, Iterable, Iterator, Sequence
from dataclasses import dataclass
from typing import Any, Literal, NamedTuple

import orjson

from tontine.verdict import NoResult

_LENGTHS = struct.Struct("!II")

Head = dict[str, Any]


class Expire(NamedTuple):
    """A job has run longer than its time limit: end it, if its task is async."""

    seq: int
    limit: float


class SubmitAnswer(NamedTuple):
    """The answer to a request of a task, as BSON."""

    number: int
    answer: bytes


class PageAnswer(NamedTuple):
    """A page of results that a task streams: the documents of their jobs, one after another."""

    number: int
    error: Sequence[str] | None
    """Why there is none: the type and the text of an error."""
    jobs: bytes


class StateValue(NamedTuple):
    """A version of a named state; its value is BSON, and nothing where it was removed."""

    key: str
    version: int
    value: bytes


class StageAnswer(NamedTuple):
    """What became of the output of a job's stage."""

    seq: int
    attempt: int
    is_cancelled: bool = False
    """It is kept, and the job is to end all the same."""
    error: Sequence[str] | None = None
    """It is not kept: the attempt ends with this type and text."""


@dataclass(slots=True)
class Orders:
    """One frame to a worker."""

    run: Sequence[tuple[int, bytes]] = ()
    """The seq and the document of each job to run. Plain tuples, because they are many."""
    resume: Sequence[tuple[int, bytes]] = ()
    """What some of them have of earlier attempts, as BSON."""
    staged: Sequence[StageAnswer] = ()
    states: Sequence[StateValue] = ()
    pages: Sequence[PageAnswer] = ()
    recall: bool = False
    """Give back what no slot has begun."""
    cancel: Sequence[int] = ()
    expire: Sequence[Expire] = ()
    submitted: SubmitAnswer | None = None
    retire: bool = False
    """Close what is open and end; who has nothing to do is told so (MC1)."""

    def pack(self) -> bytes:
        head: Head = {}
        bodies: list[bytes] = []
        if self.run:
            head["run"] = [seq for seq, _ in self.run], [len(document) for _, document in self.run]
            bodies = [document for _, document in self.run]
        if self.resume:
            head["resume"] = [(seq, len(kept)) for seq, kept in self.resume]
            bodies += [kept for _, kept in self.resume]
        if self.staged:
            head["staged"] = self.staged
        if self.states:
            head["states"] = [(*one[:-1], len(one.value)) for one in self.states]
            bodies += [one.value for one in self.states]
        if self.pages:
            head["pages"] = [(*one[:-1], len(one.jobs)) for one in self.pages]
            bodies += [one.jobs for one in self.pages]
        if self.recall:
            head["recall"] = True
        if self.retire:
            head["retire"] = True
        if self.cancel:
            head["cancel"] = self.cancel
        if self.expire:
            head["expire"] = self.expire
        if self.submitted is not None:
            head["submitted"] = self.submitted.number
            bodies.append(self.submitted.answer)
        return pack(head, bodies)

    @classmethod
    def unpack(cls, head: Head, body: bytes) -> Orders:
        orders = cls(
            recall="recall" in head, cancel=head.get("cancel", ()), retire="retire" in head
        )
        orders_end = 0
        if "run" in head:
            seqs, sizes = head["run"]
            orders.run = list(zip(seqs, cut(body, sizes), strict=True))
            orders_end = sum(sizes)
        if "resume" in head:
            kept = cut(body[orders_end:], [size for _, size in head["resume"]])
            orders.resume = [(seq, one) for (seq, _), one in zip(head["resume"], kept, strict=True)]
            orders_end += sum(size for _, size in head["resume"])
        if "staged" in head:
            orders.staged = [StageAnswer(*row) for row in head["staged"]]
        if "states" in head:
            values = cut(body[orders_end:], [size for *_, size in head["states"]])
            rows = zip(head["states"], values, strict=True)
            orders.states = [StateValue(key, version, raw) for (key, version, _), raw in rows]
            orders_end += sum(size for *_, size in head["states"])
        if "pages" in head:
            jobs = cut(body[orders_end:], [size for *_, size in head["pages"]])
            rows = zip(head["pages"], jobs, strict=True)
            orders.pages = [PageAnswer(number, error, raw) for (number, error, _), raw in rows]
            orders_end += sum(size for *_, size in head["pages"])
        if "submitted" in head:
            orders.submitted = SubmitAnswer(head["submitted"], body[orders_end:])
        if "expire" in head:
            orders.expire = [Expire(*row) for row in head["expire"]]
        return orders


@dataclass(frozen=True, slots=True)
class TaskFacts:
    """What the master must know of a task; the worker says so."""

    on_lost: str = "retry"
    is_async: bool = False
    timeout: float | None = None
    max_attempts: int = 1
    delays: Sequence[float] = ()
    """Its backoff before the second attempt, the third, ..."""
    retries_timeouts: bool = True
    """Whether an attempt that ran too long is tried again, if there are attempts left."""
    saves: bool = False
    """Whether its jobs may keep something for their next attempts: stages, or what they save."""
    stage_limits: Sequence[float | None] = ()
    """The time limit of each of its stages, if it has any."""


class Hello(NamedTuple):
    """A worker has loaded its modules."""

    modules: list[dict[str, Any]]
    tasks: dict[str, TaskFacts]
    schedules: Sequence[str] = ()
    """As `declared.py` packs them."""


Phase = Literal["import", "configuration", "connection", "configure"]


class BrokenModules(NamedTuple):
    """A worker cannot get ready, and ends."""

    why: str
    phase: Phase = "import"
    """How far it came. Only the first two are mistakes that a new try cannot cure."""
    source: str = ""
    """What it was loading then, if anything."""


Done = tuple[int, float, bytes]
"""A job's seq, the seconds that it ran and its result. A plain tuple, because there are many."""


class CountedDone(NamedTuple):
    """The same of a job that has counted or observed something: that is in the row, as `Noted`
    makes it."""

    seq: int
    ran: float
    noted: list[Any]
    result: bytes


class AttemptEnded(NamedTuple):
    """A job has ended without one."""

    seq: int
    ran: float
    how: NoResult


class Returned(NamedTuple):
    """The answer to a recall: jobs that no slot has begun."""

    seqs: list[int]


class ProgressSaid(NamedTuple):
    """How far a job is."""

    seq: int
    value: float
    note: str


class PrintedLines(NamedTuple):
    """What a job printed, and when."""

    seq: int
    attempt: int
    lines: Sequence[tuple[float, str]]


class Submit(NamedTuple):
    """A task asks for jobs; the request is BSON."""

    number: int
    parent: int
    attempt: int
    request: bytes


class PageWanted(NamedTuple):
    """A task streams the results of a step, and wants those from an item on."""

    number: int
    seq: int
    attempt: int
    step: str
    first: int
    at_most: int


class StageOutput(NamedTuple):
    """A stage of a job is done; its output is BSON."""

    seq: int
    attempt: int
    place: int
    name: str
    version: str
    ms: int
    output: bytes


class SavedValue(NamedTuple):
    """What a task saved last; BSON."""

    seq: int
    attempt: int
    number: int
    value: bytes


Report = (
    Hello
    | BrokenModules
    | Done
    | CountedDone
    | AttemptEnded
    | Returned
    | ProgressSaid
    | PrintedLines
    | Submit
    | StageOutput
    | SavedValue
    | PageWanted
)


_NAMES: dict[type, str] = {
    Hello: "hello",
    BrokenModules: "broken",
    tuple: "done",
    CountedDone: "counted",
    AttemptEnded: "ended",
    Returned: "returned",
    ProgressSaid: "progress",
    PrintedLines: "lines",
    Submit: "submit",
    StageOutput: "staged",
    SavedValue: "saved",
    PageWanted: "pages",
}


_WITH_BODIES: dict[str, Callable[..., Report]] = {
    "counted": CountedDone,
    "submit": Submit,
    "staged": StageOutput,
    "saved": SavedValue,
}
"""Reports whose last field goes into the frame's body, in this order."""


def size_of(report: Report) -> int:
    """Bytes that a report takes in a frame's body: what goes there is the last that it says."""
    last = report[-1]
    return len(last) if isinstance(last, bytes) else 0


def pack_reports(reports: Iterable[Report]) -> bytes:
    """One frame of a worker; results come first in its body, then what else is BSON."""
    head: Head = {}
    bodies: list[bytes] = []
    for report in reports:
        head.setdefault(_NAMES[type(report)], []).append(report)
    if done := head.get("done"):
        seqs, times, results = zip(*done, strict=True)
        head["done"] = seqs, times, [len(result) for result in results]
        bodies += results
    for name in _WITH_BODIES:
        if said := head.get(name):
            head[name] = [(*one[:-1], len(one[-1])) for one in said]
            bodies += [one[-1] for one in said]
    return pack(head, bodies)


@dataclass(slots=True)
class Reports:
    """A frame of a worker as its master reads it, by kind; each kind in the order in which it was
    said."""

    hello: Sequence[Hello] = ()
    broken: Sequence[BrokenModules] = ()
    done: Sequence[Done] = ()
    counted: Sequence[CountedDone] = ()
    ended: Sequence[AttemptEnded] = ()
    returned: Sequence[Returned] = ()
    progress: Sequence[ProgressSaid] = ()
    lines: Sequence[PrintedLines] = ()
    submit: Sequence[Submit] = ()
    staged: Sequence[StageOutput] = ()
    saved: Sequence[SavedValue] = ()
    pages: Sequence[PageWanted] = ()

    @classmethod
    def unpack(cls, head: Head, body: bytes) -> Reports:
        reports = cls()
        results_end = 0
        if "done" in head:
            seqs, times, sizes = head["done"]
            reports.done = list(zip(seqs, times, cut(body, sizes), strict=True))
            results_end = sum(sizes)
        if not head.keys().isdisjoint(_WITH_BODIES):
            reports._read_bodies(head, body[results_end:])
        for name, rows in head.items():
            if make := _READ.get(name):
                setattr(reports, name, [make(*row) for row in rows])
        return reports

    def _read_bodies(self, head: Head, body: bytes) -> None:
        start = 0
        for name, make in _WITH_BODIES.items():
            rows = head.get(name, ())
            bodies = cut(body[start:], [size for *_, size in rows])
            said = [make(*row[:-1], one) for row, one in zip(rows, bodies, strict=True)]
            setattr(self, name, said)
            start += sum(size for *_, size in rows)


def _hello(modules: Any, tasks: dict[str, dict[str, Any]], schedules: Any) -> Hello:
    return Hello(modules, {name: TaskFacts(**facts) for name, facts in tasks.items()}, schedules)


def _ended(seq: int, ran: float, how: Sequence[Any]) -> AttemptEnded:
    return AttemptEnded(seq, ran, NoResult(*how))


_READ: dict[str, Callable[..., Report]] = {
    "hello": _hello,
    "broken": BrokenModules,
    "ended": _ended,
    "returned": Returned,
    "progress": ProgressSaid,
    "lines": PrintedLines,
    "pages": PageWanted,
}


def pack(head: Head, bodies: Sequence[bytes] = ()) -> bytes:
    """One frame. `head` says how long each body is where the bodies are named."""
    encoded = orjson.dumps(
        head, default=tuple
    )  # named tuples: orjson leaves it to us what they are
    body = b"".join(bodies)
    return _LENGTHS.pack(len(encoded), len(body)) + encoded + body


def read(connection: socket.socket) -> tuple[Head, bytes] | None:
    """The next frame, for the worker's blocking side; None when the master is gone."""
    lengths = _read_exactly(connection, _LENGTHS.size)
    if lengths is None:
        return None
    head, body = _LENGTHS.unpack(lengths)
    payload = _read_exactly(connection, head + body)
    if payload is None:
        return None
    return orjson.loads(payload[:head]), bytes(payload[head:])


async def read_async(reader: asyncio.StreamReader) -> tuple[Head, bytes] | None:
    """The next frame, for the master's side; None when the worker is gone."""
    try:
        head, body = _LENGTHS.unpack(await reader.readexactly(_LENGTHS.size))
        return orjson.loads(await reader.readexactly(head)), await reader.readexactly(body)
    except (asyncio.IncompleteReadError, ConnectionError):
        return None


def cut(body: bytes, lengths: Iterable[int]) -> Iterator[bytes]:
    """The documents of a body, in the order of their lengths."""
    start = 0
    for length in lengths:
        yield body[start : start + length]
        start += length


def _read_exactly(connection: socket.socket, count: int) -> bytearray | None:
    buffer = bytearray(count)
    view, got = memoryview(buffer), 0
    while got < count:
        try:
            size = connection.recv_into(view[got:])
        except ConnectionError:
            return None
        if size == 0:
            return None
        got += size
    return buffer
