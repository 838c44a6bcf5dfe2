"""A process that hangs ends after its second signal, and at once after the third."""

from __future__ import annotations

import subprocess
import sys

import pytest

PROGRAM = """
import os, sys, threading
from tontine_node import last_resort
last_resort.END_WITHIN = {limit}
resort = last_resort.LastResort(lambda: os.write(1, b"killed the workers"))
{calls}
hanging = threading.Lock()
hanging.acquire()
hanging.acquire(timeout={hangs})
resort.disarm()
"""


def run(calls: str, limit: float, hangs: float = 60.0) -> subprocess.CompletedProcess[str]:
    program = PROGRAM.format(calls=calls, limit=limit, hangs=hangs)
    return subprocess.run(
        [sys.executable, "-c", program], capture_output=True, text=True, timeout=60, check=False
    )


@pytest.mark.parametrize(
    ("calls", "limit"), [("resort.arm(); resort.arm()", 0.1), ("resort.end_now()", 3600.0)]
)
def test_whatever_hangs_it_ends_its_workers_and_itself(calls: str, limit: float) -> None:
    ended = run(calls, limit)
    assert (ended.returncode, ended.stdout) == (1, "killed the workers")
    assert "ended by force" in ended.stderr


@pytest.mark.parametrize("calls", ["", "resort.arm()"])
def test_what_ends_in_time_ends_as_ever(calls: str) -> None:
    ended = run(calls, limit=3600.0, hangs=0.1)
    assert (ended.returncode, ended.stdout, ended.stderr) == (0, "", "")
