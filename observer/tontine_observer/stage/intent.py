"""What can be asked of nodes, jobs and plans: whether it can now, what follows from it, what must
be typed first."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tontine.legible import count

from ..records.job import JobRow
from ..records.ledger import FailureRow, ScheduleRow
from ..records.link import Mode
from ..records.node import NodeRow
from ..records.plan import PlanRow
from ..records.request import MOST, Request
from ..records.share import ShareRow
from .layout import FAILURES, JOBS, NODES, PLANS, SCHEDULES, SHARES, TIME
from .panes.scene import Scene
from .stage import Stage

_JOB_STATES = {"retry": ("failed", "cancelled"), "cancel": ("queued", "working")}
_PLAN_STATES = {"retry": ("failed", "cancelled", "stuck"), "cancel": ("new", "running")}
_BUTTONS = {
    "pause": "Pause",
    "resume": "Resume",
    "stop": "Stop",
    "retry": "Retry",
    "cancel": "Cancel jobs",
    "run": "Run now",
    "on": "Switch on",
    "off": "Switch off",
}
_OF_NODES = ("pause", "resume", "stop")
_OF_SCHEDULES = ("run", "switch")


@dataclass(frozen=True, slots=True)
class Intent:
    """Something to ask, with what to tell the user first."""

    request: Request
    title: str
    button: str
    sentences: tuple[str, ...]
    word: str = ""
    """What must be typed to do it."""


def refusal(scene: Scene) -> str:
    """Why nothing can be asked at the moment; empty when it can."""
    link = scene.picture.link
    if link.read_only:
        return f"read-only: {link.read_only}"
    if scene.view.at is not None:
        return "you look at the past: space returns to now, then ask again"
    if scene.view.is_frozen:
        return "the picture is frozen: space returns to now, then ask again"
    if link.mode is Mode.REPLAY:
        return "this is a recording: there is nobody to ask"
    if not link.is_fresh:
        return "the store does not answer: what you see may have changed"
    return ""


def intend(
    verb: str, stage: Stage, subject: NodeRow | JobRow | PlanRow | None = None
) -> Intent | str:
    """What to ask of the subject, or of what the cursor is on; or why that makes no sense."""
    if reason := refusal(stage.scene):
        return reason
    if verb in _OF_NODES:
        node = subject if isinstance(subject, NodeRow) else node_under_cursor(stage)
        return _about_node(verb, node, stage.scene)
    if verb in _OF_SCHEDULES:
        return _about_schedule(verb, stage.current(SCHEDULES))
    if stage.view.focus == FAILURES and subject is None:
        return _about_failures(verb, stage.current(FAILURES))
    if isinstance(subject, PlanRow) or (stage.view.focus == PLANS and subject is None):
        return _about_plan(verb, subject or stage.current(PLANS))
    rows = [subject] if isinstance(subject, JobRow) else _chosen_jobs(stage)
    if not rows and stage.view.marked:
        marked = count(len(stage.view.marked), "marked job")
        return f"{marked} not listed any more: the filter that found them does, and esc unmarks"
    return _about_jobs(verb, rows)


def _about_schedule(verb: str, row: ScheduleRow | None) -> Intent | str:
    if row is None:
        return "there is no schedule under the cursor"
    if not row.is_usable:
        return f"{row.name} cannot be asked anything: {row.note}"
    if verb == "run":
        told = "A job of it is submitted now, beside its times."
    elif row.is_off:
        verb, told = (
            "on",
            "It goes on from now; times that have passed meanwhile are not made up for.",
        )
    else:
        verb, told = (
            "off",
            "It inserts no more jobs until it is switched on; those it has inserted stay.",
        )
    return Intent(
        Request(verb, (row.name,), {row.name: "off" if row.is_off else "on"}),
        title=f"{_BUTTONS[verb]}: {row.name}?",
        button=_BUTTONS[verb],
        sentences=(told,),
    )


def _about_failures(verb: str, row: FailureRow | None) -> Intent | str:
    if row is None:
        return "there is no failure under the cursor"
    what = f"{row.task}, {row.kind}"
    if verb == "cancel":
        if not row.again:
            return f"{what}: none of these jobs will be tried again, so there is nothing to cancel"
        return _about_jobs(verb, row.again)
    if not row.seqs:
        return f"{what}: these jobs will be tried again by themselves"
    told = [f"All jobs of {row.task} that failed with {row.kind}: {row.message}"]
    if row.count > len(row.seqs):
        told = [f"The newest {len(row.seqs):,} of {row.count:,}, then again for the others."]
    return Intent(
        Request(verb, row.seqs, dict.fromkeys(row.seqs, "failed")),
        title=f"Retry {count(len(row.seqs), 'job')} of {row.task}?",
        button=_BUTTONS[verb],
        sentences=(*told, *_job_consequences(verb, ["failed"] * len(row.seqs), len(row.seqs))),
        word=str(len(row.seqs)) if len(row.seqs) > 1 else "",
    )


def _about_plan(verb: str, row: PlanRow | None) -> Intent | str:
    if row is None:
        return "there is no plan under the cursor"
    if row.seq is None:
        return "this plan has no number yet: nodes give it one"
    states = _PLAN_STATES[verb]
    if row.state not in states:
        return f"plan {row.seq} is {row.state}: {verb} is for plans that are {' or '.join(states)}"
    return Intent(
        Request(verb, (row.seq,), {row.seq: row.state}, is_plan=True),
        title=f"{verb.capitalize()} plan {row.seq}?",
        button="Retry" if verb == "retry" else "Cancel plan",
        sentences=_plan_consequences(verb, row),
    )


def _plan_consequences(verb: str, row: PlanRow) -> tuple[str, ...]:
    if verb == "cancel":
        return (
            "Nothing more of it starts, and what runs is asked to end.",
            "Then what was done is undone, the last first, as far as its steps say how.",
        )
    if row.state == "stuck":
        return ("The undos that failed are tried again, and then those that wait for them.",)
    return ("It goes on with what did not succeed; what is done is not run again.",)


def node_under_cursor(stage: Stage) -> NodeRow | None:
    pane, wanted = stage.view.focus, ""
    if pane == NODES:
        row: NodeRow | None = stage.current(NODES)
        return row
    if pane == SHARES:
        share: ShareRow | None = stage.current(SHARES)
        wanted = share.owner if share is not None else ""
    elif pane == TIME:
        wanted = stage.view.lists[TIME].key
    return next((node for node in stage.scene.picture.nodes if node.id == wanted), None)


def _chosen_jobs(stage: Stage) -> list[JobRow]:
    """Those that are marked, else the one under the cursor."""
    if stage.view.marked:
        return [row for row in stage.scene.jobs.rows if row.seq in stage.view.marked]
    row = stage.current(JOBS)
    return [row] if row is not None else []


def _about_node(verb: str, node: NodeRow | None, scene: Scene) -> Intent | str:
    if node is None:
        return "there is no node under the cursor"
    if node.state == "dead":
        return f"{node.name} is dead: nothing can be asked of it"
    if node.desired == "stopped":
        return f"{node.name} was asked to stop already"
    if verb == "pause" and node.desired == "paused":
        return f"{node.name} was asked to pause already"
    if verb == "resume" and node.desired == "running":
        return f"{node.name} was asked to work already"
    return Intent(
        Request(verb, (node.id,), {node.id: node.state}),
        title=f"{_BUTTONS[verb]} {node.name}?",
        button=_BUTTONS[verb],
        sentences=tuple(_consequences(verb, node, scene)),
        word=node.name if verb == "stop" else "",
    )


def _consequences(verb: str, node: NodeRow, scene: Scene) -> list[str]:
    size = scene.picture.status.members
    running = (
        f"It finishes the {count(node.running, 'job')} it runs and claims no more."
        if node.running
        else ""
    )
    if verb == "resume":
        grown = size if node.id in scene.picture.members else size + 1
        return [f"{node.name} joins the roster and works again: members {size} → {grown}."]
    if node.id not in scene.picture.members:
        return ["It is no member of the roster: no share changes hands.", running]
    after = max(0, size - 1)
    moved, known = _moved(node, scene)
    heirs = (
        f"Its share is inherited by the others: members {size} → {after}."
        if after
        else "Nobody is left to work."
    )
    owners = (
        f"Of {count(known, 'queued job')} known here, {moved:,} change their owner."
        if known
        else ""
    )
    end = (
        "Then it leaves and its process ends."
        if verb == "stop"
        else "It stays and beats until it is resumed."
    )
    return [sentence for sentence in (running, heirs, owners, end) if sentence]


def _moved(node: NodeRow, scene: Scene) -> tuple[int, int]:
    """How many queued jobs get another owner when a member leaves, and of how many that is
    known."""
    before = scene.picture.roster
    after = before.without(node.id)
    queued = [
        (row.seq, row.task)
        for row in scene.jobs.rows
        if row.state == "queued" and row.seq is not None
    ]
    return sum(before.owner_of(*job) != after.owner_of(*job) for job in queued), len(queued)


def _about_jobs(verb: str, rows: Sequence[JobRow]) -> Intent | str:
    if not rows:
        return "there is no job under the cursor"
    states = _JOB_STATES[verb]
    expected: dict[str | int, str] = {
        row.seq: row.state for row in rows if row.state in states and row.seq is not None
    }
    if not expected:
        what = f"#{rows[0].seq} is {rows[0].state}" if len(rows) == 1 else "none of these jobs is"
        return f"{what}: {verb} is for jobs that are {' or '.join(states)}"
    if len(expected) > MOST:
        return f"{len(expected):,} jobs at once are too many: {MOST:,} is the most"
    seqs = tuple(expected)
    name = f"#{seqs[0]}" if len(seqs) == 1 else count(len(seqs), "job")
    return Intent(
        Request(verb, seqs, expected),
        title=f"{verb.capitalize()} {name}?",
        button=_BUTTONS[verb],
        sentences=tuple(_job_consequences(verb, list(expected.values()), len(rows))),
        word=str(len(seqs)) if len(seqs) > 1 else "",
    )


def _job_consequences(verb: str, states: Sequence[str], of: int) -> list[str]:
    told = []
    if others := of - len(states):
        told.append(
            f"{others:,} of the {of:,} are in a state for which this makes no sense and stay as "
            "they are."
        )
    if verb == "retry":
        return [
            *told,
            (
                "Back to the queue for a new attempt. Attempts go on counting; earlier errors are "
                "kept."
            ),
        ]
    queued = states.count("queued")
    if queued:
        told.append(f"{count(queued, 'queued job')} will be cancelled at once.")
    if held := len(states) - queued:
        told.append(f"The nodes are asked to end {count(held, 'job')} that they hold.")
    return told
