"""Which jobs are meant: one record for listing, counting and changing many, its condition, and its
words. Pure."""

from __future__ import annotations

import difflib
import re
from collections.abc import Iterable, Mapping
from dataclasses import dataclass, fields, replace
from datetime import UTC, datetime, timedelta
from typing import Any, TypedDict

from bson.regex import Regex

from .config import seconds
from .errors import ConfigError
from .legible import legible
from .records.job import utc
from .records.states import FINAL, JobState
from .records.task_key import MARK, has_range, name_of

Moment = datetime | timedelta | float | str
"""An instant, or how long ago."""

_LONGEST = timedelta(days=100 * 365)
_INCARNATION = r"-[0-9a-f]{8}"
"""What a node's id has after its name."""


class Filters(TypedDict, total=False):
    """The keywords of `find`, `count`, `cancel_many`, `retry_many` and `purge`; in texts `*` stands
    for any text."""

    state: str | Iterable[str] | None
    """`queued`, `working`, `done`, `failed` or `cancelled`; one or several."""
    task: str | None
    """Like `shop.resize` or `shop.*`, whichever versions a job asks for; with a range only that."""
    key: str | None
    """Like `welcome-ada` or `welcome-*`."""
    since: Moment | None
    """Not earlier: about the end where only ended jobs are meant, about the submission otherwise.
    """
    until: Moment | None
    """Earlier than this."""
    error: str | None
    """The type of an error, or with `*` a pattern for its type or message."""
    schedule: str | None
    """The schedule that inserted them."""
    node: str | None
    """The name or id of the node that holds them, or held them last."""


