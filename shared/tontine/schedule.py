"""Schedules: when a recurring job is due, which missed times count, and when it is due next. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from dataclasses import dataclass, field
from datetime import UTC, datetime, timedelta
from itertools import islice, takewhile
from typing import Any, Literal, get_args
from zoneinfo import ZoneInfo, ZoneInfoNotFoundError

from cronsim import CronSim, CronSimError

from .errors import ConfigError

Missed = Literal["skip", "once", "all"]

LATE_AFTER = timedelta(seconds=60)
"""A time that is past for longer was missed: nobody was there to fire it."""
FIRED_AT_ONCE = 100
LONGEST = 100 * 365 * 86400.0


@dataclass(frozen=True, slots=True)
class Schedule:
    """A recurring job: at the times of a cron expression in a time zone, or every so many seconds."""

    name: str
    task: str
    args: Mapping[str, Any] = field(default_factory=dict)
    cron: str | None = None
    every: float | None = None
    timezone: str = "UTC"
    missed: Missed = "once"
    next_at: datetime | None = None

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> Schedule:
        return cls(
            name=str(document["_id"]),
            task=document["task"],
            args=document.get("args") or {},
            cron=document.get("cron"),
            every=document.get("every"),
            timezone=document.get("timezone") or "UTC",
            missed=document.get("missed") or "once",
            next_at=document.get("next_at"),
        )

    def to_document(self) -> dict[str, Any]:
        values = {"cron": self.cron, "every": self.every}
        return {
            "_id": self.name,
            "task": self.task,
            "args": dict(self.args),
            **{name: value for name, value in values.items() if value is not None},
            "timezone": self.timezone,
            "missed": self.missed,
            "next_at": self.next_at,
        }

    def check(self) -> None:
        """Refuse what can never fire."""
        if not self.name or not self.task:
            raise ConfigError("a schedule needs a name and a task")
        if (self.cron is None) == (self.every is None):
            raise ConfigError("give a schedule either a cron expression or an interval")
        if self.every is not None and self.every < 1:
            raise ConfigError(f"an interval of {self.every:g} s is too short: a schedule fires at most once a second")
        if self.every is not None and self.every > LONGEST:
            raise ConfigError(f"an interval of {self.every:g} s is more than a century")
        if self.every is not None and self.timezone != "UTC":
            raise ConfigError("a time zone goes with a cron expression: an interval is the same everywhere")
        if self.missed not in get_args(Missed):
            raise ConfigError(f"missed={self.missed!r} is none of skip, once and all")
        try:
            ZoneInfo(self.timezone)
        except (ZoneInfoNotFoundError, ValueError) as error:
            raise ConfigError(f"there is no time zone {self.timezone!r}: write it like Europe/Paris") from error
        if self.cron is not None:
            try:
                CronSim(self.cron, datetime.now(UTC))
            except CronSimError as error:
                raise ConfigError(f"{self.cron!r} is not a cron expression ({error}): like '30 6 * * 1-5'") from error

    def times_after(self, moment: datetime) -> Iterator[datetime]:
        """The times it is due after `moment`, for ever."""
        if self.cron is not None:
            zone = ZoneInfo(self.timezone)
            return (time.astimezone(UTC) for time in CronSim(self.cron, moment.astimezone(zone)))
        step = timedelta(seconds=self.every or 1)
        return _steps(moment, step)

    def fire(self, now: datetime) -> tuple[list[datetime], datetime]:
        """The due times to fire now, and when to look again: `next_at` from then on.

        Times of the last minute are fired, each. Older ones were missed, and `missed` says what becomes of them.
        """
        if self.next_at is None or self.next_at > now:
            return [], self.next_at or next(self.times_after(now))
        if self.missed == "all":
            due = list(islice(takewhile(lambda time: time <= now, self._times_from(self.next_at)), FIRED_AT_ONCE))
            return due, next(self.times_after(due[-1]))
        missed = self._last_missed(now - LATE_AFTER)
        start = self.next_at if missed is None else next(self.times_after(missed))
        due = list(islice(takewhile(lambda time: time <= now, self._times_from(start)), FIRED_AT_ONCE))
        if missed is not None and self.missed == "once":
            due.insert(0, missed)
        return due, next(self.times_after(due[-1] if due else missed or now))

    def _times_from(self, start: datetime) -> Iterator[datetime]:
        yield start
        yield from self.times_after(start)

    def _last_missed(self, until: datetime) -> datetime | None:
        """The newest due time up to `until`, without walking through a year of them; None when there is none."""
        assert self.next_at is not None  # noqa: S101
        if self.next_at > until:
            return None
        if self.every is not None:
            step = timedelta(seconds=self.every)
            return self.next_at + (until - self.next_at) // step * step
        zone = ZoneInfo(self.timezone)
        backwards = CronSim(self.cron or "", (until + timedelta(seconds=1)).astimezone(zone), reverse=True)
        return max(next(backwards).astimezone(UTC), self.next_at)


def _steps(moment: datetime, step: timedelta) -> Iterator[datetime]:
    while True:
        moment += step
        yield moment
