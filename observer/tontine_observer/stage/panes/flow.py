"""The flow: what waits, what runs, what comes in and goes out, and how long jobs wait. Pure."""

from __future__ import annotations

from collections.abc import Mapping

from ...draw.line import Line, Span, left, length, pack, right
from ...draw.plot import bar, spark, squeeze, tall_spark
from ...draw.words import age, amount, change, rate
from ...records.flow import Flow, Series
from ...records.link import Mode
from ..layout import FLOW, Box
from .alert import speaks_of
from .frame import enclose, inside
from .scene import Scene

SHORT = 7
"""Cells of a bar on a small screen."""


def draw(scene: Scene, box: Box) -> list[Line]:
    width, height = inside(box)
    lines = _tall(scene, width, height) if height >= 6 else _flat(scene, width, height)
    end: list[Span] = [("10 min", "faint")] if height >= 6 else []
    return enclose(
        lines, box, scene.glyphs, [("Flow", "title")], end, is_focused=scene.view.focus == FLOW
    )


def _values(series: Series | None) -> tuple[float | None, ...]:
    return series.values if series else ()


def _flat(scene: Scene, width: int, height: int) -> list[Line]:
    """Three or four lines for a small screen."""
    flow, glyphs = scene.picture.flow, scene.glyphs
    is_wide = width >= 70
    started = f" {amount(flow.started)} started" if flow.started is not None and is_wide else ""
    failed = f"{rate(flow.failed_rate)}/s"
    first = pack(
        [
            (9, [(" queued ", "muted"), (f"{_counted(flow, 'queued')} ", "strong")]),
            (2, [_short_bar(scene, "queued"), ("  ", "text")] if is_wide else []),
            (8, [(" working ", "muted"), (f"{_counted(flow, 'working')} ", "strong")]),
            (2, [_short_bar(scene, "working")] if is_wide else []),
            (1, [(started, "muted")]),
            (6, [("  done ", "muted"), (f"{rate(flow.done_rate)}/s", "good")]),
            (7 if flow.failed_rate else 5, [("  failed ", "muted"), (failed, _failed_role(scene))]),
        ],
        width,
    )
    net: Line = (
        [(" net ", "muted"), (f"{change(flow.net_rate)}/s", _net_role(flow))] if is_wide else []
    )
    plot = max(6, (width - 30 - length(net)) // 2)
    top = _top(flow, plot)
    second: Line = [(" in ", "muted")]
    second += [(spark(_values(flow.incoming), plot, glyphs, top), "spark.in")]
    second += [(f" {rate(flow.in_rate)}/s".ljust(8), "text"), (" out ", "muted")]
    second += [(spark(_values(flow.outgoing), plot, glyphs, top), "spark.out")]
    second += [(f" {rate(flow.out_rate)}/s".ljust(8), "text"), *net]
    if height < 4:
        waits, runs = _ages(scene)[:4], _ages(scene)[4:]
        parts = [(6, waits), (3, runs), (9, [("   ", "text")])]
        return [first, second, pack([*parts, *_oldest_parts(scene)], width)]
    return [first, second, _ages(scene), [(" ", "text"), *_oldest(scene)]]


def _counted(flow: Flow, state: str) -> str:
    """How many are in a state; a moment that nobody counted has no number."""
    return amount(flow.counts[state]) if state in flow.counts else "?"


def _short_bar(scene: Scene, state: str) -> Span:
    counts = scene.picture.flow.counts
    return bar(counts.get(state, 0), _longest(counts), SHORT, scene.glyphs), f"job.{state}"


def _longest(counts: Mapping[str, int]) -> int:
    """What the longest bar stands for: the others are drawn to its scale."""
    return max(counts.get("queued", 0), counts.get("working", 0), 1)


def _top(flow: Flow, columns: int) -> float:
    """What goes in and what goes out is drawn to one scale."""
    shown = [*_values(flow.incoming)[-columns:], *_values(flow.outgoing)[-columns:]]
    return max((value for value in shown if value is not None), default=0.0)


def _failed_role(scene: Scene) -> str:
    """Red is for what the second line speaks of."""
    if speaks_of(scene, "failing"):
        return "bad"
    return "job.failed" if scene.picture.flow.failed_rate else "faint"


def _net_role(flow: Flow) -> str:
    return "warn" if flow.net_rate > 0.5 else "good"


def _ages(scene: Scene) -> Line:
    flow = scene.picture.flow
    line: Line = [
        (" wait p50 ", "muted"),
        (age(flow.wait_p50), "text"),
        (" p95 ", "muted"),
        (age(flow.wait_p95), "text"),
    ]
    line += [
        ("   run p50 ", "muted"),
        (age(flow.run_p50), "text"),
        (" p95 ", "muted"),
        (age(flow.run_p95), "text"),
    ]
    return line


def _oldest(scene: Scene) -> Line:
    return [span for _, part in _oldest_parts(scene) for span in part]


def _oldest_parts(scene: Scene) -> list[tuple[int, Line]]:
    """The oldest job that waits, and when none will, by what matters most."""
    flow = scene.picture.flow
    if flow.oldest is None:
        waits = flow.counts.get("queued", 0) > flow.later + flow.unnumbered and flow.started is None
        return [(8, [("the oldest is not known" if waits else "no job waits", "faint")])]
    where = "" if flow.oldest_rank is None else f", share {flow.oldest_rank}"
    is_told = speaks_of(scene, "stuck", "waiting-long", "nobody-working", "stalled-share")
    role = "bad" if is_told else "text"
    return [
        (8, [("oldest ", "muted"), (age(flow.oldest_age), role)]),
        (4, [(f" (#{flow.oldest}{where})", "muted")]),
        (7, [(_emptied(flow), "muted")]),
    ]


def _emptied(flow: Flow) -> str:
    """When the queue will be empty at this rate, where that takes a while."""
    if not flow.has_outlook or (flow.empty_in is not None and flow.empty_in < 1):
        return ""
    if flow.empty_in is None:
        return " never empty" if flow.is_long else ""
    return f" empty in {age(flow.empty_in)}"


def _tall(scene: Scene, width: int, height: int) -> list[Line]:
    """Everything, with curves of ten minutes as tall as the pane allows."""
    flow = scene.picture.flow
    lines = [_count("queued", scene, width), _count("working", scene, width)]
    if height >= 8:
        lines.append(_rates(flow, scene, width))
    lines.append(_totals(scene, width) if height >= 11 else _ages(scene))
    if height >= 11:
        lines.append(_ages(scene))
    rest = height - len(lines)
    rows = max(1, min(3, rest // 3))
    for name, series, role, text in (
        ("in/s", flow.incoming, "spark.in", rate(flow.in_rate)),
        ("out/s", flow.outgoing, "spark.out", rate(flow.out_rate)),
        ("queued", flow.depth, "spark.depth", _counted(flow, "queued")),
    ):
        if rest >= rows:
            top = None if series is flow.depth else _top(flow, len(_values(series)))
            lines += _curve(name, series, role, text, width, rows, scene, top)
            rest -= rows
    return lines


def _count(state: str, scene: Scene, width: int) -> Line:
    flow, glyphs = scene.picture.flow, scene.glyphs
    number = flow.counts.get(state, 0)
    line: Line = [
        (f" {glyphs.job[state]} {left(state, 8)}", f"job.{state}"),
        (right(_counted(flow, state), 8), "strong"),
        (" ", "text"),
    ]
    # Both bars have the room that the longer note leaves: else one cell would be more in one of
    # them than in the other.
    noted = max(length(_notes(one, scene)) for one in ("queued", "working"))
    room = max(4, width - length(line) - noted - 2)
    line.append((left(bar(number, _longest(flow.counts), room, glyphs), room), f"job.{state}"))
    return [*line, (" ", "text"), *_notes(state, scene)]


def _notes(state: str, scene: Scene) -> Line:
    flow = scene.picture.flow
    if state == "queued":
        return _oldest(scene)
    if flow.started is None:
        return []
    claimed = max(0, flow.counts.get(state, 0) - flow.started)
    return [(f"{amount(flow.started)} started, {amount(claimed)} claimed", "muted")]


def _rates(flow: Flow, scene: Scene, width: int) -> Line:
    parts: list[tuple[int, Line]] = [(9, [(" ", "text")])]
    for state, value, weight in (
        ("done", flow.done_rate, 8),
        ("failed", flow.failed_rate, 7),
        ("cancelled", flow.cancelled_rate, 4),
    ):
        role = f"job.{state}" if value else "faint"
        if state == "failed":
            role = _failed_role(scene)
        if value or state != "cancelled":
            text = f"{scene.glyphs.job[state]} {state} {rate(value)}/s   "
            parts.append((weight, [(text, role)]))
    retried = f"{scene.glyphs.up} retried {rate(flow.retried_rate)}/s   "
    parts.append((5, [(retried, "warn" if flow.retried_rate else "faint")]))
    parts.append((6, [("net ", "muted"), (f"{change(flow.net_rate)}/s", _net_role(flow))]))
    return pack(parts, width)


def _totals(scene: Scene, width: int) -> Line:
    flow = scene.picture.flow
    if not flow.is_counted:
        is_over = scene.picture.link.mode is Mode.REPLAY
        told = "were not counted" if is_over else "are being counted ..."
        return [(f" the ended jobs {told}", "faint")]
    parts: list[tuple[int, Line]] = [(9, [(" in all", "muted")])]
    for weight, state in ((8, "done"), (7, "failed"), (6, "cancelled")):
        parts.append((weight, [(f"  {state} ", "muted"), (_counted(flow, state), "text")]))
    if flow.later:
        parts.append((4, [(f"  queued for later {amount(flow.later)}", "muted")]))
    others = [
        name
        for name in flow.counts
        if name not in ("queued", "working", "done", "failed", "cancelled")
    ]
    parts += [(5, [(f"  ? {name} {amount(flow.counts[name])}", "bad")]) for name in others]
    return pack(parts, width)


def _curve(
    name: str,
    series: Series | None,
    role: str,
    text: str,
    width: int,
    rows: int,
    scene: Scene,
    top: float | None,
) -> list[Line]:
    room = max(1, width - 17)
    values = squeeze(_values(series), room)
    plots = tall_spark(values, room, rows, scene.glyphs, top)
    lines: list[Line] = []
    for number, plot in enumerate(plots):
        is_last = number == rows - 1
        label: Line = (
            [(f" {left(name, 6)} ", "muted"), (right(text, 7), "text")]
            if is_last
            else [(" " * 15, "text")]
        )
        lines.append([*label, (" ", "text"), (plot, role), (" ", "text")])
    return lines
