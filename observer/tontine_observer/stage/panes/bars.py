"""The lines that lead: the tabs above a single pane, and the footer with the keys that matter most.
Pure."""

from __future__ import annotations

from collections.abc import Collection, Iterable

from ...draw.line import Line, cut, fit, justify, length, size
from ..layout import PANES, TIME, Box, number_of
from .scene import Scene
from .view import TITLES

WORTH = 24
"""As much of a filter as names of other panes make room for."""


def tabs(scene: Scene, box: Box, counts: dict[str, str]) -> list[Line]:
    """The panes by their keys; the filter of the one that is shown."""
    chosen = scene.view.lists[scene.view.tab].chosen
    text = chosen.problem or chosen.text or "-"
    role = "match" if chosen.text else "faint"
    if chosen.problem:
        role = "bad"
    wanted = 8 + min(size(text), WORTH) + 2 if chosen.text else 0
    for titled in (PANES, PANES[:5], (scene.view.tab,)):
        line = _tabs(scene, counts, titled)
        if length(line) + wanted <= box.width:
            break
    room = max(4, box.width - length(line) - 10)
    end: Line = [("filter: ", "faint"), (cut(text, room, scene.glyphs.more), role), (" ", "text")]
    if length(line) + length(end) > box.width:
        end = []
    return [justify(line, end, box.width)]


def _tabs(scene: Scene, counts: dict[str, str], titled: Collection[str]) -> Line:
    """The numbers of all panes, the names of some, and how much the one that is shown has."""
    line: Line = []
    for pane in PANES:
        is_here = pane == scene.view.tab
        count = f" {counts[pane]}" if counts.get(pane) and is_here and pane != TIME else ""
        name = TITLES[pane] if pane in titled or is_here else ""
        line += [
            (f" {number_of(pane)} ", "key"),
            (name + count, "title.focus" if is_here else "muted"),
            (" " if name else "", "text"),
        ]
    return line


def footer(scene: Scene, box: Box, hints: Iterable[tuple[str, str]]) -> list[Line]:
    """What was just said, else the keys that matter most in this pane, as many as fit."""
    if scene.view.notice:
        role = "bad.strong/bar" if scene.view.is_notice_bad else "info/bar"
        return [
            fit(
                [(" " + cut(scene.view.notice, box.width - 2, scene.glyphs.more), role)],
                box.width,
                "text/bar",
            )
        ]
    line: Line = [(" ", "text/bar")]
    room = box.width - 1
    for key, label in hints:
        wide = size(key) + size(label) + 3
        if wide <= room:
            line += [(key, "key/bar"), (f" {label}  ", "muted/bar")]
            room -= wide
    return [fit(line, box.width, "text/bar")]
