"""What tasks see and say: hooks, the lines of the node's log, the last progress; the examples of
docs/hooks.md."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path
from typing import Any
from uuid import uuid4

import orjson
import pytest
from pymongo import MongoClient

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.records.job import Progress
from tontine.store import schema
from tontine.store.call import Store
from tontine.testing import NodeProcess

pytestmark = pytest.mark.story

PAGE = (ROOT / "docs" / "hooks.md").read_text()


def example(name: str) -> str:
    (found,) = re.findall(rf"```python {name}\n(.*?)```", PAGE, re.DOTALL)
    return str(found)


@pytest.fixture(scope="module")
def lasting(
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, object]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Cluster]:
    """One node for all of this page, whose log is JSON."""
    store = Store(mongo_client[f"hooks_{uuid4().hex[:8]}"])
    store.run(schema.init())
    directory = tmp_path_factory.mktemp("hooks")
    (directory / "hooked_tasks.py").write_text(example("tasks.py"))
    cluster = Cluster(mongo_uri, store, directory)
    before = os.environ.get("NOTES")
    os.environ["NOTES"] = str(directory / "notes")
    cluster.begin(
        "a", "--json", "-v", "--processes", "2", modules=str(directory / "hooked_tasks.py")
    )
    os.environ.pop("NOTES") if before is None else os.environ.update(NOTES=before)
    cluster.wait_for_members(1)
    yield cluster
    cluster.close()
    mongo_client.drop_database(store.database.name)


@pytest.fixture
def client(lasting: Cluster) -> Iterator[Client]:
    with Client(lasting.database) as client:
        yield client


@pytest.fixture
def node(lasting: Cluster) -> NodeProcess:
    (node,) = lasting.nodes
    return node


def notes(lasting: Cluster) -> list[str]:
    return (lasting.directory / "notes").read_text().splitlines()


def logged(node: NodeProcess, seq: int | None) -> list[dict[str, Any]]:
    """What the log says of a job; all that is in it is JSON."""
    lines = [orjson.loads(line) for line in node.text().splitlines()]
    return [line for line in lines if line.get("seq") == seq]


def test_hooks_run_in_the_workers_around_each_attempt(
    lasting: Cluster, node: NodeProcess, client: Client
) -> None:
    started = eventually(
        lambda: [line for line in notes(lasting) if line.endswith("started")][1:],
        60,
        "both workers have started",
    )
    assert len(started) == 1
    assert len({line for line in notes(lasting) if line.endswith("started")}) == 2
    before = len(notes(lasting))
    client.wait(client.submit("shop.resize", {"image": "good.png"}), timeout=60)
    client.wait(client.submit("shop.resize", {"image": "away.png"}), timeout=60)
    assert notes(lasting)[before:] == [
        "shop.resize done 'good.png' None",
        "shop.resize retry None ConnectionError('the store of images is away')",
        "shop.resize failed None ConnectionError('the store of images is away')",
        "shop.resize failed for good: ConnectionError('the store of images is away')",
    ]
    assert len({line for line in notes(lasting) if line.endswith("started")}) == 2, (
        "once per worker"
    )


def test_a_failed_job_is_in_the_log_with_everything(node: NodeProcess, client: Client) -> None:
    job = client.wait(client.submit("shop.resize", {"image": "odd.png"}, key="k"), timeout=60)
    assert (job.state, job.fails) == ("failed", 1), "it is none of those that are tried again"
    found = eventually(
        lambda: [one for one in logged(node, job.seq) if one["event"] == "job-failed"],
        60,
        "it is said",
    )
    assert [one["event"] for one in logged(node, job.seq)] == [
        "job-begins",
        "printed",
        "job-failed",
    ]
    (failed,) = found
    assert (failed["level"], failed["key"], failed["error_type"]) == ("error", "k", "ValueError")
    assert (failed["attempt"], failed["max_attempts"], failed["node"]) == (1, 2, job.node)
    assert "raise ValueError" in failed["traceback"]
    assert 'tasks.py"' in failed["traceback"].splitlines()[1], "the user's code comes first"
    printed = logged(node, job.seq)[1]
    assert (printed["message"], printed["task"], printed["stream"]) == (
        "resizing odd.png",
        "shop.resize",
        "stdout",
    )


def test_an_attempt_that_is_tried_again_says_when(node: NodeProcess, client: Client) -> None:
    job = client.wait(client.submit("shop.resize", {"image": "away.png"}), timeout=60)
    events = ["job-begins", "printed", "attempt-failed", "job-begins", "printed", "job-failed"]
    eventually(
        lambda: [one["event"] for one in logged(node, job.seq)] == events,
        60,
        "both attempts are said",
    )
    assert logged(node, job.seq)[2]["again_in"] == 0.1


def test_the_last_progress_of_a_job_is_kept_however_quickly_it_ended(client: Client) -> None:
    done = client.wait(client.submit("shop.resize", {"image": "good.png"}), timeout=60)
    failed = client.wait(client.submit("shop.resize", {"image": "odd.png"}), timeout=60)
    assert (done.state, failed.state) == ("done", "failed")
    assert done.progress == failed.progress == Progress(0.67, "almost")


def test_what_is_raised_before_a_job_fails_its_attempt(lasting: Cluster, client: Client) -> None:
    job = {"task": "shop.resize", "args": {"image": "good.png"}, "meta": {"tenant": "closed"}}
    at = lasting.database.jobs.insert_one(job).inserted_id
    ended = eventually(
        lambda: lasting.database.jobs.find_one({"_id": at, "state": "failed"}), 60, "it has failed"
    )
    assert ended["error"]["type"] == "PermissionError"


def run_example(code: str, tmp_path: Path) -> subprocess.CompletedProcess[str]:
    """In a process of its own: both set up what is one for the process."""
    script = tmp_path / "example.py"
    script.write_text(code)
    return subprocess.run(
        [sys.executable, str(script)],
        check=False,
        capture_output=True,
        text=True,
        timeout=180,
        env={**os.environ, "PYTHONPATH": str(ROOT)},
    )


SENTRY = """
from sentry_sdk.transport import Transport
from tests.support.lone_worker import attempt, lone_worker

