"""The board: pictures of what is known, now or at any moment back in time. Pure: no store, no
screen.

The one source for screen, text, JSON and web.
"""

from __future__ import annotations

from collections.abc import Callable, Collection, Mapping, Sequence
from dataclasses import dataclass, replace
from datetime import datetime

from tontine.clock import wall_time
from tontine.records.states import JobState

from ..model.jobs import JobMoved
from ..model.known import Known
from ..records.alert import Alert
from ..records.change import Change, ChangeKind
from ..records.clean import Cleaner
from ..records.flow import Flow
from ..records.job import JobList, JobRow
from ..records.link import Link, Mode
from ..records.node import node_counts
from ..records.pane import Pane, Target
from ..records.picture import Picture, StatusLine
from ..records.share import ShareRow
from ..records.snapshot import Truth, Waiting
from ..records.timeline import Epoch, Timeline
from ..records.values import date, timestamp
from .alerts import alerts
from .flow import Memo, flow
from .lately import LOOKED_AT, Lately, lately
from .moment import Moment, sorted_rows, working_of
from .nodes import node_rows
from .shares import share_rows
from .timeline import differences, next_moment, timeline

NARRATED_FOR = 20.0
"""Seconds: what has just happened is told for so long."""
MANY = 1_000
"""Unfinished jobs: of more than these, what follows from all of them is worked out once a second.
"""


@dataclass(frozen=True, slots=True)
class _Derived:
    """What follows from all unfinished jobs together."""

    shares: tuple[ShareRow, ...]
    flow: Flow
    alerts: tuple[Alert, ...]


@dataclass(frozen=True, slots=True)
class _Rows:
    """The jobs as they are now, in order; as long as no job changes they are not sorted again."""

    generation: int = -1
    every: tuple[JobRow, ...] = ()
    unfinished: tuple[JobRow, ...] = ()
    working: tuple[JobRow, ...] = ()


