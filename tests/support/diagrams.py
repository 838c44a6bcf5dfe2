"""docs/states.md, drawn from the tables that the code uses."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path

from tontine.records.states import JOB_MOVES, NODE_MOVES, PLAN_MOVES

DOCUMENT = Path(__file__).resolve().parents[2] / "docs" / "states.md"

WORDS = {
    "initializing": "registered, its workers are loading the modules",
    "waiting": "in the roster, nothing to do",
    "working": "in the roster, jobs in hand",
    "paused": "out of the roster by request; it still beats and repairs",
    "dead": "stopped, or its lease ran out; for ever",
    "queued": "waits for its number, its time or a node",
    "done": "its result is stored",
    "failed": "its last error is stored",
    "cancelled": "ended by request",
}

PLAN_WORDS = {
    "running": "its steps become jobs",
    "stopping": "a step failed, or it was cancelled: what runs comes to its end",
    "undoing": "its steps are undone, the last first",
    "closing": "its `finally` is under way",
    "done": "all of its steps ended well",
    "failed": "a step failed, or it could be no plan",
    "cancelled": "ended by request",
    "undone": "it failed or was cancelled, and what was done of it is undone",
    "stuck": "an undo failed",
    "removing": "its time is over: its jobs go, then it does",
}


def draw(moves: Mapping[str, frozenset[str]]) -> list[str]:
    lines = ["```mermaid", "stateDiagram-v2", f"  [*] --> {next(iter(moves))}"]
    for state, targets in moves.items():
        lines += [f"  {state} --> {target}" for target in sorted(targets)]
        if not targets:
            lines.append(f"  {state} --> [*]")
    return [*lines, "```"]


def table(moves: Mapping[str, frozenset[str]], words: Mapping[str, str]) -> list[str]:
    lines = ["| state | meaning | may become |", "| --- | --- | --- |"]
    for state, targets in moves.items():
        lines.append(
            f"| `{state}` | {words[state]} | "
            f"{', '.join(f'`{one}`' for one in sorted(targets)) or 'nothing'} |"
        )
    return lines


def text() -> str:
    job_words = {**WORDS, "working": "claimed by a node, whether started or not"}
    origin = (
        "Made by `scripts/diagrams` from `shared/tontine/records/states.py`; a test keeps "
        "it current."
    )
    lines = ["# States", "", origin, ""]
    lines += ["## Nodes", "", *draw(NODE_MOVES), "", *table(NODE_MOVES, WORDS), ""]  # type: ignore[arg-type]
    lines += ["## Jobs", "", *draw(JOB_MOVES), "", *table(JOB_MOVES, job_words), ""]  # type: ignore[arg-type]
    lines += [
        (
            "A final job goes back to `queued` only by `tontine retry`. A queued job becomes "
            "`failed` without being"
        )
    ]
    lines += ["claimed when it cannot be a job at all.", ""]
    lines += ["## Plans", "", *draw(PLAN_MOVES), "", *table(PLAN_MOVES, PLAN_WORDS), ""]  # type: ignore[arg-type]
    return "\n".join(lines)


if __name__ == "__main__":
    DOCUMENT.write_text(text())
