"""The flow: what waits, what runs, what comes in and goes out, and how long jobs wait. Pure."""

from __future__ import annotations

from ...draw.line import Line, Span, fit, left, length, right
from ...draw.plot import bar, spark, squeeze, tall_spark
from ...draw.words import age, amount, change, rate
from ...records.flow import Flow, Series
from ..layout import FLOW, Box
from .alert import speaks_of
from .frame import enclose, inside
from .scene import Scene


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
    queued = flow.counts.get("queued", 0)
    working = flow.counts.get("working", 0)
    top = max(queued, working, 1)
    is_wide = width >= 70
    first: Line = [(" queued ", "muted"), (f"{amount(queued)} ", "strong")]
    first += [(bar(queued, top, 8, glyphs) + "  " if is_wide else "", "job.queued")]
    first += [(" working ", "muted"), (f"{amount(working)} ", "strong")]
    first += [(bar(working, top, 6, glyphs) if is_wide else "", "job.working")]
    if flow.started is not None and is_wide:
        first += [(f" {flow.started} started", "muted")]
    first += [("  done ", "muted"), (f"{rate(flow.done_rate)}/s", "good")]
    first += [
        ("  failed ", "muted"),
        (f"{rate(flow.failed_rate)}/s", _failed_role(scene)),
    ]
    net: Line = (
        [(" net ", "muted"), (f"{change(flow.net_rate)}/s", _net_role(flow))] if is_wide else []
    )
    plot = max(6, (width - 30 - length(net)) // 2)
    second: Line = [(" in ", "muted"), (spark(_values(flow.incoming), plot, glyphs), "spark.in")]
    second += [(f" {rate(flow.in_rate)}/s".ljust(8), "text"), (" out ", "muted")]
    second += [(spark(_values(flow.outgoing), plot, glyphs), "spark.out")]
    second += [(f" {rate(flow.out_rate)}/s".ljust(8), "text"), *net]
    if height < 4:
        return [first, second, [*_ages(scene), ("   ", "text"), *_oldest(scene)]]
    return [first, second, _ages(scene), [(" ", "text"), *_oldest(scene)]]


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
    flow = scene.picture.flow
    if flow.oldest is None:
        waits = flow.counts.get("queued", 0) > flow.later + flow.unnumbered and flow.started is None
        return [("the oldest is not known" if waits else "no job waits", "faint")]
    where = "" if flow.oldest_rank is None else f", share {flow.oldest_rank}"
    is_told = speaks_of(scene, "stuck", "waiting-long", "nobody-working", "stalled-share")
    role = "bad" if is_told else "text"
    return [
        ("oldest ", "muted"),
        (age(flow.oldest_age), role),
        (f" (#{flow.oldest}{where})", "muted"),
        (_emptied(flow), "muted"),
    ]


def _emptied(flow: Flow) -> str:
    """When the queue will be empty at this rate, where that takes a while."""
    if not flow.out_rate or (flow.empty_in is not None and flow.empty_in < 1):
        return ""
    return " never empty" if flow.empty_in is None else f" empty in {age(flow.empty_in)}"


def _tall(scene: Scene, width: int, height: int) -> list[Line]:
    """Everything, with curves of ten minutes as tall as the pane allows."""
    flow = scene.picture.flow
    lines = [_count("queued", scene, width), _count("working", scene, width)]
    if height >= 8:
        lines.append(_rates(flow, scene))
    lines.append(_totals(flow, width) if height >= 11 else _ages(scene))
    if height >= 11:
        lines.append(_ages(scene))
    rest = height - len(lines)
    rows = max(1, min(3, rest // 3))
    for name, series, role, text in (
        ("in/s", flow.incoming, "spark.in", rate(flow.in_rate)),
        ("out/s", flow.outgoing, "spark.out", rate(flow.out_rate)),
        ("queued", flow.depth, "spark.depth", amount(flow.counts.get("queued", 0))),
    ):
        if rest >= rows:
            lines += _curve(name, series, role, text, width, rows, scene)
            rest -= rows
    return lines


def _count(state: str, scene: Scene, width: int) -> Line:
    flow, glyphs = scene.picture.flow, scene.glyphs
    number = flow.counts.get(state, 0)
    top = max(flow.counts.get("queued", 0), flow.counts.get("working", 0), 1)
    line: Line = [
        (f" {glyphs.job[state]} {left(state, 8)}", f"job.{state}"),
        (right(amount(number), 8), "strong"),
        (" ", "text"),
    ]
    notes: list[Span] = []
    if state == "queued":
        notes = _oldest(scene)
    elif flow.started is not None:
        notes = [
            (
                f"{amount(flow.started)} started, {amount(max(0, number - flow.started))} claimed",
                "muted",
            )
        ]
    room = max(4, width - length(line) - length(notes) - 2)
    line.append((left(bar(number, top, room, glyphs), room), f"job.{state}"))
    return fit([*line, (" ", "text"), *notes], width)


def _rates(flow: Flow, scene: Scene) -> Line:
    line: Line = [(" ", "text")]
    for state, value in (
        ("done", flow.done_rate),
        ("failed", flow.failed_rate),
        ("cancelled", flow.cancelled_rate),
    ):
        role = f"job.{state}" if value else "faint"
        if state == "failed":
            role = _failed_role(scene)
        if value or state != "cancelled":
            line += [(f"{scene.glyphs.job[state]} {state} {rate(value)}/s   ", role)]
    line += [
        (
            f"{scene.glyphs.up} retried {rate(flow.retried_rate)}/s   ",
            "warn" if flow.retried_rate else "faint",
        )
    ]
    return [*line, ("net ", "muted"), (f"{change(flow.net_rate)}/s", _net_role(flow))]


def _totals(flow: Flow, width: int) -> Line:
    if not flow.is_counted:
        return [(" the ended jobs are being counted ...", "faint")]
    line: Line = [(" in all", "muted")]
    for state in ("done", "failed", "cancelled"):
        line += [(f"  {state} ", "muted"), (amount(flow.counts.get(state, 0)), "text")]
    if flow.later:
        line += [(f"  queued for later {amount(flow.later)}", "muted")]
    others = [
        name
        for name in flow.counts
        if name not in ("queued", "working", "done", "failed", "cancelled")
    ]
    line += [(f"  ? {name} {amount(flow.counts[name])}", "bad") for name in others]
    return fit(line, width)


def _curve(
    name: str, series: Series | None, role: str, text: str, width: int, rows: int, scene: Scene
) -> list[Line]:
    room = max(1, width - 17)
    values = squeeze(_values(series), room)
    plots = tall_spark(values, room, rows, scene.glyphs)
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
