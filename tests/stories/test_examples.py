"""The examples do what their pages say."""

from __future__ import annotations

import subprocess
import sys

import pytest

from tests.support.cluster import ROOT, Cluster
from tontine import Client

pytestmark = [pytest.mark.story, pytest.mark.long]


def test_the_hello_example_greets(cluster: Cluster) -> None:
    cluster.begin("a", modules="examples/hello/tasks.py")
    with Client(cluster.database) as client:
        greeting = client.submit("hello.greet", {"name": "Ada"})
        counts = client.submit_many("hello.count", [{"to": 2}] * 3)
        assert (
            client.wait(greeting, timeout=60).result == f"Hello, Ada! This is job {greeting.seq}."
        )
        assert [job.result for job in client.wait(counts, timeout=60)] == [2, 2, 2]


@pytest.mark.parametrize(
    ("example", "tests"),
    [
        ("shop", 4),
        ("fastapi_app", 2),
        ("django_app", 3),
        ("mail", 3),
        ("album", 2),
        ("photobox", 6),
    ],
)
def test_an_example_passes_its_own_tests(example: str, tests: int) -> None:
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        command,
        capture_output=True,
        text=True,
        cwd=ROOT / "examples" / example,
        timeout=120,
        check=False,
    )
    assert ended.returncode == 0, ended.stdout
    assert f"{tests} passed" in ended.stdout