class Board:
    """Draws pictures of what is known."""

    def __init__(
        self, database: str, clean: Cleaner | None = None, clock: Callable[[], float] = wall_time
    ) -> None:
        self.known = Known(database, clean)
        self.has_cells = True
        """Whether somebody looks at the single jobs of each share."""
        self._clock = clock
        self._rows = _Rows()
        self._memo: Memo = {}
        self._derived: tuple[object, _Derived] | None = None
        self._lately: tuple[int, Lately] | None = None

    @property
    def link(self) -> Link:
        return self.known.link

    def generation(self, pane: Pane) -> int:
        """Grows with everything that is new in a pane, by how much there is of it."""
        return self.known.generation(pane)

    def now(self) -> datetime:
        """The server's clock; it stands still while the store is away, so that an outage paints no
        node dead."""
        return date(self._now())

    def _now(self) -> float:
        known = self.known
        if known.link.mode in (Mode.STALE, Mode.REPLAY) and known.heard_at:
            return known.heard_at
        return max(self._clock() - known.link.ahead, known.heard_at)

    def oldest(self) -> datetime:
        """The oldest moment of which anything is known."""
        curves = self.known.tally.curves
        known = [at for at in (curves.watched.oldest, curves.sampled.oldest) if at is not None]
        return date(min(known, default=self._now()))

    def oldest_watched(self) -> float:
        """Since when it was watched what happens."""
        return self.known.tally.curves.watched.oldest or 0.0

    def picture(self, at: datetime | None = None) -> Picture:
        """Everything there is to show, now or as it was."""
        moment = self.moment(at)
        derived = self._derive(moment, is_live=at is None)
        nodes = node_rows(moment, self.known.lives)
        before = self._heirloom(moment)
        return Picture(
            at=date(moment.at),
            is_past=at is not None,
            status=self._status(moment, [row.seen for row in nodes], derived.flow.out_rate),
            link=replace(self.known.link, unknown=self.known.tally.unknown),
            alerts=derived.alerts,
            nodes=nodes,
            shares=derived.shares,
            flow=derived.flow,
            roster=moment.roster,
            story=self._story(moment.at),
            heirloom=tuple((one, moment.name_of(one)) for one in before),
            inherited_for=moment.at - moment.roster.at if before else None,
            survived=self.known.log.stories.survived(self.oldest_watched()),
            note=self._missing(moment.at) if at is not None else "",
        )

    def _heirloom(self, moment: Moment) -> tuple[str, ...]:
        """The members before this epoch, if it began when somebody left."""
        if not moment.roster.is_exact or not moment.roster.at:
            return ()
        old = self.known.lives.epoch_at(moment.roster.at - 0.0005)
        if old is None or not set(old.members) - set(moment.members):
            return ()
        return old.members

    def _story(self, at: float) -> str:
        story = self.known.log.stories.latest(at, NARRATED_FOR)
        if story is None:
            return ""
        return story.text() if len(story.names) > 1 else f"{story.name} {story.text()}"

    def _derive(self, moment: Moment, *, is_live: bool) -> _Derived:
        if not is_live or len(moment.unfinished) <= MANY:
            self._derived = None
            return self._work_out(moment, self._memo if is_live else None)
        stamp = (int(moment.at), moment.roster, moment.is_complete)
        if self._derived is None or self._derived[0] != stamp:
            self._derived = (stamp, self._work_out(moment, self._memo))
        return self._derived[1]

    def _work_out(self, moment: Moment, memo: Memo | None) -> _Derived:
        tally = self.known.tally
        shares = share_rows(moment)
        flowing = flow(
            moment, tally.curves, self.known.times, is_counted=tally.is_counted, memo=memo
        )
        recently = self._lately_of(moment, is_live=memo is not None)
        return _Derived(shares, flowing, alerts(moment, shares, flowing, recently))

    def _lately_of(self, moment: Moment, *, is_live: bool) -> Lately:
        """What ended is looked at once a second: it tells the same for longer."""
        if not is_live:
            ended = _last_ended(moment.rows)
            return lately(moment, ended[:LOOKED_AT], ended)
        if self._lately is None or self._lately[0] != int(moment.at):
            jobs = self.known.jobs
            told = lately(moment, jobs.newest_ended(LOOKED_AT), jobs.outcomes())
            self._lately = (int(moment.at), told)
        return self._lately[1]

    def _status(self, moment: Moment, states: Sequence[str], rate: float) -> StatusLine:
        known, roster = self.known, moment.roster
        return StatusLine(
            database=known.database,
            replica_set=known.clean.name(known.server.replica_set),
            primary=known.clean.name(known.server.primary),
            epoch=roster.epoch,
            since=date(roster.at) if roster.is_exact and roster.at else None,
            members=len(roster.members),
            states=node_counts(states),
            backlog=moment.counts.get(JobState.QUEUED),
            rate=rate,
            seq=moment.seq,
        )

    def moment(self, at: datetime | None = None) -> Moment:
        """What is known of a moment."""
        now = self._now()
        if at is None or at.timestamp() >= now:
            return self._live_moment(now)
        return self._past_moment(at.timestamp())

    def _live_moment(self, now: float) -> Moment:
        known, truth = self.known, self.known.truth
        rows = self._sorted_rows()
        unnumbered = truth.unnumbered if truth else ()
        unknown = truth.unknown if truth else {}
        return Moment(
            at=now,
            facts=known.lives.facts(),
            roster=known.roster,
            rows=rows.every,
            unfinished=rows.unfinished,
            working=rows.working,
            counts=dict(known.tally.counts),
            is_complete=known.jobs.is_complete,
            known_from=known.jobs.known_from,
            seq=known.seq,
            waiting=_counted_by_rank(truth, known.roster),
            unnumbered=len(unnumbered),
            unnumbered_for=_age_of_first(unnumbered, now),
            unknown={known.clean.name(task): number for task, number in unknown.items()},
            still=frozenset(known.pulse.still),
            settled_at=known.settled_at,
            has_cells=self.has_cells,
        )

    def _past_moment(self, at: float) -> Moment:
        known = self.known
        rows = sorted_rows(known.jobs.as_of(at).values())
        return Moment(
            at=at,
            facts=known.lives.as_of(at),
            roster=known.lives.epoch_at(at) or Epoch(0.0, 0, ()),
            rows=rows,
            unfinished=tuple(row for row in rows if row.is_open),
            working=working_of(rows),
            counts=dict(known.tally.curves.counts_at(at) or {}),
            is_complete=known.jobs.is_complete,
            known_from=known.jobs.known_from,
            seq=max((row.seq for row in rows if row.seq is not None), default=0),
            knows_jobs=at >= self._jobs_known_from(),
        )

    def _sorted_rows(self) -> _Rows:
        generation = self.generation(Pane.JOBS)
        if self._rows.generation != generation:
            table = self.known.jobs
            unfinished = sorted_rows(table.unfinished())
            self._rows = _Rows(
                generation,
                sorted_rows(table.rows.values()),
                unfinished,
                working_of(unfinished),
            )
        return self._rows

    def jobs(self, at: datetime | None = None) -> JobList:
        """The jobs that are known of a moment, by seq."""
        moment = self.moment(at)
        note = self._missing(moment.at) if at is not None else ""
        if refused := self.link.refused.get("jobs"):
            note = f"jobs may not be read: {refused}"
        table = self.known.jobs
        is_whole = moment.is_complete and table.known_from <= 0
        since = 0.0 if is_whole else self._ended_since()
        return JobList(moment.rows, moment.is_complete, is_whole, since, table.trusted, note)

    def _ended_since(self) -> float:
        """From when on every job that ended is known; who is told of single jobs only now and then
        knows of none."""
        if self.link.mode not in (Mode.LIVE, Mode.STALE, Mode.REPLAY):
            return self._now()
        return max(self._jobs_known_from(), self.known.jobs.ended_from)

    def _missing(self, at: float) -> str:
        """What of a past moment is not known."""
        began = self._jobs_known_from()
        return f"jobs are known from {date(began).astimezone():%H:%M:%S} on" if at < began else ""

    def _jobs_known_from(self) -> float:
        watched = self.known.tally.curves.watched.oldest
        return max(self.known.jobs.moves_from, self._now() if watched is None else watched)

    def changes(
        self,
        kinds: Collection[ChangeKind] | None = None,
        limit: int = 500,
        until: datetime | None = None,
    ) -> tuple[Change, ...]:
        """What happened, oldest first; every change of a job only when asked for."""
        end = until.timestamp() if until is not None else float("inf")
        found = self.known.log.latest(kinds, limit, end)
        if kinds is None or ChangeKind.JOB not in kinds:
            return found
        jobs: list[Change] = []
        for moved in reversed(self.known.jobs.moves):
            if len(jobs) >= limit:
                break
            if moved.at <= end:
                jobs.append(_job_line(moved))
        return tuple(sorted([*found, *jobs], key=lambda one: one.at)[-limit:])

    def timeline(self, start: datetime, step: float, columns: int) -> Timeline:
        """The time pane: `columns` columns of `step` seconds from `start`."""
        lives, curves = self.known.lives, self.known.tally.curves
        return timeline(
            lives, curves, self.oldest().timestamp(), self._now(), start.timestamp(), step, columns
        )

    def next_change(
        self, after: datetime, back: bool = False, epochs: bool = False
    ) -> datetime | None:
        """The nearest change of a node or the roster before or after a moment."""
        lives = self.known.lives
        moments = {one.at for one in lives.epochs if one.is_exact}
        if not epochs:
            moments |= {at for at, _, _ in lives.moves()}
        found = next_moment(sorted(moments), after.timestamp(), back=back)
        return None if found is None else date(found)

    def differences(self, first: datetime, second: datetime) -> tuple[str, ...]:
        """What differs between two moments."""
        return tuple(differences(self.moment(first), self.moment(second)))