@dataclass(frozen=True, slots=True)
class Filter:
    """Which jobs are meant; all that is said must hold. In texts `*` stands for any text.

    Times are those of the end where only ended jobs are meant, of the submission otherwise. `error`
    is an error's type, or with `*` a pattern for its type or message. `node` is a name or an id.
    """

    states: frozenset[JobState] = frozenset()
    task: str | None = None
    key: str | None = None
    since: datetime | timedelta | None = None
    until: datetime | timedelta | None = None
    error: str | None = None
    schedule: str | None = None
    node: str | None = None

    def __post_init__(self) -> None:
        for name in ("task", "key", "error", "schedule", "node"):
            value = getattr(self, name)
            if value is not None and (not isinstance(value, str) or not value):
                raise ConfigError(
                    f"the filter `{name}` must be a text, not {value!r}: is a variable not set?"
                )

    @classmethod
    def of(cls, **filters: Any) -> Filter:
        """The filter of these keywords; those that are None say nothing."""
        known = [*Filters.__annotations__]
        for name in filters:
            if name not in known:
                near = difflib.get_close_matches(name, known, 1)
                hint = f"did you mean {near[0]!r}?" if near else f"there are {', '.join(known)}"
                raise ConfigError(f"there is no filter {name!r}: {hint}")
        state, since, until = (filters.pop(name, None) for name in ("state", "since", "until"))
        return cls(states=_states(state), since=moment(since), until=moment(until), **filters)

    @property
    def says_nothing(self) -> bool:
        return all(getattr(self, field.name) in (None, frozenset()) for field in fields(self))

    @property
    def is_ended_only(self) -> bool:
        return bool(self.states) and self.states <= FINAL

    @property
    def time_field(self) -> str:
        """The field that `since` and `until` are about."""
        return "finished_at" if self.is_ended_only else "created_at"

    def meaning(self, allowed: Iterable[JobState], unsaid: Iterable[JobState], deed: str) -> Filter:
        """The same for a deed that is for some states only; `unsaid` are those that are meant where
        none is named."""
        if odd := self.states - frozenset(allowed):
            raise ConfigError(f"{_or(odd)} jobs cannot be {deed}: only {_or(allowed)} ones can")
        return replace(self, states=self.states or frozenset(unsaid))

    def anchored(self, now: datetime) -> Filter:
        """The same with instants for all times: what is meant must not move while it is gone
        through."""
        since, until = (
            now - one if isinstance(one, timedelta) else one for one in (self.since, self.until)
        )
        if since is not None and until is not None and since > until:
            raise ConfigError(
                f"nothing lies between {_shown(since)} and {_shown(until)}: `since` is the "
                "earlier one"
            )
        return replace(self, since=since, until=until)

    def where(self) -> dict[str, Any]:
        """The condition for MongoDB, all but the number; of a filter that is anchored."""
        where: dict[str, Any] = {}
        if self.states:
            where["state"] = {"$in": sorted(self.states)}
        if self.task is not None:
            where["task"] = matching_task(self.task)
        for name in ("key", "schedule"):
            if (text := getattr(self, name)) is not None:
                where[name] = matching(text)
        if self.node is not None:
            by_name = {"$regex": f"^{_pattern(self.node)}{_INCARNATION}\\z"}
            where["$or"] = [{"node": matching(self.node)}, {"node": by_name}]
        if self.error is not None:
            where["$and"] = [_error(self.error)]
        return where | self.times()

    def meets(self, job: Mapping[str, Any]) -> bool:
        """Whether a document meets the condition of `where`, for whoever has it in memory."""
        texts = (("key", self.key), ("schedule", self.schedule))
        return (
            (not self.states or job.get("state") in self.states)
            and (self.task is None or matches_task(self.task, job.get("task")))
            and all(text is None or matches(text, job.get(name)) for name, text in texts)
            and (self.node is None or _is_node(self.node, job.get("node")))
            and (self.error is None or _is_error(self.error, job.get("error")))
            and self._is_between(job.get(self.time_field))
        )

    def _is_between(self, time: Any) -> bool:
        since, until = (
            _as_stored(one) if isinstance(one, datetime) else None
            for one in (self.since, self.until)
        )
        if since is None and until is None:
            return True
        return (
            isinstance(time, datetime)
            and (since is None or time >= since)
            and (until is None or time < until)
        )

    def times(self) -> dict[str, Any]:
        """The part of the condition that is about times."""
        bounds = {
            name: one
            for name, one in (("$gte", self.since), ("$lt", self.until))
            if one is not None
        }
        return {self.time_field: bounds} if bounds else {}

    def words(self, number: str) -> str:
        """So many such jobs, as one says it: 3 failed jobs of shop.resize with the error
        Timeout."""
        noun = "job" if number == "1" else "jobs"
        ended = "ended" if self.is_ended_only else "were submitted"
        parts = [
            *([f"of {legible(self.task, 100)}"] if self.task else []),
            *([f"of the schedule {legible(self.schedule, 100)}"] if self.schedule else []),
            *([f"on the node {legible(self.node, 100)}"] if self.node else []),
            *([f"with the key {legible(self.key, 100)}"] if self.key else []),
            *([f"with the error {legible(self.error, 100)}"] if self.error else []),
            *([f"that {ended} {' and '.join(times)}"] if (times := self._when()) else []),
        ]
        return " ".join([number, *([_or(self.states)] if self.states else []), noun, *parts])

    def _when(self) -> list[str]:
        bounds = (("since", self.since), ("before", self.until))
        return [f"{word} {_shown(moment)}" for word, moment in bounds if moment is not None]


def chosen(filters: Filters, *, every: bool) -> Filter:
    """The filter of a call that changes jobs: all of them only where that is said."""
    meant = Filter.of(**filters)
    if meant.says_nothing and not every:
        raise ConfigError(
            "this would change every job: say which with a filter like task=, or all=True"
        )
    return meant


def purged(filters: Filters, older_than: Moment | None, *, every: bool) -> Filter:
    """The filter of a purge, where `older_than` is another word for `until`."""
    if older_than is None:
        return chosen(filters, every=every)
    if filters.get("until") is not None:
        raise ConfigError("give `older_than` or `until`, not both: they mean the same")
    return chosen({**filters, "until": older_than}, every=every)


