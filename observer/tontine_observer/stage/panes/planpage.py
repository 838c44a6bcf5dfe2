"""One plan's page: its steps on rails with the state of each, and why it is where it is. Pure."""

from __future__ import annotations

from collections.abc import Iterator

from ...draw.line import Line, fit, on, wrap
from ...draw.words import age
from ...records.plan import PlanPage
from .jobpage import section, told
from .jobs import meter
from .plans import line_of, plan_state, took
from .scene import Scene


def title(page: PlanPage) -> str:
    return f"Plan {page.row.title}  {page.row.name}".rstrip()


def lines(page: PlanPage, scene: Scene, width: int, place: int) -> list[Line]:
    """The whole page, with the cursor on one of the steps; the document only when it was asked
    for."""
    return [
        *_head(page, scene, width),
        [("", "text")],
        *_steps(page, scene, width, place),
        *section("Why it is where it is", told(page.why, scene, width)),
        *section("Document", _document(page, scene, width)),
    ]


def _head(page: PlanPage, scene: Scene, width: int) -> Iterator[Line]:
    row, now = page.row, page.at.timestamp()
    tries = f"   try {row.tries + 1}" if row.tries else ""
    key = f"   key {row.key}" if row.key else ""
    yield [(" ", "text"), plan_state(row.state), (f"{tries}{key}", "muted")]
    yield [
        (" ", "text"),
        *meter(row.progress, f"{row.done:,} of {row.steps or 0:,} steps", scene, 30),
        (f"   {age(took(row, now))}" if row.created_at else "", "muted"),
    ]
    steps = {one.step.name for one in page.steps}
    if row.error and not any(row.error.startswith(f"{name}: ") for name in steps):
        yield from ([(f" {text}", "job.failed")] for text in wrap(row.error, width - 2))


def _steps(page: PlanPage, scene: Scene, width: int, place: int) -> Iterator[Line]:
    for number, one in enumerate(page.steps):
        first, *more = map(line_of, one.lines)
        if number == place:
            yield on(fit([(scene.glyphs.cursor, "key"), *first], width), "cursor")
        else:
            yield [(" ", "text"), *first]
        yield from ([(" ", "text"), *line] for line in more)


def _document(page: PlanPage, scene: Scene, width: int) -> list[Line]:
    if not scene.view.is_revealed:
        return [[("  hidden: v shows it", "faint")]]
    return [
        [(f"  {text}", "text")]
        for whole in page.document.splitlines()
        for text in wrap(whole, width - 3)
    ]