def _last_ended(rows: Sequence[JobRow]) -> list[JobRow]:
    ended = [row for row in rows if row.finished_at is not None]
    return sorted(ended, key=lambda row: row.finished_at or 0.0, reverse=True)


def _counted_by_rank(truth: Truth | None, roster: Epoch) -> Mapping[int, Waiting]:
    """What the last count says of shares, as long as they are the same."""
    return truth.waiting if truth and truth.epoch == roster.epoch else {}


def _age_of_first(unnumbered: Sequence[object], now: float) -> float:
    """How long the first of the jobs without a number has been there, by its ObjectId."""
    made = timestamp(getattr(unnumbered[0], "generation_time", None)) if unnumbered else None
    return now - made if made else 0.0


def _job_line(moved: JobMoved) -> Change:
    before = moved.before.state if moved.before else "new"
    after = moved.after.state if moved.after else "removed"
    row = moved.after or moved.before
    if row is None:
        return Change(date(moved.at), ChangeKind.JOB, "?", f"  {before} → {after}")
    subject = f"#{row.seq}" if row.seq is not None else row.id
    text = f"{before} → {after}" if before != after else after
    return Change(
        date(moved.at),
        ChangeKind.JOB,
        subject,
        f"{row.task}  {text}",
        Target(Pane.JOBS, str(row.seq)),
    )
