"""An eager queue and a real node come to the same about the same jobs."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tontine import Client, Job
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
]


def seen(job: Job) -> dict[str, Any]:
    """All of a job but its times and its place."""
    error = job.error and (job.error.type, job.error.message, bool(job.error.traceback))
    errors = [(one.type, one.message, bool(one.traceback)) for one in job.errors]
    return {
        **{name: getattr(job, name) for name in ("task", "args", "state", "attempt", "fails", "lost", "result")},
        **{name: getattr(job, name) for name in ("cancel", "max_attempts", "priority", "key")},
        "error": error,
        "errors": errors,
        "times": [getattr(job, name) is not None for name in ("created_at", "started_at", "finished_at")],
    }


def outcomes(client: Client) -> list[dict[str, Any]]:
    jobs = [client.submit(f"both.{name}", args, **options) for name, args, options in JOBS]
    ended = client.wait(jobs, timeout=60)
    later = client.submit("both.flaky", {"until": 2}, key="one", delay=3600, max_attempts=1)
    same = client.submit("both.flaky", {"until": 2}, key="one")
    cancelled = client.cancel(later.seq)
    failed = client.wait(client.retry(later.seq), timeout=60)
    done = client.wait(client.retry(later.seq), timeout=60)
    return [seen(job) for job in (*jobs, *ended, later, same, cancelled, failed, done)]


def test_they_agree(cluster: Cluster, tmp_path: Path) -> None:
    file = tmp_path / "both_tasks.py"
    file.write_text(TASKS)
    cluster.launch("a", modules=str(file))
    with Client(cluster.database) as client:
        real = outcomes(client)
    assert outcomes(EagerQueue(str(file))) == real
