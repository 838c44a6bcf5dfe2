"""An eager queue and a real node come to the same about the same jobs."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import asdict
from functools import partial
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tontine import Client, Job, TontineError
from tontine.records.schedule import Schedule
from tontine.testing import EagerQueue

pytestmark = pytest.mark.story

TASKS = """
from datetime import datetime, timezone
from tenacity import wait_fixed
from tontine import Module, Reject, Retry, current_job

both = Module("both")

@both.task
def echo(value):
    current_job().progress(0.5, "half")
    return value

@both.task(max_attempts=3, backoff=wait_fixed(0.01))
def flaky(until):
    if current_job().attempt < until:
        raise ConnectionError(f"attempt {current_job().attempt}")
    return current_job().attempt

@both.task(max_attempts=9)
async def picky(amount):
    if amount < 0:
        raise Reject("never")
    if current_job().attempt == 1:
        raise Retry("later", in_=0.01)
    return amount

@both.task
def odd():
    return {1, 2}

@both.task
def leave():
    raise SystemExit("gone")

@both.task
def parent():
    given = {"meta": {"tenant": 7}, "max_age": 60, "key": "child", "unique_for": 3600}
    first = current_job().submit("both.echo", {"value": 1}, **given)
    again = current_job().submit("both.echo", {"value": 1}, **given)
    return [first.seq == again.seq, first.existed, again.existed]

@both.schedule(cron="0 3 * * *", overlap="skip", max_age="1h")
@both.task
def nightly():
    pass

@both.before_job
async def check(job):
    if job.meta.get("tenant") == "closed":
        raise PermissionError("closed")

@both.task(max_attempts=2, backoff=lambda state: 1 / 0)
def hopeless():
    raise ValueError("no")
"""

JOBS: list[tuple[str, dict[str, Any], dict[str, Any]]] = [
    ("echo", {"value": {"a": [1, 2.5, None, True, "x", b"y"], "b": (1, 2)}}, {}),
    ("echo", {}, {}),
    ("echo", {"valeu": 1}, {}),
    ("flaky", {"until": 1}, {}),
    ("flaky", {"until": 3}, {}),
    ("flaky", {"until": 9}, {}),
    ("flaky", {"until": 3}, {"max_attempts": 2}),
    ("picky", {"amount": 5}, {}),
    ("picky", {"amount": -5}, {}),
    ("odd", {}, {}),
    ("leave", {}, {}),
    ("hopeless", {}, {}),
    ("echo", {"value": 1}, {"meta": {"tenant": "closed"}}),
    ("parent", {}, {}),
]


def seen(job: Job) -> dict[str, Any]:
    """All of a job but its times and its place."""
    error = job.error and (job.error.type, job.error.message, bool(job.error.traceback))
    errors = [(one.type, one.message, bool(one.traceback)) for one in job.errors]
    return {
        **{
            name: getattr(job, name)
            for name in ("task", "args", "state", "attempt", "fails", "lost", "result")
        },
        **{
            name: getattr(job, name)
            for name in ("cancel", "max_attempts", "priority", "key", "meta")
        },
        "error": error,
        "errors": errors,
        "times": [
            getattr(job, name) is not None for name in ("created_at", "started_at", "finished_at")
        ],
    }


def outcomes(client: Client) -> list[dict[str, Any]]:
    jobs = [client.submit(f"both.{name}", args, **options) for name, args, options in JOBS]
    ended = client.wait(jobs, timeout=60)
    later = client.submit("both.flaky", {"until": 2}, key="one", delay=3600, max_attempts=1)
    same = client.submit("both.flaky", {"until": 2}, key="one")
    cancelled = client.cancel(later.seq)
    failed = client.wait(client.retry(later.seq), timeout=60)
    done = client.wait(client.retry(later.seq), timeout=60)
    meant = [client.get(one) for one in (later, later.seq, str(later.seq), later.id, str(later.id))]
    found = [
        *meant,
        client.get(key="one"),
        *client.find(task="both.e*", error="*closed*"),
        client.get(ended[-1]),
    ]
    child = client.wait(next(client.find(key="child", limit=1)), timeout=60)
    return [
        seen(job) for job in (*jobs, *ended, later, same, cancelled, failed, done, *found, child)
    ]


def what_is_refused(client: Client) -> list[str]:
    """The words for what cannot be meant."""
    calls: list[Callable[[], object]] = [
        *(partial(client.get, which) for which in (None, 10**6, "abc", True, -1)),
        *(
            partial(client.cancel, key="nobody's"),
            partial(client.retry, "abc"),
            partial(client.find, limit=-1),
        ),
        *(partial(client.schedule, "odd", "both.echo", cron=cron) for cron in ("never", None)),
        partial(client.submit, "both.echo", unique_for=60),
        *(
            partial(call, "echo")
            for call in (client.submit, partial(client.schedule, "odd", every="1m"))
        ),
        partial(client.submit, print),
    ]
    return [refusal(call) for call in calls]


def refusal(call: Callable[[], object]) -> str:
    with pytest.raises(TontineError) as refused:
        call()
    return f"{refused.type.__name__}: {refused.value}"


def schedules(client: Client) -> list[Any]:
    added = client.schedule(
        "hourly", "both.echo", {"value": 1}, every="1h", max_age="10m", missed="skip"
    )
    told = [
        (one.name, one.last, one.schedule and defined(one.schedule)) for one in client.schedules()
    ]
    return [
        defined(added),
        told,
        client.count(schedule="hourly"),
        client.unschedule("hourly"),
        client.unschedule("x"),
    ]


def defined(schedule: Schedule) -> dict[str, Any]:
    """All of a schedule but its times."""
    declared = schedule.declared and (schedule.declared.module, schedule.declared.digest)
    return {**asdict(schedule), "next_at": schedule.next_at is not None, "declared": declared}


def test_they_agree(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "both_tasks.py"
    file.write_text(TASKS)
    cluster.begin("a", modules=str(file))
    with Client(cluster.database) as client:
        real = outcomes(client)
        refused, scheduled = what_is_refused(client), schedules(client)
    queue = EagerQueue(str(file), schedules=True)
    assert outcomes(queue) == real
    assert what_is_refused(queue) == refused
    assert schedules(queue) == scheduled
