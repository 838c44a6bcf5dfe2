"""A board again from a recording: to look at an incident afterwards, for demonstrations and for
tests.

It needs no database. Whatever the file says has been cleaned when it was written, and is cleaned
again.
"""

from __future__ import annotations

from collections import Counter
from collections.abc import AsyncIterator, Iterator, Mapping
from datetime import UTC, datetime
from pathlib import Path
from typing import Any

import orjson

from tontine.errors import ConfigError
from tontine.records.change import Delta, DeltaKind
from tontine.records.kind import read_kinds
from tontine.records.roster import Roster

from ..model import intake
from ..model.known import Known
from ..picture.board import Board
from ..picture.failures import failures_of
from ..records.job import JobPage, LogLine
from ..records.ledger import Ledger, Wanted
from ..records.link import Link, Mode
from ..records.pane import Pane
from ..records.plan import PlanPage
from ..records.request import Phase, Request, RequestProgress
from ..records.search import SearchProgress
from ..records.snapshot import ServerFacts, Snapshot, Truth, Waiting, Window
from .recording import HEADER


class _Id(str):
    """An id that tells when it was made."""

    __slots__ = ("generation_time",)
    generation_time: datetime


def _decoded(value: Any) -> Any:
    if isinstance(value, dict):
        if "$date" in value:
            return datetime.fromtimestamp(value["$date"], UTC)
        if "$id" in value:
            made = _Id(value["$id"])
            made.generation_time = datetime.fromtimestamp(value.get("$made", 0), UTC)
            return made
        return {key: _decoded(inner) for key, inner in value.items()}
    return [_decoded(inner) for inner in value] if isinstance(value, list) else value


def entries(path: Path) -> Iterator[dict[str, Any]]:
    """The entries of a recording; a last line that was cut off is left out."""
    try:
        with path.open("rb") as file:
            for number, line in enumerate(file):
                try:
                    entry = _decoded(orjson.loads(line))
                except (orjson.JSONDecodeError, ValueError, OverflowError, OSError):
                    if not line.endswith(b"\n"):
                        return
                    raise ConfigError(
                        f"{path}: line {number + 1} is no line of a recording"
                    ) from None
                if not isinstance(entry, dict) or (number == 0 and entry.get("kind") != HEADER):
                    raise ConfigError(f"{path} is no recording of the observer")
                yield entry
    except OSError as error:
        raise ConfigError(f"{path} cannot be read: {error.strerror}") from error


def replay(path: Path, known: Known) -> None:
    """Take in everything that was recorded."""
    known.link = Link(Mode.REPLAY, read_only="this is a recording")
    for entry in entries(path):
        try:
            _take(known, entry)
        except (KeyError, TypeError, ValueError, AttributeError) as error:
            raise ConfigError(
                f"{path} is a recording of another version, or was changed: {error!r}"
            ) from error


def _take(known: Known, entry: Mapping[str, Any]) -> None:
    match entry.get("kind"):
        case kind if kind == HEADER:
            known.database = known.clean.name(entry["database"])
        case "look":
            intake.load(known, _read_snapshot(entry), polled=bool(entry["polled"]))
        case "jobs":
            intake.read_window(known, _read_window(entry["window"]), _version(entry["version"]))
        case "changes":
            intake.take(known, [_read_delta(one) for one in entry["changes"]])
        case "count":
            intake.count(known, _read_truth(entry))
        case "events":
            intake.remember(known, entry["events"])
        case "gap":
            intake.lose(known, str(entry["reason"]))


def _version(value: Any) -> tuple[int, int, int]:
    return (int(value[0]), int(value[1]), int(value[2]))


def _read_window(entry: Mapping[str, Any]) -> Window:
    return Window(entry["documents"], entry["complete"], entry["known_from"], entry["known"])


def _read_snapshot(entry: Mapping[str, Any]) -> Snapshot:
    return Snapshot(
        at=entry["at"],
        nodes=entry["nodes"],
        roster=_read_roster(entry),
        seq=entry["seq"],
        counts=entry["counts"],
        unnumbered=entry["unnumbered"],
        unknown=entry["unknown"],
        events=entry["events"],
        window=_read_window(entry["window"]),
        version=_version(entry["version"]),
        server=ServerFacts(*entry["server"]),
    )


def _read_roster(entry: Mapping[str, Any]) -> Roster:
    """The roster of a look; earlier recordings say nothing of kinds."""
    members = tuple(entry["members"])
    return Roster(entry["epoch"], members, read_kinds(entry.get("kinds"), members))


def _read_delta(entry: list[Any]) -> Delta:
    collection, kind, key, at, version, fields, removed = entry
    return Delta(
        collection, DeltaKind(kind), key, at, _version(version), dict(fields), tuple(removed)
    )


def _read_truth(entry: Mapping[str, Any]) -> Truth:
    return Truth(
        entry["at"],
        _version(entry["version"]),
        entry["counts"],
        entry["seq"],
        entry["unnumbered"],
        entry["unknown"],
        {rank: Waiting(number, due, partial) for rank, number, due, partial in entry["waiting"]},
        entry["epoch"],
    )


class ReplaySource:
    """A recording in the place of a store: everything can be looked at, nothing asked."""

    def __init__(self, path: Path, board: Board) -> None:
        self.board = board
        replay(path, board.known)

    async def start(self) -> None: ...

    async def stop(self) -> None: ...

    async def page(self, seq: int) -> JobPage | None:
        """What the recording knows of a job."""
        row = next((row for row in self.board.jobs().rows if row.seq == seq), None)
        if row is None:
            return None
        why = (("This is a recording: only what happened is known, not why.", ""),)
        moment = self.board.moment()
        owner = moment.roster.owner_of(seq, row.task)
        holder = moment.name_of(row.node) if row.node else ""
        return JobPage(
            self.board.now(),
            row,
            moment.name_of(owner) if owner else "",
            holder,
            why,
            (),
            (),
            (),
            "not recorded",
            "not recorded",
        )

    async def plan(self, _: int | None, __: Any = None) -> PlanPage | None:
        """Nothing of plans is recorded."""
        return None

    async def step_job(self, _: int, __: object) -> int | None:
        return None

    async def search(self, _: object, __: object) -> AsyncIterator[SearchProgress]:
        """All that was recorded is on the board."""
        return
        yield

    def forget_found(self) -> None: ...

    async def ledger(self, pane: Pane) -> Ledger:
        """Failures and queued jobs that were recorded; schedules and plans are not."""
        rows, now = self.board.jobs().rows, self.board.now().timestamp()
        if pane is Pane.MODULES:
            queued = Counter(row.task for row in rows if row.state == "queued")
            return Ledger(wanted={key: Wanted(jobs) for key, jobs in queued.items()})
        if pane is not Pane.FAILURES:
            return Ledger(schedules=(), plans=())
        return Ledger(failures=failures_of(rows, now), failures_note="recorded")

    async def log(self, _: int) -> tuple[LogLine, ...]:
        return ()

    async def ask(self, request: Request) -> AsyncIterator[RequestProgress]:
        yield RequestProgress(
            Phase.REFUSED,
            "this is a recording: there is nobody to ask",
            failed=len(request.targets),
        )

    def hide(self, text: str) -> str:
        return self.board.known.clean.redacted(text)