def moment(value: Moment | None) -> datetime | timedelta | None:
    """An instant, or how long ago: from `2h`, seconds, a timedelta, a datetime or its text in ISO
    8601."""
    if value is None:
        return None
    if isinstance(value, datetime):
        return utc(value)
    if isinstance(value, str) and (instant := _instant(value)):
        return instant
    try:
        ago = timedelta(seconds=seconds(value))
    except (ConfigError, OverflowError, ValueError):
        ago = None
    if ago is None or not timedelta(0) <= ago <= _LONGEST:
        raise ConfigError(
            f"{legible(value, 60)!r} is no time: say how long ago, like 2h or 7d, or an instant, "
            "like 2030-01-31T06:00"
        )
    return ago


def _instant(text: str) -> datetime | None:
    # A bare number is a number of seconds, as everywhere, although ISO 8601 could read a date from
    # it.
    if not re.match(r"\s*\d{4}-", text):
        return None
    try:
        return utc(datetime.fromisoformat(text.strip()))
    except (ValueError, OverflowError):
        return None


def matching(text: str) -> Any:
    """A condition on a text: equality, or with `*` a pattern, which can use an index unless it
    begins with that."""
    return {"$regex": f"^{_pattern(text)}\\z", "$options": "s"} if "*" in text else text


def matching_task(text: str) -> Any:
    """A condition on a task key: by the name of the task, whatever range a key has, unless the text
    names one (MO7). It uses an index as `matching` does."""
    if has_range(text):
        return matching(text)
    if "*" not in text:
        return {"$in": [text, Regex(f"^{re.escape(text)}{MARK}")]}
    return {"$regex": f"^{_name_pattern(text)}({MARK}.*)?\\z", "$options": "s"}


def _name_pattern(text: str) -> str:
    return f"[^{MARK}]*".join(re.escape(part) for part in text.split("*"))


def _pattern(text: str) -> str:
    return ".*".join(re.escape(part) for part in text.split("*"))


def _error(text: str) -> dict[str, Any]:
    if "*" not in text:
        return {"error.type": text}
    return {"$or": [{"error.type": matching(text)}, {"error.message": matching(text)}]}


def _as_stored(time: datetime) -> datetime:
    """MongoDB knows no microseconds, in conditions neither."""
    return time.replace(microsecond=time.microsecond // 1000 * 1000)


def matches(text: str, value: Any) -> bool:
    """Whether a value meets that condition."""
    if "*" not in text:
        return bool(value == text)
    return isinstance(value, str) and re.fullmatch(_pattern(text), value, re.DOTALL) is not None


def matches_task(text: str, value: Any) -> bool:
    """Whether a task key meets that condition."""
    if has_range(text) or not isinstance(value, str):
        return matches(text, value)
    return matches(text, name_of(value))


def _is_node(text: str, value: Any) -> bool:
    by_name = re.compile(f"{_pattern(text)}{_INCARNATION}", re.DOTALL)
    return matches(text, value) or (isinstance(value, str) and by_name.fullmatch(value) is not None)


def _is_error(text: str, value: Any) -> bool:
    if not isinstance(value, Mapping):
        return False
    return matches(text, value.get("type")) or ("*" in text and matches(text, value.get("message")))


def _states(state: Any) -> frozenset[JobState]:
    if state is None:
        return frozenset()
    names = [state] if isinstance(state, str) else list(state)
    for name in names:
        if name not in [known.value for known in JobState]:
            raise ConfigError(
                f"there is no state {legible(name, 60)!r}: there are {', '.join(JobState)}"
            )
    return frozenset(map(JobState, names))


def _or(states: Iterable[JobState]) -> str:
    names = [state.value for state in JobState if state in frozenset(states)]
    return " or ".join(filter(None, [", ".join(names[:-1]), names[-1]]))


def _shown(moment: datetime | timedelta) -> str:
    return (
        f"{moment.astimezone(UTC):%Y-%m-%d %H:%M:%S} UTC"
        if isinstance(moment, datetime)
        else f"{moment} ago"
    )
