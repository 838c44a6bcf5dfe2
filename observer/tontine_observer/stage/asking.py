"""What can be asked of nodes and jobs: whether it can now, what follows from it, what must be typed first. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tontine.legible import count

from ..records.job import JobRow
from ..records.link import Mode
from ..records.node import NodeRow
from .panes.scene import Scene

MOST = 1000
"""Jobs in one request."""
_JOB_STATES = {"retry": ("failed", "cancelled"), "cancel": ("queued", "working")}
_WORDS = {"pause": "Pause", "resume": "Resume", "stop": "Drain", "retry": "Retry", "cancel": "Cancel jobs"}


@dataclass(frozen=True, slots=True)
class Intent:
    """Something to ask, with what to tell the user first."""

    verb: str
    targets: tuple[str | int, ...]
    expected: dict[str | int, str]
    """The state each target is in on this screen: if it has changed, nothing is done."""
    title: str
    button: str
    sentences: tuple[str, ...]
    word: str = ""


def refusal(scene: Scene) -> str:
    """Why nothing can be asked at the moment; empty when it can."""
    link = scene.picture.link
    if link.read_only:
        return f"read-only: {link.read_only}"
    if scene.view.at is not None:
        return "you look at the past: end returns to now, then ask again"
    if scene.view.is_frozen:
        return "the picture is frozen: space returns to now, then ask again"
    if link.mode is Mode.REPLAY:
        return "this is a recording: there is nobody to ask"
    if not link.is_fresh:
        return "the store does not answer: what you see may have changed"
    return ""


def about_node(verb: str, node: NodeRow | None, scene: Scene) -> Intent | str:
    """Pause, resume or stop a node; or why that makes no sense."""
    if no := refusal(scene):
        return no
    if node is None:
        return "there is no node under the cursor"
    if node.state == "dead":
        return f"{node.name} is dead: nothing can be asked of it"
    if node.desired == "stopped":
        return f"{node.name} was asked to stop already"
    wanted = {"pause": "paused", "resume": "running"}.get(verb)
    if wanted is not None and node.desired == wanted:
        return f"{node.name} was asked to {'pause' if verb == 'pause' else 'work'} already"
    word = node.name if verb == "stop" else ""
    sentences = tuple(_consequences(verb, node, scene))
    title = f"{_WORDS[verb]} {node.name}?"
    return Intent(verb, (node.id,), {node.id: node.state}, title, _WORDS[verb], sentences, word)


def _consequences(verb: str, node: NodeRow, scene: Scene) -> list[str]:
    size = scene.picture.status.members
    running = f"It finishes the {count(node.running, 'job')} it runs and claims no more." if node.running else ""
    if verb == "resume":
        grown = size if node.id in scene.picture.members else size + 1
        return [f"{node.name} joins the roster and works again: members {size} → {grown}."]
    if node.id not in scene.picture.members:
        return ["It is no member of the roster: no share changes hands.", running]
    after = max(0, size - 1)
    moved, known = _moved(node, scene)
    heirs = f"Its share is inherited by the others: members {size} → {after}." if after else "Nobody is left to work."
    owners = f"Of {count(known, 'queued job')} known here, {moved:,} change their owner." if known else ""
    end = "Then it leaves and its process ends." if verb == "stop" else "It stays and beats until it is resumed."
    return [sentence for sentence in (running, heirs, owners, end) if sentence]


def _moved(node: NodeRow, scene: Scene) -> tuple[int, int]:
    """How many queued jobs get another owner when a member leaves, and of how many that is known."""
    before = scene.picture.members
    after = tuple(member for member in before if member != node.id)
    queued = [row.seq for row in scene.jobs.rows if row.state == "queued" and row.seq is not None]
    if not after:
        return len(queued), len(queued)
    return sum(before[seq % len(before)] != after[seq % len(after)] for seq in queued), len(queued)


def about_jobs(verb: str, rows: Sequence[JobRow], scene: Scene) -> Intent | str:
    """Retry or cancel jobs; or why that makes no sense."""
    if no := refusal(scene):
        return no
    if not rows:
        return "there is no job under the cursor"
    states = _JOB_STATES[verb]
    fitting = [row for row in rows if row.state in states and row.seq is not None]
    if not fitting:
        what = f"#{rows[0].seq} is {rows[0].state}" if len(rows) == 1 else "none of these jobs is"
        return f"{what}: {verb} is for jobs that are {' or '.join(states)}"
    if len(fitting) > MOST:
        return f"{len(fitting):,} jobs at once are too many: {MOST:,} is the most"
    seqs = tuple(row.seq for row in fitting if row.seq is not None)
    expected: dict[str | int, str] = {row.seq: row.state for row in fitting if row.seq is not None}
    name = f"#{seqs[0]}" if len(seqs) == 1 else count(len(seqs), "job")
    sentences = tuple(_job_consequences(verb, fitting, len(rows)))
    word = str(len(seqs)) if len(seqs) > 1 else ""
    title = f"{'Retry' if verb == 'retry' else 'Cancel'} {name}?"
    return Intent(verb, seqs, expected, title, _WORDS[verb] if verb == "cancel" else "Retry", sentences, word)


def _job_consequences(verb: str, rows: Sequence[JobRow], of: int) -> list[str]:
    told = []
    if len(rows) < of:
        told.append(
            f"{of - len(rows):,} of the {of:,} are in a state for which this makes no sense and stay as they are."
        )
    if verb == "retry":
        return [*told, "Back to the queue for a new attempt. Attempts go on counting; earlier errors are kept."]
    queued = sum(row.state == "queued" for row in rows)
    if queued:
        told.append(f"{count(queued, 'queued job')} will be cancelled at once.")
    if len(rows) > queued:
        told.append(f"The nodes are asked to end {count(len(rows) - queued, 'job')} that they hold.")
    return told
