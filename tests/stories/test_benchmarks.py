"""`scripts/bench` works from end to end. How fast anything is, is never asserted."""

from __future__ import annotations

import json
import subprocess
import sys
from pathlib import Path

import psutil
import pytest

ROOT = Path(__file__).resolve().parents[2]

pytestmark = [pytest.mark.story, pytest.mark.long]


def bench(*options: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "benchmarks", *options]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=170
    )
    assert "Traceback" not in ran.stderr
    return ran


def test_a_quick_drain_without_peers_gives_figures_and_a_ratio_and_leaves_nothing(
    tmp_path: Path,
) -> None:
    (tmp_path / "tmp").mkdir()
    command = ["env", f"TMPDIR={tmp_path / 'tmp'}", sys.executable, "-m", "benchmarks"]
    command += [
        "--quick",
        "--only",
        "drain",
        "--peers",
        "none",
        "--sizes",
        "200",
        "--out",
        str(tmp_path / "out"),
    ]
    ran = subprocess.run(
        command, cwd=ROOT, capture_output=True, text=True, check=False, timeout=170
    )
    assert ran.returncode == 0, ran.stderr
    found = json.loads((tmp_path / "out/bench.json").read_text())
    rates = {
        one["contender"]: one["median"] for one in found["figures"] if one["measure"] == "200 jobs"
    }
    assert set(rates) == {"Tontine", "bare loop"}
    assert min(rates.values()) > 0
    assert found["left_out"] == []
    assert [one["target"] for one in found["targets"]] == ["drain 200 jobs: Tontine / bare loop"]
    assert "drain 200 jobs: Tontine / bare loop" in ran.stdout
    assert list((tmp_path / "tmp").iterdir()) == []
    assert processes_of(tmp_path) == []


def test_quick_plans_without_peers_are_measured_beside_plain_jobs(tmp_path: Path) -> None:
    ran = bench("--quick", "--only", "plans", "--peers", "none", "--out", str(tmp_path))
    assert ran.returncode == 0, ran.stderr
    found = json.loads((tmp_path / "bench.json").read_text())
    assert found["left_out"] == []
    assert len(found["figures"]) == 6
    assert min(one["median"] for one in found["figures"]) > 0
    assert [one["target"] for one in found["targets"]] == [
        "plans: items of a map / the same as plain jobs",
        "plans: end of one step to start of the next, p50 / submit to start of a plain job, p50",
    ]


def processes_of(directory: Path) -> list[int]:
    """Servers and nodes that work in that directory."""
    return [
        process.pid
        for process in psutil.process_iter(["cmdline"])
        if any(str(directory) in word for word in process.info["cmdline"] or ())
    ]


@pytest.mark.parametrize(
    "options",
    [
        ("--only", "speed"),
        ("--peers", "rabbits"),
        ("--sizes", "many"),
        ("--sizes", "1"),
        ("--rounds", "0"),
    ],
    ids=" ".join,
)
def test_bad_input_is_refused_before_anything_starts(options: tuple[str, ...]) -> None:
    ran = bench(*options)
    assert (ran.returncode, ran.stdout) == (2, "")
    assert options[0] in ran.stderr
