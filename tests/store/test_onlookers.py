"""Whatever is in the documents, who looks on is told something and meets no traceback."""

from __future__ import annotations

import traceback
from collections.abc import Iterable, Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import pytest
from click import ClickException
from click.testing import CliRunner
from pymongo import MongoClient

from tests.support import odd
from tontine.cli import tontine
from tontine.errors import TontineError
from tontine.store import schema
from tontine.store.call import Store

pytestmark = pytest.mark.long

AT = datetime(2024, 1, 1, tzinfo=UTC)
JOB = {
    "task": "story.echo",
    "args": {},
    "attempt": 1,
    "fails": 0,
    "lost": 0,
    "created_at": AT,
    "meta": {},
}
STATES: tuple[dict[str, Any], ...] = (
    {"state": "queued", "run_at": AT},
    {"state": "queued", "priority": 3},
    {"state": "working", "node": "a-1", "started_at": AT},
    {"state": "failed", "node": "a-1", "finished_at": AT, "error": {"type": "E", "message": "m"}},
)
JOB_FIELDS = (
    "task",
    "args",
    "state",
    "attempt",
    "fails",
    "lost",
    "created_at",
    "run_at",
    "priority",
    "key",
    "max_attempts",
    "timeout",
    "node",
    "started_at",
    "finished_at",
    "error",
    "errors",
    "result",
    "progress",
    "meta",
    "parent",
    "schedule",
    "start_by",
    "unique_for",
    "held_key",
    "held_until",
    "cancel",
    "expire_at",
    "seq",
)
MANY_TIMES = [field for field in JOB_FIELDS if field not in ("key", "held_key", "seq")]
NODE = {
    "name": "",
    "state": "waiting",
    "desired": "running",
    "beat": 3,
    "tick": 3,
    "lease": 20.0,
    "slots": 1,
    "running": 0,
    "host": "here",
    "pid": 1,
    "version": "1",
    "modules": [],
    "metrics": {},
    "troubles": [],
    "share": {"epoch": 1, "rank": 0, "size": 1},
    "started_at": AT,
    "lease_until": AT,
}
SCHEDULE = {"task": "story.echo", "every": 60, "next_at": AT, "last_job": "x", "timezone": "UTC"}
SCHEDULE_FIELDS = (
    "task",
    "args",
    "cron",
    "every",
    "timezone",
    "missed",
    "next_at",
    "overlap",
    "max_age",
    "off",
    "declared",
    "removed",
    "last_job",
)


def jobs() -> Iterator[dict[str, Any]]:
    """Every odd value in every field of jobs in each state; of what must be unique each once."""
    number = 0
    for state in STATES:
        for field in JOB_FIELDS if state is STATES[0] else MANY_TIMES:
            for name in odd.VALUES:
                number += 1
                document = {"_id": f"job-{number}", "seq": odd.number(number), **JOB, **state}
                if name != odd.LONG or field in ("task", "error"):
                    yield odd.with_odd(document, **{field: name})


def others(usual: dict[str, Any], fields: Iterable[str]) -> list[dict[str, Any]]:
    return [
        odd.with_odd(
            {**usual, "_id": f"{field} {name}", "name": f"{field} {name}"}, **{field: name}
        )
        for field in fields
        for name in odd.VALUES
        if name != odd.LONG
    ]


@pytest.fixture(scope="module")
def where(mongo_uri: str, mongo_client: MongoClient[dict[str, object]]) -> Iterator[dict[str, str]]:
    """The environment of commands that look at a database full of odd documents."""
    database = mongo_client[f"onlookers_{uuid4().hex[:8]}"]
    Store(database).run(schema.init())
    assert odd.put(database.jobs, list(jobs())) > 3000
    assert odd.put(database.nodes, others(NODE, NODE)) > 500
    assert odd.put(database.schedules, others(SCHEDULE, SCHEDULE_FIELDS)) > 400
    yield {"TONTINE_URI": mongo_uri, "TONTINE_DATABASE": database.name}
    mongo_client.drop_database(database.name)


ONE_OF = 37
"""A few of each field and value are enough every day."""


def is_crash(error: BaseException | None) -> bool:
    return not isinstance(error, SystemExit | TontineError | ClickException | None)


COMMANDS = (
    "doctor",
    "doctor --json",
    "audit",
    "audit --json",
    "nodes",
    "nodes --json",
    "nodes --check",
    "schedule ls",
    "schedule ls --json",
    "observe --once",
    "jobs",
    "jobs --json -n 5000",
    "jobs --state failed",
    "jobs --state queued -n 5000",
    "jobs --state working -n 5000",
    "purge --all --dry-run",
)


@pytest.mark.parametrize("command", COMMANDS)
def test_a_command_that_looks_on_meets_no_traceback(command: str, where: dict[str, str]) -> None:
    ended = CliRunner().invoke(tontine, command.split(), env=where)
    assert not is_crash(ended.exception), "".join(traceback.format_exception(ended.exception))


@pytest.mark.parametrize("command", ["why", "job --json"])
def test_a_command_about_an_odd_job_meets_no_traceback(command: str, where: dict[str, str]) -> None:
    crashes: dict[str, str] = {}
    for number in range(1, len(STATES) * len(JOB_FIELDS) * len(odd.VALUES), ONE_OF):
        ended = CliRunner().invoke(tontine, [*command.split(), str(number)], env=where)
        if is_crash(ended.exception):
            text = "".join(traceback.format_exception(ended.exception))
            crashes.setdefault(text[-300:], f"{number}\n{text}")
    assert not crashes, "\n".join(crashes.values())
