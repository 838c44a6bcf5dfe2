"""Schedules: when a recurring job is due, which missed times count, and when it is due next.
Pure."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Iterable, Iterator, Mapping
from contextlib import contextmanager
from dataclasses import dataclass, field, fields, replace
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

import bson
from bson.codec_options import CodecOptions
from bson.errors import BSONError
from cronsim import CronSim, CronSimError

from ..errors import ConfigError
from ..legible import legible
from .job import is_text, is_whole, problem
from .plan import PlanRecord
from .states import JobState, PlanState

Missed = Literal["skip", "once", "all"]
Overlap = Literal["queue", "skip"]

LATE_AFTER = timedelta(seconds=60)
"""A time that is past for longer was missed: nobody was there to fire it."""
FIRED_AT_ONCE = 100
LONGEST = 100 * 365 * 86400.0
LONGEST_TEXT = 1000
YEARS = range(1970, 9999)
"""Of a `next_at` that can be one."""
DEFINING = ("task", "args", "cron", "every", "timezone", "missed", "overlap", "max_age")
"""What a declaration says; the rest is what became of it."""
_TEXT = f"a text of 1 to {LONGEST_TEXT:,} characters"
_CODEC: CodecOptions[Any] = CodecOptions(tz_aware=True, uuid_representation=4)
_TICK = timedelta(microseconds=1)


@dataclass(frozen=True, slots=True)
class Declared:
    """Which version of a module declared a schedule, when the node that said so started, and what
    it declared."""

    module: str
    """The name of the module."""
    version: str
    """Its version."""
    digest: str
    """What tells two declarations apart."""
    at: datetime | None = None
    """When the node that said so started."""

    @classmethod
    def from_document(cls, document: Any) -> Declared | None:
        """What a document says of it, if it says so much."""
        if not isinstance(document, Mapping):
            return None
        module, version, digest, at = (
            document.get(name) for name in ("module", "version", "digest", "at")
        )
        if not (is_text(module) and is_text(version) and is_text(digest)):
            return None
        return cls(module, version, digest, at if isinstance(at, datetime) else None)

    def to_document(self) -> dict[str, Any]:
        return {
            "module": self.module,
            "version": self.version,
            "digest": self.digest,
            "at": self.at,
        }

    def supersedes(self, other: Declared) -> bool:
        """Whether it is newer: by its version, and among equals by the node that started later."""
        mine, others = rank_of(self.version), rank_of(other.version)
        if mine != others:
            return mine > others
        return self.at is not None and (other.at is None or self.at > other.at)


def rank_of(version: str) -> tuple[tuple[int, int, str], ...]:
    """What orders versions: their numbers as numbers, and a text such as `rc1` before its end
    (1.2rc1 < 1.2 < 1.10)."""
    parts = re.findall(r"\d+|[a-z]+", version.lower().partition("+")[0])
    # Python reads no number of more than 4,300 digits, and no version needs one.
    ranks = [(1, int(part[:1000]), "") if part.isdecimal() else (-1, 0, part) for part in parts]
    while ranks and ranks[-1] == (1, 0, ""):
        ranks.pop()
    return (*ranks, (0, 0, ""))


@dataclass(frozen=True, slots=True)
class Schedule:
    """A recurring job, or plan: at the times of a cron expression in a time zone, or every so many
    seconds."""

    name: str
    """Unique among schedules."""
    task: str
    """The task of its jobs; empty where it has a plan."""
    args: Mapping[str, Any] = field(default_factory=dict)
    """The arguments of its jobs."""
    cron: str | None = None
    """A cron expression like `30 6 * * 1-5`; or else:"""
    every: float | None = None
    """Seconds from one job to the next."""
    timezone: str = "UTC"
    """The one in which `cron` is meant, like `Europe/Paris`."""
    missed: Missed = "once"
    """What becomes of times at which no node was there: none is fired, one for all, or each."""
    next_at: datetime | None = None
    """When it is due next."""
    overlap: Overlap = "queue"
    """What happens when it is due while its last job has not ended: another one, or none."""
    max_age: float | None = None
    """Seconds after its insert within which a job must start, or is cancelled."""
    off: bool = False
    """Whether an operator has switched it off."""
    declared: Declared | None = None
    """By a module; None is by hand."""
    last_job: Any = None
    """The `_id` of the last job that it inserted."""
    skipped: int = 0
    """Due times that were passed over because the job before had not ended."""
    plan: Mapping[str, Any] | None = None
    """The document of the plan that it inserts, instead of a job."""

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Schedule:
        """The record of a document; a ConfigError says why it cannot be one, because anybody may
        have written it."""
        given = {
            name: value for name, value in document.items() if name in _FIELDS and value is not None
        }
        next_at = given.pop("next_at", None)
        schedule = cls(
            name=document.get("_id"),  # type: ignore[arg-type]
            task=given.pop("task", "" if "plan" in given else None),
            next_at=next_at if isinstance(next_at, datetime) and next_at.year in YEARS else None,
            declared=Declared.from_document(given.pop("declared", None)),
            skipped=_count(given.pop("skipped", None)),
            **given,
        )
        schedule.check()
        return schedule

    def to_document(self) -> dict[str, Any]:
        values = {"cron": self.cron, "every": self.every}
        what = {"task": self.task, "args": dict(self.args)}
        return {
            "_id": self.name,
            **(what if self.plan is None else {"plan": dict(self.plan)}),
            **{name: value for name, value in values.items() if value is not None},
            "timezone": self.timezone,
            "missed": self.missed,
            "next_at": self.next_at,
            **self._extras(),
        }

    def declared_by(self, module: str, version: str) -> Schedule:
        """The same with who declares it, and a digest of what that is."""
        document = self.to_document()
        defining = {name: document[name] for name in DEFINING if name in document}
        try:
            digest = hashlib.sha256(bson.encode(defining, codec_options=_CODEC)).hexdigest()[:16]
        except (BSONError, OverflowError, UnicodeError, ValueError) as error:
            raise ConfigError(
                f"the schedule {legible(self.name, 80)!r} cannot be stored: {error}"
            ) from error
        return replace(self, declared=Declared(module, version, digest))

    def _extras(self) -> dict[str, Any]:
        """What most schedules do not have."""
        values = {
            "overlap": None if self.overlap == "queue" else self.overlap,
            "max_age": self.max_age,
            "off": self.off or None,
            "declared": None if self.declared is None else self.declared.to_document(),
            "last_job": self.last_job,
            "skipped": self.skipped or None,
        }
        return {name: value for name, value in values.items() if value is not None}

    def check(self) -> None:
        """Refuse what can never fire."""
        if not _is_text(self.name):
            raise ConfigError(f"a schedule's name, its `_id`, must be {_TEXT}")
        if "\ufffd" in self.name:
            raise ConfigError(
                "a schedule's name, its `_id`, must be UTF-8: nobody could find it again"
            )
        if self.plan is not None:
            self._check_plan(self.plan)
        elif (reason := problem({"task": self.task, "args": self.args})) is not None:
            raise ConfigError(f"it can insert no job: {reason}")
        elif not _is_text(self.task):
            raise ConfigError(f"`task` must be {_TEXT}")
        if (self.cron is None) == (self.every is None):
            raise ConfigError("give a schedule either a cron expression or an interval")
        if self.missed not in get_args(Missed):
            raise ConfigError(
                f"missed={legible(repr(self.missed), 80)} is none of skip, once and all"
            )
        if self.overlap not in get_args(Overlap):
            raise ConfigError(
                f"overlap={legible(repr(self.overlap), 80)} is neither queue nor skip"
            )
        if not isinstance(self.off, bool):
            raise ConfigError("`off` must be true or false")
        if self.max_age is not None:
            self._check_age(self.max_age)
        if self.every is not None:
            self._check_every(self.every)
        self._check_zone()
        if self.cron is not None:
            self._check_cron(self.cron)

    def _check_plan(self, plan: object) -> None:
        if self.task or self.args:
            raise ConfigError(
                "give a schedule either a task or a plan, which has its arguments in its steps"
            )
        if not isinstance(plan, Mapping):
            raise ConfigError("`plan` must be an object like {steps: {get: {task: …}}}")
        if self.max_age is not None:
            raise ConfigError("`max_age` goes with a job: a plan has none")

    def _check_age(self, age: object) -> None:
        if not isinstance(age, int | float) or isinstance(age, bool) or not 0 < age <= LONGEST:
            raise ConfigError(
                "`max_age` must be seconds above 0 and up to a century, not "
                f"{legible(repr(age), 80)}"
            )

    def _check_every(self, every: object) -> None:
        if not isinstance(every, int | float) or isinstance(every, bool):
            raise ConfigError(
                f"`every` must be a number of seconds, not {legible(repr(every), 80)}"
            )
        if not every >= 1:
            raise ConfigError(
                f"an interval of {every:g} s is too short: a schedule fires at most once a second"
            )
        if every > LONGEST:
            raise ConfigError(f"an interval of {every:g} s is more than a century")
        if self.timezone != "UTC":
            raise ConfigError(
                "a time zone goes with a cron expression: an interval is the same everywhere"
            )

    def _check_zone(self) -> None:
        if not _is_text(self.timezone):
            raise ConfigError("`timezone` must be a text like Europe/Paris")
        try:
            ZoneInfo(self.timezone)
        except (
            ZoneInfoNotFoundError,
            ValueError,
            OSError,
        ) as error:  # OSError: `Europe` is a directory
            raise ConfigError(
                f"there is no time zone {legible(repr(self.timezone), 80)} here: write it like "
                "Europe/Paris"
            ) from error

    def _check_cron(self, cron: str) -> None:
        if not _is_text(cron):
            raise ConfigError(f"`cron` must be {_TEXT}, like '30 6 * * 1-5'")
        try:
            next(CronSim(cron, datetime.now(UTC)))
        except (CronSimError, ValueError) as error:
            raise ConfigError(
                f"{legible(repr(cron), 80)} is not a cron expression ({error}): like '30 6 * * 1-5'"
            ) from error
        except StopIteration:
            raise ConfigError(
                f"{legible(repr(cron), 80)} never comes: a date that no year has"
            ) from None

    def job_id(self, time: datetime) -> str:
        """The `_id` of the job, or of the plan, for a due time."""
        return f"{self.name}@{time.astimezone(UTC).isoformat()}"

    @property
    def key(self) -> str | None:
        """The key of its jobs: where they must not overlap there is one, and so one unfinished job
        at most."""
        return f"schedule:{self.name}" if self.overlap == "skip" else None

    @property
    def what(self) -> str:
        """What it inserts, for people: its task, or which steps its plan has."""
        return self.task if self.plan is None else f"plan: {', '.join(self._inserted.steps)}"

    @property
    def tasks(self) -> tuple[str, ...]:
        """The tasks of what it inserts."""
        if self.plan is None:
            return (self.task,)
        return self._inserted.tasks

    @property
    def _inserted(self) -> PlanRecord:
        return PlanRecord.from_document(self.plan or {})

    def plan_document(self) -> dict[str, Any]:
        """The plan of a due time but for its name and number: one that must not overlap with the
        one before has a key."""
        given = {name: value for name, value in (self.plan or {}).items() if name not in _OF_NODES}
        key = {} if self.key is None else {"key": self.key}
        return {"name": self.name, **key, **given, "schedule": self.name}

    def times_after(self, moment: datetime) -> Iterator[datetime]:
        """The times it is due after `moment`, for ever."""
        if self.cron is not None:
            zone = ZoneInfo(self.timezone)
            return _rising(
                (time.astimezone(UTC) for time in CronSim(self.cron, moment.astimezone(zone))),
                moment,
            )
        step = timedelta(seconds=self.every or 1)
        return _steps(moment, step)

    def next_after(self, moment: datetime) -> datetime:
        """When it is due for the first time after `moment`; an interval begins there."""
        with self._computing():
            return next(self.times_after(moment))

    def mended(self, now: datetime) -> datetime | None:
        """What `next_at` should be, where it is missing or later than the next due time; None where
        all is well.

        It is later after a server's clock was ahead for a while, or when somebody changed the
        times. Times of the last minute are due again then, because they may have been passed over:
        one that was fired has its job already. A minute is tolerated, so that servers whose clocks
        differ a little do not take turns.
        """
        if self.off:
            return None
        if self.next_at is None:
            return self.next_after(now)
        if self.next_at <= self._due_after(now + LATE_AFTER, self.next_at):
            return None
        return self._due_after(now - LATE_AFTER, self.next_at)

    def _due_after(self, moment: datetime, known: datetime) -> datetime:
        """The first due time after `moment`; an interval keeps in step with one that is known."""
        if self.every is None:
            return self.next_after(moment)
        with self._computing():
            step = timedelta(seconds=self.every)
            return known - ((known - moment - _TICK) // step) * step

    def fire(self, now: datetime) -> tuple[list[datetime], datetime]:
        """The due times to fire now, and when to look again: `next_at` from then on.

        Times of the last minute are fired, each. Older ones were missed, and `missed` says what
        becomes of them.
        """
        if self.next_at is None or self.next_at > now:
            return [], self.next_at or self.next_after(now)
        with self._computing():
            return self._fire(self.next_at, now)

    def _fire(self, next_at: datetime, now: datetime) -> tuple[list[datetime], datetime]:
        if self.missed == "all":
            due = list(
                islice(
                    takewhile(lambda time: time <= now, self._times_from(next_at)), FIRED_AT_ONCE
                )
            )
            return due, next(self.times_after(due[-1]))
        missed = self._last_missed(next_at, now - LATE_AFTER)
        start = next_at if missed is None else next(self.times_after(missed))
        due = list(
            islice(takewhile(lambda time: time <= now, self._times_from(start)), FIRED_AT_ONCE)
        )
        if missed is not None and self.missed == "once":
            due.insert(0, missed)
        return due, next(self.times_after(due[-1] if due else missed or now))

    def _times_from(self, start: datetime) -> Iterator[datetime]:
        yield start
        yield from self.times_after(start)

    def _last_missed(self, next_at: datetime, until: datetime) -> datetime | None:
        """The newest due time up to `until`, without walking through a year of them; None when
        there is none."""
        if next_at > until:
            return None
        if self.every is not None:
            step = timedelta(seconds=self.every)
            return next_at + (until - next_at) // step * step
        zone = ZoneInfo(self.timezone)
        backwards = CronSim(
            self.cron or "", (until + timedelta(seconds=1)).astimezone(zone), reverse=True
        )
        return max(next(backwards).astimezone(UTC), next_at)

    @contextmanager
    def _computing(self) -> Iterator[None]:
        try:
            yield
        except (StopIteration, OverflowError, ValueError) as error:
            why = str(error) or "there is none"
            raise ConfigError(f"its next time cannot be computed ({why}): add it again") from error


@dataclass(frozen=True, slots=True)
class Broken:
    """A document that cannot be a schedule, and why."""

    name: str
    why: str


@dataclass(frozen=True, slots=True)
class LastRun:
    """The last job, or plan, that a schedule inserted, as it is now; without a number it is there
    no longer."""

    id: Any
    """Its `_id`."""
    seq: int | None = None
    """Its number."""
    state: JobState | PlanState | None = None
    """Where it is in its life; a plan that nobody has accepted yet has none."""
    at: datetime | None = None
    """When it ended, or began, or was inserted."""


@dataclass(frozen=True, slots=True)
class Standing:
    """A schedule and what is known around it: its last run, why it cannot fire, and what somebody
    should look at."""

    name: str
    """Of the schedule."""
    schedule: Schedule | None = None
    """The schedule; None where its document cannot be one."""
    broken: str | None = None
    """Why it cannot be one, or cannot fire."""
    last: LastRun | None = None
    """The last job that it inserted."""
    warnings: tuple[str, ...] = ()
    """What somebody should look at."""
    is_removed: bool = False
    """By an operator, although a module declares it."""


_OF_NODES = ("_id", "seq", "state")
"""What a plan gets anew each time."""
_FIELDS = frozenset(one.name for one in fields(Schedule)) - {"name"}


def _count(value: Any) -> int:
    return int(value) if is_whole(value) and value >= 0 else 0


def _is_text(value: object) -> bool:
    return is_text(value) and 0 < len(value) <= LONGEST_TEXT


def _rising(times: Iterable[datetime], after: datetime) -> Iterator[datetime]:
    """Each once: cron may name one that has passed where clocks are set back, and one twice where
    they skip an hour."""
    for time in times:
        if time > after:
            yield time
            after = time


def _steps(moment: datetime, step: timedelta) -> Iterator[datetime]:
    while True:
        moment += step
        yield moment
