"""Where everything goes on a screen of any size, and what is left out on a small one. Pure."""

from __future__ import annotations

from dataclasses import dataclass

NODES, SHARES, JOBS, TIME, CHANGES, FLOW = "nodes", "shares", "jobs", "time", "changes", "flow"
FAILURES, TASKS, SCHEDULES, MODULES = "failures", "tasks", "schedules", "modules"
PLANS = "plans"
STATUS, ALERT, BAND, TABS, FOOTER = "status", "alert", "band", "tabs", "footer"
BY_ITSELF = (FAILURES, TASKS, SCHEDULES, MODULES, PLANS)
"""Panes that are only ever shown alone."""
PANES = (NODES, SHARES, JOBS, TIME, CHANGES, *BY_ITSELF)
"""In the order of their number keys; 0 is that of the tenth."""
WIDE, TALL = 120, 30
BANDED = 20
"""Rows from which on the band of shares is always there."""


@dataclass(frozen=True, slots=True)
class Box:
    """A rectangle of cells; `framed` has a border of its own, `ruled` only a line above."""

    x: int
    y: int
    width: int
    height: int
    edge: str = ""


Plan = dict[str, Box]


def plan(
    width: int, height: int, tab: str = NODES, *, is_maximised: bool = False, nodes: int = 12
) -> Plan:
    """The boxes of everything that is shown; few nodes leave room for more jobs."""
    width, height = max(1, width), max(1, height)
    if height < 12 or width < 50:
        return _tiny(width, height, tab)
    boxes = {
        STATUS: Box(0, 0, width, 1),
        ALERT: Box(0, 1, width, 1),
        FOOTER: Box(0, height - 1, width, 1),
    }
    top, room = 2, height - 3
    if height >= BANDED:
        boxes[BAND] = Box(0, top, width, 1)
        top, room = top + 1, room - 1
    if (is_maximised or tab in BY_ITSELF) and width >= WIDE:
        boxes[tab] = Box(0, top, width, room, "framed")
        return boxes
    if width >= WIDE and height >= TALL:
        return boxes | _columns(width, top, room, nodes, has_time=True)
    if width >= WIDE and height >= 20:
        return boxes | _columns(width, top, room, nodes, has_time=False)
    return boxes | _tabbed(width, top, room, tab, is_maximised)


def _tiny(width: int, height: int, tab: str) -> Plan:
    """Who is there and what is wrong; a list under it as long as there are rows for one."""
    boxes = {STATUS: Box(0, 0, width, min(height, 3))}
    if height > 3:
        boxes[ALERT] = Box(0, 3, width, 1)
    if height > 6:
        boxes[tab] = Box(0, 4, width, height - 5)
    if height > 5:
        boxes[FOOTER] = Box(0, height - 1, width, 1)
    return boxes


def _tabbed(width: int, top: int, room: int, tab: str, is_maximised: bool) -> Plan:
    boxes = {TABS: Box(0, top, width, 1)}
    top, room = top + 1, room - 1
    flow = 4 if room >= 12 and not is_maximised else 0
    changes = 4 if room >= 16 and not is_maximised and tab != CHANGES else 0
    if room >= 28 and changes:
        changes = 4 + (room - 28) // 3
    boxes[tab] = Box(0, top, width, room - flow - changes)
    if flow:
        boxes[FLOW] = Box(0, top + room - flow - changes, width, flow, "ruled")
    if changes:
        boxes[CHANGES] = Box(0, top + room - changes, width, changes, "ruled")
    return boxes


def _columns(width: int, top: int, room: int, nodes: int, *, has_time: bool) -> Plan:
    """Two columns: who there is and who owns what at the left; what flows and what happened at the
    right."""
    left = max(70, round(width * 0.56))
    right = width - left
    time = min(14, max(9, room // 3)) if has_time else 0
    body = room - time
    flow = 13 if body >= 28 else max(6, body // 3)
    boxes = {FLOW: Box(left, top, right, flow, "framed")}
    few = (
        2 * ((max(nodes, 3) + 1) // 2) + 3
    )  # by twos: a node that comes or goes does not move everything
    if 2 * few + 8 <= body:
        boxes[NODES] = Box(0, top, left, few, "framed")
        boxes[SHARES] = Box(0, top + few, left, few, "framed")
        boxes[JOBS] = Box(0, top + 2 * few, left, body - 2 * few, "framed")
        boxes[CHANGES] = Box(left, top + flow, right, body - flow, "framed")
    else:
        half, changes = (body + 1) // 2, (body - flow + 1) // 2
        boxes[NODES] = Box(0, top, left, half, "framed")
        boxes[SHARES] = Box(0, top + half, left, body - half, "framed")
        boxes[CHANGES] = Box(left, top + flow, right, changes, "framed")
        boxes[JOBS] = Box(left, top + flow + changes, right, body - flow - changes, "framed")
    if time:
        boxes[TIME] = Box(0, top + body, width, time, "framed")
    return boxes


def number_of(pane: str) -> int:
    """Its number key."""
    return (PANES.index(pane) + 1) % 10


def shown_panes(boxes: Plan) -> list[str]:
    """The panes that can have the focus, in the order of the keys."""
    return [pane for pane in PANES if pane in boxes]
