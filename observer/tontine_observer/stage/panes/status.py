"""The first line: where, who, how much, how fast, how fresh. Pure."""

from __future__ import annotations

from ...draw.line import Line, cut, fit, justify, length, on
from ...draw.words import amount, moment, rate
from ..layout import Box
from .badges import badges
from .scene import Scene

UNKNOWN_SHOWN = 12
_ORDER = ("working", "waiting", "paused", "initializing", "silent", "gone", "dead")
_RARE = ("paused", "initializing", "silent", "gone", "dead")
"""Shown only where there are any."""


def draw(scene: Scene, box: Box) -> list[Line]:
    if box.height > 1:
        return [on_bar(line, box.width) for line in _tiny(scene, box.width)][: box.height]
    # What the user did to the picture is said in full before the numbers are.
    is_now = scene.view.at is None and not scene.view.is_frozen
    middle = ((2, 0), (1, 2)) if is_now else ((1, 2), (1, 1), (2, 0))
    for size, room in ((5, 2), (4, 2), (3, 2), (2, 2), *middle, (1, 0)):
        start, end = _facts(scene, size), badges(scene, room)
        if length(start) + length(end) + 1 <= box.width:
            break
    return [on_bar(justify(start, end, box.width, "text/bar"), box.width)]


def on_bar(line: Line, width: int) -> Line:
    """The line on the bar's ground, except for badges, which have their own."""
    grounded = [
        (text, role if role.startswith("badge.") else on([(text, role)], "bar")[0][1])
        for text, role in line
    ]
    return fit(grounded, width, "text/bar")


def _facts(scene: Scene, size: int) -> Line:
    status, dot = scene.picture.status, scene.glyphs.dot
    if size >= 4:
        where = " ".join(
            filter(None, (status.replica_set, f"({status.primary})" if status.primary else ""))
        )
        since = f"  since {moment(status.since, scene.zone)}" if status.since else ""
        start: Line = [(" tontine ", "brand"), (f"{dot} ", "faint"), (status.database, "strong")]
        start += [(f" {dot} {where}", "muted")] if where and size == 5 else []
        start += [("   epoch ", "muted"), (str(status.epoch), "epoch"), ("  members ", "muted")]
        start += [
            (str(status.members), "strong"),
            (since if size == 5 else "", "faint"),
            ("   ", "text"),
        ]
    else:
        start = [
            (" tontine ", "brand"),
            (status.database, "strong"),
            ("  E", "muted"),
            (str(status.epoch), "epoch"),
        ]
        start += [("  ", "text"), (f"{status.members} ", "strong")]
        start += [(f"{_members(status.members)}  ", "muted")]
    start += nodes(scene, has_words=size >= 3)
    if size > 1:
        start += [("  queued ", "muted"), (_known(status.backlog), "strong")]
        start += [("  ", "text"), (f"{rate(status.rate)}/s ", "good" if status.rate else "muted")]
    return start


def _members(number: int) -> str:
    return "member" if number == 1 else "members"


def _known(number: int | None) -> str:
    return "?" if number is None else amount(number)


def nodes(scene: Scene, *, has_words: bool) -> Line:
    """How many nodes are in each state; the words appear where there is room, and for what is
    unknown always."""
    line: Line = []
    states = scene.picture.status.states
    for state in [*_ORDER, *(name for name in states if name not in _ORDER)]:
        number = states.get(state, 0)
        if not number and state in _RARE:
            continue
        glyph = scene.glyphs.node.get(state, f"? {cut(state, UNKNOWN_SHOWN, scene.glyphs.more)} ")
        role = f"node.{state}" if number else "faint"
        text = (
            f"{glyph} {state} {number}  " if has_words and state in _ORDER else f"{glyph}{number} "
        )
        line.append((text, role))
    return line


def _tiny(scene: Scene, width: int) -> list[Line]:
    status = scene.picture.status
    first = justify([(" tontine ", "brand"), (status.database, "strong")], badges(scene, 0), width)
    flow: Line = [
        (" queued ", "muted"),
        (_known(status.backlog), "strong"),
        (f"  {rate(status.rate)}/s", "good"),
    ]
    flow += [
        ("  E", "muted"),
        (str(status.epoch), "epoch"),
        ("  ", "text"),
        (str(status.members), "strong"),
        (f" {_members(status.members)}", "muted"),
    ]
    return [first, [(" ", "text"), *nodes(scene, has_words=False)], flow]
