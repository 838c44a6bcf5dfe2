"""The board: everything the observer knows, now and back in time; pictures of any moment come out of it.

Pure: no store, no screen. The one source for screen, text, JSON and web.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import replace
from datetime import datetime

from tontine.clock import wall_time
from tontine.records.states import JobState

from ..model.intake import JOBS, Intake
from ..model.jobs import Step
from ..model.nodes import Epoch
from ..records.clean import Cleaner, moment
from ..records.picture import (
    Alert,
    Change,
    ChangeKind,
    Flow,
    JobList,
    JobRow,
    Mode,
    Pane,
    Picture,
    ShareRow,
    Status,
    Target,
    Timeline,
    node_counts,
)
from ..records.snapshot import Truth
from .alerts import alerts
from .flow import Memo, flow
from .moment import View, Waiting, date, node_rows, sorted_rows, working_of
from .shares import share_rows
from .timeline import differences, next_moment, timeline

MANY = 1_000
Worked = tuple[tuple[ShareRow, ...], Flow, tuple[Alert, ...]]


class Board(Intake):
    """Draws pictures of what came in."""

    _rows: tuple[int, tuple[JobRow, ...]] = (-1, ())
    _unfinished: tuple[JobRow, ...] = ()
    _working: tuple[JobRow, ...] = ()

    def __init__(self, database: str, clean: Cleaner | None = None, clock: Callable[[], float] = wall_time) -> None:
        super().__init__(database, clean, clock)
        self._memo: Memo = {}
        self._worked_out: tuple[object, Worked] | None = None

    def now(self) -> datetime:
        """The server's clock; it stands still while the store is away, so that an outage paints no node dead."""
        return date(self._now())

    def _now(self) -> float:
        if self.link.mode in (Mode.STALE, Mode.REPLAY) and self.heard_at:
            return self.heard_at
        return max(self._clock() - self.link.ahead, self.heard_at)

    def oldest(self) -> datetime:
        """The oldest moment of which anything is known."""
        curves = self.tally.curves
        known = [span for span in (curves.watched.oldest, curves.sampled.oldest) if span is not None]
        return date(min(known, default=self._now()))

    def picture(self, at: datetime | None = None) -> Picture:
        """Everything there is to show, now or as it was."""
        view = self.view(at)
        shares, flowing, found = self._work_out(view, is_live=at is None)
        nodes = node_rows(view, self.lives)
        return Picture(
            at=date(view.at),
            is_past=at is not None,
            status=self._status(view, [row.state for row in nodes], flowing.out_rate),
            link=replace(self.link, unknown=self.tally.unknown),
            alerts=found,
            nodes=nodes,
            shares=shares,
            flow=flowing,
            members=view.members,
            note=self._missing(view.at) if at is not None else "",
        )

    def _work_out(self, view: View, *, is_live: bool) -> Worked:
        """What follows from all unfinished jobs together; where they are many, and now, once a second."""
        stamp = (int(view.at), view.roster, view.is_complete) if is_live and len(view.unfinished) > MANY else None
        if stamp is not None and self._worked_out is not None and self._worked_out[0] == stamp:
            return self._worked_out[1]
        shares = share_rows(view)
        memo = self._memo if is_live else None
        flowing = flow(view, self.tally.curves, self.times, is_counted=self.tally.is_counted, memo=memo)
        worked = (shares, flowing, alerts(view, shares, flowing))
        self._worked_out = None if stamp is None else (stamp, worked)
        return worked

    def _status(self, view: View, states: Sequence[str], rate: float) -> Status:
        return Status(
            database=self.database,
            replica_set=self.clean.name(self.server.replica_set),
            primary=self.clean.name(self.server.primary),
            epoch=view.roster.epoch,
            since=date(view.roster.at) if view.roster.is_exact and view.roster.at else None,
            members=len(view.members),
            states=node_counts(states),
            backlog=view.counts.get(JobState.QUEUED, 0),
            rate=rate,
            seq=view.seq,
        )

    def view(self, at: datetime | None = None) -> View:
        """What is known of a moment."""
        now = self._now()
        if at is None or at.timestamp() >= now:
            return self._live_view(now)
        return self._past_view(at.timestamp())

    def _live_view(self, now: float) -> View:
        truth, table = self._truth, self.jobs_table
        roster = self.lives.epochs[-1] if self.lives.epochs else Epoch(0.0, 0, ())
        raw = truth.unnumbered if truth else ()
        return View(
            at=now,
            facts=self.lives.facts(),
            roster=roster,
            rows=self._sorted_rows(),
            unfinished=self._unfinished,
            working=self._working,
            counts=dict(self.tally.counts),
            is_complete=table.is_complete,
            known_from=table.known_from,
            seq=self.seq,
            watched_for=now - self._watched_from if self._watched_from is not None else 0.0,
            waiting=_current(truth, roster),
            unnumbered=len(raw),
            unnumbered_for=now - made if raw and (made := moment(getattr(raw[0], "generation_time", None))) else 0.0,
            unknown={self.clean.name(task): number for task, number in truth.unknown.items()} if truth else {},
            still=frozenset(self._pulse.still),
            ahead=self.link.ahead,
            settled_at=self._settled_at,
            has_cells=self.has_cells,
        )

    def _past_view(self, at: float) -> View:
        table = self.jobs_table
        rows = sorted_rows(table.as_of(at).values())
        numbers = [row.seq for row in rows if row.seq is not None]
        return View(
            at=at,
            facts=self.lives.as_of(at),
            roster=self.lives.epoch_at(at) or Epoch(0.0, 0, ()),
            rows=rows,
            unfinished=tuple(row for row in rows if row.is_open),
            working=working_of(rows),
            counts=dict(self.tally.curves.counts_at(at) or {}),
            is_complete=table.is_complete,
            known_from=table.known_from,
            seq=max(numbers, default=0),
            watched_for=at - self._watched_from if self._watched_from is not None else 0.0,
        )

    def _sorted_rows(self) -> tuple[JobRow, ...]:
        generation = self._generations[Pane.JOBS]
        if self._rows[0] != generation:
            self._rows = (generation, sorted_rows(self.jobs_table.rows.values()))
            self._unfinished = sorted_rows(self.jobs_table.unfinished())
            self._working = working_of(self._unfinished)
        return self._rows[1]

    def jobs(self, at: datetime | None = None) -> JobList:
        """The jobs that are known of a moment, by seq."""
        view = self.view(at)
        refused = self.link.refused.get(JOBS)
        note = f"jobs may not be read: {refused}" if refused else self._missing(view.at) if at is not None else ""
        return JobList(view.rows, sum(view.counts.values()), view.is_complete, note)

    def _missing(self, at: float) -> str:
        """What of a past moment is not known."""
        began = max(self.jobs_table.steps_from, self.tally.curves.watched.oldest or self._now())
        return f"jobs are known from {date(began).astimezone():%H:%M:%S} on" if at < began else ""

    def changes(
        self, kinds: Collection[ChangeKind] | None = None, limit: int = 500, until: datetime | None = None
    ) -> tuple[Change, ...]:
        """What happened, oldest first; every change of a job only when asked for."""
        end = until.timestamp() if until is not None else float("inf")
        found = self.log.latest(kinds, limit, end)
        if kinds is None or ChangeKind.JOB not in kinds:
            return found
        steps: list[Change] = []
        for step in reversed(self.jobs_table.steps):
            if len(steps) >= limit:
                break
            if step.at <= end:
                steps.append(_job_line(step))
        return tuple(sorted([*found, *steps], key=lambda one: one.at)[-limit:])

    def timeline(self, start: datetime, step: float, columns: int) -> Timeline:
        """The time pane: `columns` columns of `step` seconds from `start`."""
        oldest = self.oldest().timestamp()
        return timeline(self.lives, self.tally.curves, oldest, self._now(), start.timestamp(), step, columns)

    def next_change(self, after: datetime, back: bool = False, epochs: bool = False) -> datetime | None:
        """The nearest change of a node or the roster before or after a moment."""
        moments = {one.at for one in self.lives.epochs if one.is_exact}
        if not epochs:
            moments |= {at for at, _, _ in self.lives.moves()}
        found = next_moment(sorted(moments), after.timestamp(), back=back)
        return None if found is None else date(found)

    def differences(self, first: datetime, second: datetime) -> tuple[str, ...]:
        """What differs between two moments."""
        return tuple(differences(self.view(first), self.view(second)))


def _current(truth: Truth | None, roster: Epoch) -> Mapping[int, Waiting]:
    return truth.waiting if truth and truth.epoch == roster.epoch else {}


def _job_line(step: Step) -> Change:
    row = step.after or step.before
    before = step.before.state if step.before else "new"
    after = step.after.state if step.after else "removed"
    subject = f"#{row.seq}" if row and row.seq is not None else row.id if row else "?"
    moved = f"{before} → {after}" if before != after else after
    target = Target(Pane.JOBS, str(row.seq)) if row else None
    return Change(date(step.at), ChangeKind.JOB, subject, f"{row.task if row else ''}  {moved}", target)
