"""The nodes: who is there, in which state, what each does and how well. Pure."""

from __future__ import annotations

from tontine.records.states import NodeState

from ...draw.columns import Column
from ...draw.line import Line, Span
from ...draw.plot import spark, squeeze
from ...draw.words import age, short
from ...query.filters import Facts
from ...records.node import RATE_STEPS, NodeRow
from ..layout import NODES
from .alert import alarmed
from .scene import Scene
from .states import node_state
from .table import Table

COLUMNS = (
    Column("node", "NODE", 8, 99, most=22),
    Column("state", "STATE", 14, 98, most=16, is_whole=True),
    Column("rank", "SHARE", 5, 70, is_right=True),
    Column("load", "BUSY", 4, 75, is_right=True, key="running"),
    Column("job", "JOB", 7, 60, is_whole=True),
    Column("for", "FOR", 5, 35, is_right=True, key="job_for"),
    Column("done", "DONE", 5, 50, is_right=True),
    Column("failed", "FAIL", 4, 45, is_right=True),
    Column("beat", "BEAT", 4, 72, is_right=True),
    Column("host", "HOST", 8, 20, most=16),
    Column("version", "VER", 5, 10, most=8),
    Column("rate", "RATE 60 s", 10, 40, most=RATE_STEPS),
)
FIELDS = frozenset(
    {
        "node",
        "state",
        "rank",
        "running",
        "job",
        "job_for",
        "done",
        "failed",
        "beat",
        "host",
        "version",
        "note",
        "task",
    }
)
LONG_FOR = 30.0
SKEWED = 0.5
"""Of a lease."""


def facts(node: NodeRow, _: Scene) -> Facts:
    return {
        "node": node.name,
        "state": node.seen,
        "rank": None if node.rank is None else float(node.rank),
        "running": float(node.running),
        "job": None if node.job is None else float(node.job),
        "job_for": node.job_for,
        "done": float(node.done),
        "failed": float(node.failed),
        "beat": node.beat_age,
        "host": node.host,
        "version": node.version,
        "note": node.note,
        "task": " ".join(task for module in node.modules for task in module.tasks),
    }


def cells(node: NodeRow, scene: Scene, widths: dict[str, int]) -> dict[str, Span | Line]:
    is_dead = node.state == "dead"
    role = "muted" if is_dead else "text"
    busy = "good" if node.running else "muted"
    return {
        "node": (node.name, _name_role(node, scene)),
        "state": _state(node, scene),
        "rank": ("-", "faint") if node.rank is None else (_share(node), role),
        "load": (f"{node.running}/{node.slots}", "faint" if is_dead else busy),
        "job": _job(node),
        "for": (age(node.job_for), "warn" if (node.job_for or 0) > LONG_FOR else role),
        "done": (short(node.done), role),
        "failed": (short(node.failed), "text" if node.failed else "faint"),
        "beat": _beat(node, scene),
        "host": (node.host, "muted"),
        "version": (node.version, "muted"),
        "rate": (_rate(node, scene, min(RATE_STEPS, widths.get("rate", 0))), "spark"),
    }


def _rate(node: NodeRow, scene: Scene, width: int) -> str:
    """The whole minute, and all nodes to one scale, which ends at the fastest step of any: who does
    most is seen."""
    if scene.top_rate is None:
        scene.top_rate = max((max(one.rate, default=0.0) for one in scene.picture.nodes), default=0)
    minute = [None] * (RATE_STEPS - len(node.rate)) + list(node.rate)
    return spark(squeeze(minute, width), width, scene.glyphs, scene.top_rate)


def _name_role(node: NodeRow, scene: Scene) -> str:
    """Red is for what the second line speaks of."""
    if node.id in alarmed(scene):
        return "bad.strong"
    return "muted" if node.state == "dead" else "strong"


def _state(node: NodeRow, scene: Scene) -> Span | Line:
    text, role = node_state(node.seen, scene.glyphs)
    if node.is_silent:
        return f"{text} {age(node.beat_age)}", role
    if node.state == "dead":
        gone = (
            ""
            if node.died_at is None
            else f" {age((scene.picture.at - node.died_at).total_seconds())}"
        )
        return text + gone, role
    if node.troubles or node.faults:
        is_told = node.id in alarmed(scene)
        return [(text, role), (f" {scene.glyphs.alert}", "bad.strong" if is_told else "warn")]
    if node.note:
        return [(text, role), (f" {node.note}", "warn")]
    if node.job_for is not None and node.job_for > LONG_FOR:
        return [(text, role), (f" >{LONG_FOR:.0f}s", "warn")]
    return text, role


def _share(node: NodeRow) -> str:
    return f"{node.rank}/{node.share.size}" if node.share else f"{node.rank}"


def _job(node: NodeRow) -> Span:
    if node.job is None:
        return "-", "faint"
    if node.is_job_doubtful:
        return f"#{node.job}?", "warn"
    return f"#{node.job}", "job.working"


def _beat(node: NodeRow, scene: Scene) -> Span:
    if node.skew is not None and node.lease and abs(node.skew) > SKEWED * node.lease:
        return f"~{age(abs(node.skew))}", "warn"
    if node.state == "dead" or not scene.picture.link.is_fresh:
        return age(node.beat_age), "faint"
    return age(node.beat_age), node_state(node.seen, scene.glyphs)[1] if node.is_silent else "text"


def _empty(scene: Scene) -> str:
    if scene.view.lists[NODES].chosen:
        return "no node matches the filter (esc clears it)"
    if "nodes" in scene.picture.link.refused:
        return f"the nodes may not be read: {scene.picture.link.refused['nodes']}"
    return "no node yet: start one with `tontine node MODULE`"


TABLE: Table[NodeRow] = Table(
    NODES,
    COLUMNS,
    lambda scene: scene.picture.nodes,
    lambda node: node.id,
    facts,
    cells,
    _empty,
    FIELDS,
    is_over=lambda node: node.state == NodeState.DEAD,
)
