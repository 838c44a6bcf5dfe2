"""The second line: the worst thing there is to know, or that there is none. Pure."""

from __future__ import annotations

from tontine.legible import duration
from tontine.rules.complaint import Weight

from ...draw.line import Line, clip, cut, fit, justify, length, on, size
from ...draw.words import age
from ...records.alert import Alert
from ...records.link import ELECTION, Mode
from ..layout import Box
from .badges import next_try
from .scene import Scene

WORDY_FROM = 100
"""Columns from which on there is room for whole sentences beside each other."""
_ORDER = {Weight.BAD: 0, Weight.WARNING: 1, Weight.NOTICE: 2}
_LOOKS = {
    Weight.BAD: ("alert", "alarm"),
    Weight.WARNING: ("notice", "shade"),
    Weight.NOTICE: ("info", "shade"),
}
"""The role of its text, and the ground under it."""


def current(scene: Scene) -> list[Alert]:
    """The alerts that were not put aside, the worst first."""
    shown = [
        alert
        for alert in scene.picture.alerts
        if (alert.kind, alert.subject) not in scene.view.dismissed
    ]
    return sorted(shown, key=lambda alert: _ORDER[alert.weight])


def alarmed(scene: Scene) -> frozenset[str]:
    """The nodes that the second line speaks of, by their ids."""
    told = current(scene)[:1]
    return frozenset(told[0].nodes if told and told[0].weight is not Weight.NOTICE else ())


def speaks_of(scene: Scene, *kinds: str) -> bool:
    """Whether the second line speaks of one of these kinds."""
    return any(alert.kind in kinds for alert in current(scene)[:1])


def draw(scene: Scene, box: Box) -> list[Line]:
    link, width = scene.picture.link, box.width
    if problem := scene.view.list.chosen.problem:
        line = [(f" {scene.glyphs.alert} filter: ", "notice"), (problem, "notice")]
        return [on(clip(line, width, scene.glyphs.more), "shade")]
    if link.mode in (Mode.STALE, Mode.CONNECTING) and not scene.picture.is_past:
        return [_outage(scene, width)]
    alerts = current(scene)
    if scene.picture.story and all(alert.weight is Weight.NOTICE for alert in alerts):
        return [_narrated(scene, width)]
    if not alerts:
        return [_calm(scene, width)]
    worst = alerts[0]
    role, ground = _LOOKS[worst.weight]
    more = f"  +{len(alerts) - 1} more" if len(alerts) > 1 else ""
    end: Line = [
        (more, "muted"),
        ("  ! ", "key"),
        ("lists", "muted"),
        ("  x ", "key"),
        ("puts aside ", "muted"),
    ]
    if width < WORDY_FROM:
        end = [(more, "muted"), ("  ! x ", "key")]
    if width < 70:
        end = [(more, "muted"), (" ", "text")]
    room = max(10, width - length(end) - 4)
    told = worst.text if size(worst.text) <= room or not worst.short else worst.short
    text = cut(told, room, scene.glyphs.more)
    line = justify([(f" {scene.glyphs.alert} ", role), (text, role)], end, width)
    return [on(fit(line, width), ground)]


def _outage(scene: Scene, width: int) -> Line:
    link = scene.picture.link
    retry = "" if link.retry_in is None else f"; {next_try(link)}"
    role, ground = "notice", "shade"
    if link.mode is Mode.CONNECTING:
        reason = f": {link.reason}" if link.reason else " ..."
        text = f"connecting{reason}{retry}"
    elif link.reason == ELECTION:
        text = f"the replica set elects a primary; last heard {age(link.age)} ago{retry}"
    else:
        role, ground = "alert", "alarm"
        text = f"this is {age(link.age)} old{retry}: {link.reason or 'the store does not answer'}"
    line = [
        (f" {scene.glyphs.alert} ", role),
        (cut(text, max(1, width - 4), scene.glyphs.more), role),
    ]
    return on(fit(line, width), ground)


def _narrated(scene: Scene, width: int) -> Line:
    """What has just happened, where nothing is wrong."""
    end = _countdown(scene, width)
    told = cut(scene.picture.story, max(1, width - length(end) - 4), scene.glyphs.more)
    line = justify([(f" {scene.glyphs.told} ", "time"), (told, "strong")], end, width)
    return on(line, "shade")


def _calm(scene: Scene, width: int) -> Line:
    picture = scene.picture
    if picture.note:
        return fit([(f" {scene.glyphs.dot} {picture.note}", "time")], width)
    if not picture.nodes and not picture.status.backlog:
        return fit([(f" {scene.glyphs.dot} nothing here yet", "muted")], width)
    aside = len(picture.alerts)
    rest = f"; {aside} put aside" if aside else ""
    glyph = scene.glyphs.job["done"]
    line: Line = [(f" {glyph} ", "good"), (f"nothing needs you{rest}", "muted")]
    return fit([*line, (_outlook(scene), "faint"), *_countdown(scene, width)], width)


def _outlook(scene: Scene) -> str:
    """When the queue will be empty, where one can tell and it takes a while."""
    flow = scene.picture.flow
    if not flow.counts.get("queued") or not flow.has_outlook:
        return ""
    if flow.empty_in is None:
        return "   the queue grows" if flow.is_long else ""
    return f"   the queue is empty in {duration(flow.empty_in)}" if flow.empty_in >= 1 else ""


def _countdown(scene: Scene, width: int) -> Line:
    """In the demo: how long everybody still lives."""
    left = scene.demo.death_in if scene.demo else None
    if left is None:
        return []
    what = "the demo kills a node" if width >= WORDY_FROM else "next death"
    return [(f"   {what} in {left:.0f} s ", "time")]
