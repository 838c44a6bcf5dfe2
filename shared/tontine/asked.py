"""What callers of both clients give, as the store operations want it."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from bson import ObjectId
from pymongo.errors import ConfigurationError

from . import plan_calls
from .calls import AnyTask, Args, named
from .config import Duration, database_for, seconds
from .errors import ConfigError
from .plan import Plan
from .plan_calls import Planned
from .records.job import Job
from .records.schedule import Missed, Overlap, Schedule
from .store.call import AsyncStore, Store

Which = Job | int | str | ObjectId | Any
"""A job by a record of it, its number, or its `_id`; text of digits is a number first, and then an
`_id`."""


def _seconds(duration: Duration | None) -> float | None:
    return None if duration is None else seconds(duration)


def open_transaction(session: Any, store: Store | AsyncStore | None) -> Any:
    """The session if a transaction is open in it; without one it changes nothing, as for any other
    insert."""
    if session is None:
        return None
    if store is None or session.client is not store.database.client:
        raise ConfigError(
            "this session belongs to another MongoDB client than the jobs would go through: "
            "make this client from that one, like Client(mongo_client)"
        )
    if session.has_ended:
        raise ConfigError("this session has ended: submit inside of its `with` block")
    return session if session.in_transaction else None


def schedule_of(
    name: str,
    task: AnyTask | Planned,
    args: Args,
    cron: str | None,
    every: Duration | None,
    timezone: str,
    missed: Missed,
    overlap: Overlap,
    max_age: Duration | None,
) -> Schedule:
    task_name, plan = "", None
    if isinstance(task, Plan | Mapping):
        plan = plan_calls.document_of(task)
    else:
        task_name, args = named(task, args)
    wanted = Schedule(
        name,
        task_name,
        {} if args is None else args,
        cron,
        _seconds(every),
        timezone,
        missed,
        overlap=overlap,
        max_age=_seconds(max_age),
        plan=plan,
    )
    wanted.check()
    return wanted


def name_for(mongo: Any, given: str | None) -> str:
    """The database to use of a client that the application brings."""
    try:
        own = str(mongo.get_default_database().name)
    except ConfigurationError:  # its URI named none
        own = None
    return database_for(given, own)
