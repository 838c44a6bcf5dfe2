"""A throw-away venv for each peer, below .bench/, with pinned versions; made once and kept until
the pins change."""

from __future__ import annotations

import os
import subprocess
import sys
from pathlib import Path

from tontine.errors import TontineError

from .progress import say

ROOT = Path(__file__).resolve().parents[1]
VENVS = ROOT / ".bench"

PINS = {
    "pgqueuer": ["pgqueuer==1.6.0", "asyncpg==0.32.0", "uvloop==0.23.0"],
    "celery": [
        "celery==5.7.0",
        "redis==8.1.0",
        "packaging==26.3",
    ],  # which kombu imports and does not ask for
    "dramatiq": ["dramatiq==2.2.1", "redis==8.1.0"],
    "huey": ["huey==3.5.4", "redis==8.1.0"],
    "taskiq": ["taskiq==0.13.0", "taskiq-redis==1.2.4", "redis==8.1.0"],
}


def python_of(peer: str) -> Path:
    """The Python of a peer's venv, which is made if need be."""
    venv, pins = VENVS / peer, PINS[peer]
    stamp = venv / "pins"
    if not stamp.exists() or stamp.read_text() != " ".join(pins):
        say(f"installing {', '.join(pins)} into .bench/{peer}")
        _run(sys.executable, "-m", "venv", "--clear", str(venv))
        _run(
            str(venv / "bin/python"),
            "-m",
            "pip",
            "install",
            "-qq",
            "--disable-pip-version-check",
            *pins,
        )
        stamp.write_text(" ".join(pins))
    return venv / "bin/python"


def environment() -> dict[str, str]:
    """Ours, but for what would lead a peer's Python to our own packages."""
    return {
        name: value
        for name, value in os.environ.items()
        if name not in {"PYTHONPATH", "VIRTUAL_ENV"}
    }


def _run(*command: str) -> None:
    ran = subprocess.run(command, capture_output=True, text=True, check=False, env=environment())
    if ran.returncode:
        raise TontineError(f"{' '.join(command[:5])} ... failed: {ran.stderr.strip()[-500:]}")
