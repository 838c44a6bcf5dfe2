"""The time pane: epochs, members, backlog and a lane for each node, with a cursor in time. Pure."""

from __future__ import annotations

from collections.abc import Container, Sequence
from dataclasses import replace
from datetime import datetime, timedelta

from ...draw.line import Line, Span, cut, fit, left, length, on, size
from ...draw.plot import spark
from ...draw.words import age, moment
from ...records.node import NodeRow
from ...records.timeline import Timeline
from ..layout import TIME, Box
from .frame import enclose, inside, thumb
from .scene import Scene
from .states import LANE_ROLES

LEAST, MOST = 11, 20
"""How wide the lanes' names may be."""
FRESH = 5.0
"""Seconds in which what happened may still arrive."""
LEGEND = (
    ("w", "working"),
    ("-", "waiting"),
    ("p", "paused"),
    ("i", "initializing"),
    ("s", "silent"),
    ("x", "dead"),
)


def label_of(nodes: Sequence[NodeRow]) -> int:
    """How wide the names at the left are."""
    return max(LEAST, min(MOST, max((size(node.name) for node in nodes), default=0) + 2))


def columns_of(box: Box, label: int) -> int:
    """How many columns of time fit."""
    return max(1, inside(box)[0] - label - 1)


def start_of(now: datetime, at: datetime | None, step: float, columns: int) -> datetime:
    """The left edge: now is at the right, unless the moment looked at would be off the screen.

    It moves by whole columns, so that what is drawn does not flicker from frame to frame.
    """
    end = now.timestamp()
    if at is not None and at.timestamp() < end - (columns - 1) * step:
        end = at.timestamp() + columns // 2 * step
    edge = (end // step + 1) * step - columns * step
    return datetime.fromtimestamp(edge, tz=now.tzinfo)


def trimmed(timeline: Timeline, shown: Container[str]) -> Timeline:
    """Without the lanes of those who were dead all the time; and the last moments are not called
    unrecorded yet."""
    lanes = tuple(lane for lane in timeline.lanes if lane.id in shown or lane.states.strip("x "))
    fresh = timeline.columns - max(1, round(FRESH / timeline.step))
    is_known = any(timeline.recorded[max(0, fresh - 1) :])
    recorded = tuple(
        known or (is_known and place >= fresh) for place, known in enumerate(timeline.recorded)
    )
    return replace(timeline, lanes=lanes, recorded=recorded)


def draw(scene: Scene, box: Box) -> list[Line]:
    timeline = scene.timeline
    is_focused = scene.view.focus == TIME
    title: list[Span] = [
        ("Time", "title.focus" if is_focused else "title"),
        (f"  1 column = {_step(scene.view.step)}", "muted"),
    ]
    if timeline is None:
        return enclose(
            [[("  nothing is known of the past yet", "muted")]],
            box,
            scene.glyphs,
            title,
            is_focused=is_focused,
        )
    width, height = inside(box)
    place = column_at(timeline, scene.view.at)
    fixed = [
        _axis(scene, timeline, place),
        _epochs(scene, timeline),
        _members(scene, timeline),
        _waiting(scene, timeline),
    ]
    said = _said(scene, timeline) if height >= 8 else []
    room = max(0, height - len(fixed) - len(said))
    view = scene.view.lists[TIME]
    view.top = max(0, min(view.top, len(timeline.lanes) - room))
    lanes = [
        _lane(scene, timeline, number, place)
        for number in range(view.top, min(len(timeline.lanes), view.top + room))
    ]
    lines = [*fixed, *lanes]
    lines += [[(" " * width, "text")] for _ in range(height - len(said) - len(lines))]
    bar = thumb(len(timeline.lanes), view.top, room)
    return enclose(
        [*lines, *said],
        box,
        scene.glyphs,
        title,
        _legend(scene),
        is_focused=is_focused,
        thumb=range(bar.start + len(fixed), bar.stop + len(fixed)) if bar else bar,
    )


def _step(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 60 else f"{seconds / 60:.0f} min"


def column_at(timeline: Timeline, at: datetime | None) -> int | None:
    """The column of a moment; None is now, and what is off the screen."""
    if at is None:
        return None
    place = int((at - timeline.start).total_seconds() // timeline.step)
    return place if 0 <= place < timeline.columns else None


def _legend(scene: Scene) -> list[Span]:
    spans: list[Span] = []
    for code, word in LEGEND:
        spans += [(scene.glyphs.lane[code], LANE_ROLES[code]), (f" {word}  ", "muted")]
    return [*spans, (scene.glyphs.unrecorded, "faint"), (" not recorded", "muted")]


def _axis(scene: Scene, timeline: Timeline, place: int | None) -> Line:
    """The times of the edges and of the cursor."""
    label = label_of(scene.picture.nodes)
    first = moment(timeline.start, scene.zone)
    end = timeline.start + timedelta(seconds=timeline.step * timeline.columns)
    last = moment(end, scene.zone)
    across = scene.glyphs.across
    if place is None:
        middle = across * max(0, timeline.columns - len(first) - len(last))
        return [(left(" time", label), "muted"), (first, "text"), (middle, "rule"), (last, "text")]
    said = f" {moment(scene.view.at, scene.zone)} "
    before = max(len(first), min(place - len(said) // 2, timeline.columns - len(said) - len(last)))
    line: Line = [
        (left(" time", label), "muted"),
        (first, "text"),
        (across * (before - len(first)), "rule"),
    ]
    line += [
        (said, "badge.past"),
        (across * max(0, timeline.columns - before - len(said) - len(last)), "rule"),
    ]
    return [*line, (last, "text")]


def _epochs(scene: Scene, timeline: Timeline) -> Line:
    label = label_of(scene.picture.nodes)
    line: Line = [(left(" epoch", label), "muted")]
    used = 0
    newest = {
        mark.column: mark.epoch for mark in timeline.epochs
    }  # of a column's epochs, the one that lasted
    columns = [*newest, timeline.columns]
    for number, (column, epoch) in enumerate(newest.items()):
        edge = scene.glyphs.epoch if column or number else ""
        text = f"{edge}E{epoch}"
        if len(text) > columns[number + 1] - column:
            text = scene.glyphs.epoch
        line += [(" " * (column - used), "text"), (text, "epoch")]
        used = column + len(text)
    return line


def _recorded(scene: Scene, timeline: Timeline, cells: str, role: str) -> Line:
    """The cells, hatched wherever nothing was recorded."""
    line: Line = []
    start = 0
    known = timeline.recorded
    for place in range(1, len(cells) + 1):
        if place == len(cells) or known[place] != known[start]:
            text = cells[start:place] if known[start] else scene.glyphs.unrecorded * (place - start)
            line.append((text, role if known[start] else "faint"))
            start = place
    return line


def _members(scene: Scene, timeline: Timeline) -> Line:
    """The number of members, written where it changes and drawn in between."""
    label = label_of(scene.picture.nodes)
    values = timeline.members
    top = max((value for value in values if value is not None), default=1)
    cells = list(spark(values, timeline.columns, scene.glyphs, top))
    before: int | None = None
    for place, value in enumerate(values):
        if value is not None and value != before:
            text = str(value)
            if place + len(text) <= len(cells) and all(
                other == value for other in values[place : place + len(text)]
            ):
                cells[place : place + len(text)] = text
        before = value
    return [(left(" members", label), "muted"), *_recorded(scene, timeline, "".join(cells), "good")]


def _waiting(scene: Scene, timeline: Timeline) -> Line:
    label = label_of(scene.picture.nodes)
    cells = spark(timeline.waiting, timeline.columns, scene.glyphs)
    return [(left(" queued", label), "muted"), *_recorded(scene, timeline, cells, "spark.depth")]


def _lane(scene: Scene, timeline: Timeline, number: int, place: int | None) -> Line:
    label = label_of(scene.picture.nodes)
    lane = timeline.lanes[number]
    view = scene.view.lists[TIME]
    is_here = scene.view.focus == TIME and number == view.place
    name = cut(lane.name, label - 2, scene.glyphs.more)
    edges = {mark.column for mark in timeline.epochs if mark.column}
    spans: Line = []
    for column, code in enumerate(lane.states.ljust(timeline.columns)):
        if not timeline.recorded[column] and code == " ":
            glyph, role = scene.glyphs.unrecorded, "faint"
        elif column in edges and code in " ":
            glyph, role = scene.glyphs.epoch, "faint"
        else:
            glyph, role = scene.glyphs.lane.get(code, "?"), LANE_ROLES.get(code, "bad")
        if column == place:
            role = f"{role}/cursor"
        if spans and spans[-1][1] == role:
            spans[-1] = (spans[-1][0] + glyph, role)
        else:
            spans.append((glyph, role))
    named: Line = [
        (scene.glyphs.cursor if is_here else " ", "key"),
        (left(name, label - 1), "faint" if lane.is_gone else "strong"),
    ]
    return [*(on(named, "cursor") if is_here else named), *spans]


def _said(scene: Scene, timeline: Timeline) -> list[Line]:
    """What was the case at the cursor, and how far back one can go."""
    oldest = f"from {moment(timeline.oldest, scene.zone)} on"
    if scene.view.at is None:
        text = (
            "left and right look back; [ and ] go from change to change, { and } from epoch "
            "to epoch"
        )
        return [[(f" {text}", "faint"), (f"   kept {oldest}", "faint")]]
    seconds = timedelta(seconds=timeline.step)
    near = [one for one in scene.changes if abs(one.at - scene.view.at) <= seconds]
    told = "; ".join(f"{one.subject} {one.text}" for one in near[-3:]) or "no change at this moment"
    back = "" if scene.now is None else f"{age((scene.now - scene.view.at).total_seconds())} ago"
    line: Line = [(" at the cursor: ", "muted"), (told.replace("→", scene.glyphs.arrow), "text")]
    width = timeline.columns + label_of(scene.picture.nodes)
    return [fit([*line, (f"   {back}, kept {oldest}", "faint")], max(length(line), width))]
