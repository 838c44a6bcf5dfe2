"""A state as people see it: glyph, word and hue. What is not known is shown as it is. Pure."""

from __future__ import annotations

from ...draw.glyphs import Glyphs
from ...draw.line import Span


def node_state(state: str, glyphs: Glyphs) -> Span:
    known = state in glyphs.node
    return f"{glyphs.node.get(state, '?')} {state}", f"node.{state}" if known else "bad"


def job_state(state: str, glyphs: Glyphs) -> Span:
    known = state in glyphs.job
    return f"{glyphs.job.get(state, '?')} {state}", f"job.{state}" if known else "bad"


def loaded_state(state: str, glyphs: Glyphs) -> Span:
    """Of a module or a context."""
    if state in ("serving", "ready"):
        return f"{glyphs.node['working']} {state}", "good"
    if state in ("loading", "initializing"):
        return f"{glyphs.node['initializing']} {state}", "info"
    if state == "draining":
        return f"{glyphs.node['paused']} {state}", "muted"
    return f"{glyphs.alert} {state}", "warn"


CELL_ROLES = {
    "q": "job.queued",
    "l": "faint",
    "c": "job.claimed",
    "r": "job.working",
    "d": "job.done",
    "f": "job.failed",
    "x": "job.cancelled",
    "?": "warn",
    "h": "faint",
    " ": "text",
}
"""By the codes of `records.share.CELLS`."""

LANE_ROLES = {
    "w": "node.working",
    "-": "node.waiting",
    "p": "node.paused",
    "i": "node.initializing",
    "s": "node.silent",
    "g": "node.gone",
    "x": "node.dead",
    "?": "bad",
    " ": "text",
}
"""By the codes of `records.timeline.Lane`."""


def runs(codes: str, glyphs: dict[str, str], roles: dict[str, str]) -> list[Span]:
    """One cell for each code; neighbours of one kind are one span."""
    spans: list[Span] = []
    start = 0
    for place in range(1, len(codes) + 1):
        if place == len(codes) or codes[place] != codes[start]:
            code = codes[start]
            spans.append((glyphs.get(code, "?") * (place - start), roles.get(code, "bad")))
            start = place
    return spans
