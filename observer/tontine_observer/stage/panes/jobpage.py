"""One job's page: where it is and why, its attempts, errors, progress, log. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator

from tontine.legible import amount, count, duration

from ...draw.line import Line, left, size, wrap
from ...draw.words import age, moment
from ...records.job import Attempt, JobPage, StageRow
from .jobs import meter
from .scene import Scene
from .states import job_state


def title(page: JobPage) -> str:
    name = "raw" if page.row.seq is None else f"#{page.row.seq}"
    return f"Job {name}  {page.row.task}"


def lines(page: JobPage, scene: Scene, width: int) -> list[Line]:
    """The whole page; arguments and result only when they were asked for."""
    return [
        *_head(page, scene),
        *section("Why it is where it is", told(page.why, scene, width)),
        *section("Stages", _stages(page, scene)),
        *section("Attempts", _attempts(page, width)),
        *section("Plan, parent and children", _facts(page.family, width)),
        *section("Arguments and result", _values(page, scene, width)),
        *section("Log", _logs(page, scene, width)),
        *section("Everything else", _facts(page.facts, width)),
    ]


def section(name: str, found: list[Line]) -> list[Line]:
    """A part of a page under its name; nothing where there is none."""
    return [[("", "text")], [(f" {name}", "title")], *found] if found else []


def _head(page: JobPage, scene: Scene) -> Iterator[Line]:
    row = page.row
    state, role = job_state(row.state, scene.glyphs)
    yield [
        (" ", "text"),
        (state, role),
        (f"   attempt {row.attempt}", "text"),
        (_trouble(page), "warn"),
    ]
    held = f"   held by {page.holder}" if page.holder and row.state == "working" else ""
    last = f"   last held by {page.holder}" if page.holder and not held else ""
    yield [
        (f" in the share of {page.owner}" if page.owner else " in nobody's share", "muted"),
        (held or last, "muted"),
    ]
    if row.progress is not None and row.state != "done":
        yield [(" ", "text"), *meter(row.progress, row.progress_note, scene, 30)]
    elif row.progress_note:  # what its task said last is seldom that it is done
        yield [(f" last said: {row.progress_note}", "muted")]
    now = page.at.timestamp()
    times: list[str] = []
    for name, at in (
        ("created", row.created_at),
        ("started", row.started_at),
        ("ended", row.finished_at),
    ):
        if at is not None:
            times.append(f"{name} {age(now - at)} ago")
    if row.ran is not None:
        times.append(f"ran {age(row.ran)}")
    yield [(" " + "   ".join(times), "muted")]


def _trouble(page: JobPage) -> str:
    row = page.row
    parts = [
        f"{row.fails} failed" if row.fails else "",
        f"{row.lost} lost with their node" if row.lost else "",
    ]
    parts.append("cancelling was asked for" if row.cancel and row.is_open else "")
    return "".join(f"   {part}" for part in parts if part)


def told(why: Iterable[tuple[str, str]], scene: Scene, width: int) -> list[Line]:
    """Sentences, each with its advice."""
    found: list[Line] = []
    for sentence, advice in why:
        first, *rest = wrap(sentence, width - 5)
        found.append([(f"  {scene.glyphs.dot} ", "key"), (first, "text")])
        found += [[("    " + text, "text")] for text in rest]
        found += [[("    " + text, "info")] for text in (wrap(advice, width - 5) if advice else [])]
    return found


def _stages(page: JobPage, scene: Scene) -> list[Line]:
    name = min(30, max((size(stage.name) for stage in page.stages), default=0))
    return [_stage(place, one, scene, name) for place, one in enumerate(page.stages, 1)]


def _stage(place: int, one: StageRow, scene: Scene, name: int) -> Line:
    state, role = job_state(one.state, scene.glyphs) if one.state else ("  not begun", "faint")
    line: Line = [
        (f"  {place:>3} ", "strong"),
        (f"{left(one.name, name)}  ", "text"),
        (left(state, 11), role),
    ]
    if one.ms is None:
        return line
    took, large = left(duration(one.ms / 1000), 7), left(amount(one.bytes or 0), 8)
    apart = f"in {count(one.parts, 'part')}" if one.parts else ""
    ran = "  ".join(text for text in (one.node, one.version, apart) if text)
    return [*line, (f" {took} {large} attempt {one.attempt}  {ran}".rstrip(), "muted")]


def _attempts(page: JobPage, width: int) -> list[Line]:
    return [line for attempt in page.attempts for line in _attempt(attempt, width)]


def _attempt(attempt: Attempt, width: int) -> Iterator[Line]:
    yield [(f"  {attempt.number or '':>3} ", "strong"), (attempt.text, "text")]
    for text in wrap(attempt.error, width - 7) if attempt.error else []:
        yield [("      " + text, "bad")]
    for text in attempt.traceback.splitlines()[-12:]:
        yield [("      " + text, "faint")]


def _values(page: JobPage, scene: Scene, width: int) -> list[Line]:
    if not scene.view.is_revealed:
        return [[("  hidden: v shows them", "faint")]]
    found: list[Line] = []
    saved = [("saved", page.saved)] if page.saved else []
    for name, value in (("args", page.args), *saved, ("result", page.result)):
        for number, text in enumerate(wrap(value or "-", width - 12)):
            label = left("" if number else name, 8)
            found.append([(f"  {label}", "muted"), (text, "text")])
    return found


def _logs(page: JobPage, scene: Scene, width: int) -> list[Line]:
    found: list[Line] = []
    for at, attempt, text in page.logs[-200:]:
        first, *rest = wrap(text, max(10, width - 18))
        found.append(
            [
                (f"  {moment(at, scene.zone)} ", "faint"),
                (f"{attempt:>3}  ", "muted"),
                (first, "text"),
            ]
        )
        found += [[(" " * 16 + more, "text")] for more in rest]
    return found


def _facts(facts: Iterable[tuple[str, str]], width: int) -> list[Line]:
    return [
        [(f"  {left('' if number else name, 14)} ", "muted"), (part, "text")]
        for name, text in facts
        for number, part in enumerate(wrap(text, max(10, width - 18)))
    ]