class Memory(Transport):
    events = []
    def capture_envelope(self, envelope):
        self.events.append(envelope.get_event())

with lone_worker(shop) as worker:
    sentry_sdk.init("https://key@sentry.invalid/1", transport=Memory)
    ended = attempt(worker, "shop.resize", {"image": "a.png"}, meta={"tenant": "acme"}, key="k")
    assert ended[0] == "failed"
    sentry_sdk.get_client().close()
(event,) = Memory.events
assert event["tags"]["task"] == "shop.resize", event["tags"]
assert event["contexts"]["job"] == {"seq": 7, "attempt": 1, "key": "k", "meta": {"tenant": "acme"}}
(error,) = event["exception"]["values"]
assert (error["type"], error["value"]) == ("ValueError", "a.png is no image")
"""

TRACED = """
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from tests.support.lone_worker import attempt, lone_worker

memory = InMemorySpanExporter()
with lone_worker(shop) as worker:
    trace.get_tracer_provider().add_span_processor(SimpleSpanProcessor(memory))
    parent = "00-0af7651916cd43dd8448eb211c80319c-b7ad6b7169203331-01"
    ended = attempt(worker, "shop.resize", {"image": "a.png"}, meta={"traceparent": parent})
    assert ended == ("done", "a.png")
decode, run = memory.get_finished_spans()
assert (decode.name, run.name) == ("decode", "run shop.resize")
assert decode.parent == run.context
assert format(run.parent.span_id, "x") == "b7ad6b7169203331"
"""


@pytest.mark.parametrize(
    ("name", "check"), [("sentry_tasks.py", SENTRY), ("traced_tasks.py", TRACED)]
)
def test_the_examples_report_and_trace(name: str, check: str, tmp_path: Path) -> None:
    ended = run_example(example(name) + check, tmp_path)
    assert ended.returncode == 0, ended.stderr
