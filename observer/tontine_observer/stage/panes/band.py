"""The band of shares: one segment for each member, hatched where it does not beat, flowing to its
heirs when it is gone. Pure."""

from __future__ import annotations

from collections.abc import Sequence
from dataclasses import dataclass

from tontine.legible import count

from ...draw.line import Line, cut, fit, justify, length, size
from ..layout import Box
from .scene import Scene

LABEL_FROM = 100
FLOWS_FOR = 6.0
"""Seconds in which a share is seen to go to its heirs."""
_FILLS = {"working": "w", "waiting": "-", "paused": "p", "initializing": "i"}
HATCHED = 3
"""Cells of a segment that at least are hatched, before its state is written out."""
_LEAST_NAME = 3


@dataclass(frozen=True, slots=True)
class _Segment:
    name: str
    state: str
    """As seen; empty when it is no member any more."""


def draw(scene: Scene, box: Box) -> list[Line]:
    start: Line = [(" shares ", "muted")] if box.width >= LABEL_FROM else [(" ", "text")]
    end = _tally(scene, box.width)
    room = box.width - length(start) - length(end) - 1
    segments = _segments(scene)
    if not segments:
        start.append(("no member: nobody owns a share", "faint"))
        return [justify(start, end, box.width)]
    return [justify([*start, *_band(scene, segments, max(1, room))], end, box.width)]


def _segments(scene: Scene) -> list[_Segment]:
    picture = scene.picture
    states = {node.id: node.seen for node in picture.nodes}
    if picture.inherited_for is not None and picture.inherited_for < FLOWS_FOR:
        still = set(picture.members)
        return [
            _Segment(name, states.get(node, "dead") if node in still else "")
            for node, name in picture.heirloom
        ]
    return [_Segment(share.name, states.get(share.owner, "dead")) for share in picture.shares]


def _band(scene: Scene, segments: Sequence[_Segment], room: int) -> Line:
    """Each member's part of the line is as large as its part of the work."""
    many = len(segments)
    line: Line = []
    for number, segment in enumerate(segments):
        width = (number + 1) * room // many - number * room // many
        if width <= 0:
            continue
        edge = scene.glyphs.down if number and width > 1 else ""
        line += [(edge, "rule"), *_segment(scene, segment, width - size(edge))]
    return line


def _segment(scene: Scene, segment: _Segment, width: int) -> Line:
    glyphs = scene.glyphs
    if not segment.state:
        return _flowing(scene, segment, width)
    role = f"node.{segment.state}" if segment.state in glyphs.node else "bad"
    is_sound = segment.state in _FILLS
    fill = glyphs.lane[_FILLS[segment.state]] if is_sound else glyphs.unrecorded
    said = segment.name if is_sound else f"{segment.name} {segment.state}"
    if size(said) + HATCHED > width:
        said = segment.name
    if width < _LEAST_NAME + 1:
        return [(fill * width, role)]
    name = cut(said, width - (1 if is_sound else HATCHED), glyphs.more)
    return [(f"{name} ", "strong" if is_sound else role), (fill * (width - size(name) - 1), role)]


def _flowing(scene: Scene, segment: _Segment, width: int) -> Line:
    """What is left of a share shrinks from both sides."""
    gone = min(1.0, (scene.picture.inherited_for or 0.0) / FLOWS_FOR)
    side = round(gone * width / 2)
    left, right = scene.glyphs.hands[0] * side, scene.glyphs.hands[1] * side
    rest = width - 2 * side
    if rest <= 0:
        return fit([(left, "node.working"), (right, "node.working")], width)
    name = cut(segment.name, rest, scene.glyphs.more) if rest > _LEAST_NAME else ""
    hatch = scene.glyphs.unrecorded * (rest - size(name))
    return [(left, "node.working"), (name + hatch, "node.dead"), (right, "node.working")]


def _tally(scene: Scene, width: int) -> Line:
    """In the demo: what was survived."""
    if scene.demo is None:
        return []
    deaths, rescued, lost = scene.picture.survived
    text = f"{count(deaths, 'death')} survived, {count(rescued, 'job')} rescued, {lost} lost "
    if width < LABEL_FROM:
        text = f"{deaths} survived, {rescued} rescued, {lost} lost "
    return [(" ", "text"), (text, "good" if not lost else "warn")]
