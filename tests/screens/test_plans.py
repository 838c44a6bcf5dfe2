"""Plans on a real screen without a terminal: the list, a plan drawn with its steps, what can be
asked of one, and the ways from and to its jobs."""

from __future__ import annotations

from dataclasses import replace

import pytest
from textual.pilot import Pilot

from tests.screens.dump import compare, dump, press, shown, text
from tests.screens.plans import ALL, chain, diamond, mapped, stuck, unaccepted, undoing
from tests.screens.still import StillBoard, StillSource, job
from tests.support.feeding import until
from tontine_observer.records.plan import PlanPage
from tontine_observer.stage.layout import PLANS
from tontine_observer.terminal import pager
from tontine_observer.terminal.app import ObserverApp
from tontine_observer.terminal.screens.confirm import Confirm
from tontine_observer.terminal.screens.page import ListPage, Page

SMALL, LARGE = (80, 24), (120, 36)
SIZES = pytest.mark.parametrize("size", [SMALL, LARGE], ids=lambda size: f"{size[0]}")


def source_of(*plans: PlanPage) -> StillSource:
    return StillSource(plans=plans or tuple(make() for make in ALL.values()))


async def listed(app: ObserverApp, pilot: Pilot[None]) -> None:
    await press(app, pilot, "0")
    await until(lambda: app.stage.ledger.plans is not None)
    await press(app, pilot)


def lines(app: ObserverApp) -> list[str]:
    """The lines of the dialog that is open, without its frame."""
    assert isinstance(app.screen, Page)
    return [line.strip("│┃ ") for line in app.screen.text.splitlines()]


@SIZES
async def test_the_list_shows_state_steps_bar_age_and_error(size: tuple[int, int]) -> None:
    async with shown(size, source=source_of()) as (app, pilot):
        await listed(app, pilot)
        rows = {
            line.strip("│▸ ").split()[0]: line for line in text(app).splitlines() if "#" in line
        }
        for seq, told in {
            "#17": ("● running", "album", "1/3", " 33%", "75s"),
            "#19": ("● running", "photos", "1/3", " 54%"),
            "#20": ("↶ undoing", "trip", "2/3", "car: Runtime"),
            "#22": ("! stuck", "1/2"),
            "#23": ("? \\e[31mred", "0/5"),
            "#24": ("✗ failed", "0/0", "it has no `"),
        }.items():
            assert all(one in rows[seq] for one in told), rows[seq]
        assert "◌ new" in text(app)
        assert "hunter2" not in text(app)
        compare(f"{size[0]}x{size[1]}-plans", dump(app))


DRAWN = {
    "chain": ["✓ open  done       10 s", "● pack  working    12 s", "○ mail  waiting"],
    "diamond": [
        "✓     open   done       10 s",
        "├─✓─╮ fetch  done       10 s",
        "╰─●─┤ look   working    12 s",
        "○───╯ pack   waiting",
        "○     mail   waiting",
    ],
    "mapped": [
        "✓ list   done       10 s",
        "● fetch  working    ████████████x▓░░░··· 6,204 of 10,000, 3 failed, 16 worki",
        "item 4,711 #4803: TimeoutError: upstream did not answer in 30 s",
        "○ pack   waiting",
    ],
    "undoing": [
        "✓ flight   done       10 s  ↶ to be undone",
        "✓ hotel    done       10 s  ↶ undoing",
        "✗ car      failed     1.0 s",
        "#4809: RuntimeError: no car is free",
        "○ finally  waiting",
    ],
    "cancelled": ["⊘ cancelled   try 2", "✓ open  done       10 s", "⊘ pack  cancelled  10 s"],
    "stuck": [
        "✓ flight   done       10 s  ↶ undo failed",
        "undo: #4808: OSError: no line to the airline",
        "✗ car      failed     1.0 s",
        "#4809: RuntimeError: no car is free",
        "✓ finally  done       1.0 s",
    ],
    "unaccepted": [
        "◌ new",
        "○ get  waiting",
        "○ put  waiting",
        "· No node has accepted it yet; the first member does within a second.",
    ],
    "hostile": ["? \\e[31mred\\x07 [bold]x[/bold] \\u202egnp.exe 日本語", "○   c ", "○   d "],
    "refused": ["✗ failed", "it has no `steps`: name at least one", "· It could be no plan"],
}


@SIZES
@pytest.mark.parametrize("name", ALL)
async def test_a_plan_is_drawn_with_the_state_of_every_step(
    name: str, size: tuple[int, int]
) -> None:
    plan = ALL[name]()
    async with shown(size, source=source_of(plan)) as (app, pilot):
        await listed(app, pilot)
        await press(app, pilot, "enter")
        await until(lambda: isinstance(app.screen, ListPage))
        await press(app, pilot)
        found = lines(app)
        place = 0
        for wanted in DRAWN[name]:  # in this order
            rest = [line.lstrip("▸│ ") for line in found[place:]]
            here = next((at for at, line in enumerate(rest) if line.startswith(wanted)), None)
            assert here is not None, f"{wanted!r} is not in\n" + "\n".join(found)
            place += here + 1
        assert not {"\x1b", "\x07", "\u202e"} & set(text(app))
        assert "hunter2" not in text(app)


async def test_a_page_of_a_map_and_of_an_undo_look_like_this() -> None:
    async with shown(LARGE, source=source_of(mapped(), undoing())) as (app, pilot):
        for seq in (19, 20):
            await press(app, pilot, "colon", *f"plan {seq}", "enter")
            await until(lambda: isinstance(app.screen, ListPage))
            await press(app, pilot)
            compare(f"120x36-plan-{seq}", dump(app))
            await press(app, pilot, "escape")


async def test_what_is_hostile_stays_text_when_the_document_is_shown_in_ascii() -> None:
    async with shown(SMALL, source=source_of(ALL["hostile"]()), is_ascii=True) as (app, pilot):
        await listed(app, pilot)
        await press(app, pilot, "enter")
        await until(lambda: isinstance(app.screen, ListPage))
        await press(app, pilot, "v", "G")
        assert text(app).isascii()
        assert "hunter2" not in text(app)
        assert "hidden" not in text(app)


async def test_the_page_follows_the_plan_and_keeps_the_cursor() -> None:
    source = source_of(chain())
    async with shown(SMALL, source=source) as (app, pilot):
        await press(app, pilot, "colon", *"plan 17", "enter")
        await until(lambda: isinstance(app.screen, ListPage))
        await press(app, pilot, "j")
        assert any(line.startswith("▸● pack  working") for line in lines(app))
        source.plans = (replace(ALL["cancelled"](), row=chain().row),)
        await until(lambda: any("▸⊘ pack  cancelled" in line for line in lines(app)))


@pytest.mark.parametrize(
    ("plan", "key", "verb", "told"),
    [
        (chain, "X", "cancel", "what runs is asked to end"),
        (stuck, "R", "retry", "undos that failed are tried again"),
        (ALL["cancelled"], "R", "retry", "goes on with what did not succeed"),
    ],
)
async def test_a_plan_is_cancelled_and_retried_after_a_question(
    plan: object, key: str, verb: str, told: str
) -> None:
    page: PlanPage = plan()  # type: ignore[operator]
    source = source_of(page)
    async with shown(SMALL, source=source) as (app, pilot):
        await listed(app, pilot)
        await press(app, pilot, key)
        assert isinstance(app.screen, Confirm)
        assert told in app.screen.text
        await press(app, pilot, "enter")  # Cancel is the answer that enter gives
        assert not source.asked
        await press(app, pilot, "enter")
        await until(lambda: isinstance(app.screen, ListPage))
        await press(app, pilot, key, "y")
        (request,) = source.asked
        assert (request.verb, request.targets, request.is_plan) == (verb, (page.row.seq,), True)
        assert request.expected == {page.row.seq: page.row.state}


async def test_what_makes_no_sense_for_a_plan_is_said() -> None:
    source = source_of(unaccepted(), undoing())
    async with shown(SMALL, source=source) as (app, pilot):
        await listed(app, pilot)
        await press(app, pilot, "X")
        assert "has no number yet" in text(app)
        await press(app, pilot, "j", "X")
        assert "plan 20 is undoing: cancel is for plans that are new or running" in text(app)
        await press(app, pilot, "colon", *"plan x", "enter")
        assert "plan wants a number" in text(app)
        await press(app, pilot, "colon", *"plan 99", "enter")
        await until(lambda: "plan 99 is not there" in app.stage.view.notice)
        assert not source.asked


async def test_enter_on_a_step_leads_to_its_job_and_from_there_to_the_plan() -> None:
    rows = (job(0)._replace(id="plan/18/fetch"), job(1))
    source = StillSource(StillBoard(rows=rows), plans=(diamond(),))
    async with shown(SMALL, source=source) as (app, pilot):
        await press(app, pilot, "colon", *"plan 18", "enter")
        await until(lambda: isinstance(app.screen, ListPage))
        await press(app, pilot, "G", "j", "j", "j", "j", "enter")
        await until(lambda: "this step has no job yet" in "".join(lines(app)))
        await press(app, pilot, "k", "k", "k", "enter")
        await until(lambda: "Job #4800" in "".join(lines(app)))
        await press(app, pilot, "u")
        await until(lambda: isinstance(app.screen, ListPage) and len(app.screen_stack) == 5)
        await press(app, pilot, "escape", "escape", "escape")
        assert app.screen is app.overview
        await press(app, pilot, "3", "G", "u")
        await until(lambda: isinstance(app.screen, ListPage))
        await press(app, pilot, "escape", "k", "u")
        assert "this job is of no plan" in text(app)


async def test_plans_are_filtered_sorted_and_found_by_their_word() -> None:
    async with shown(SMALL, source=source_of()) as (app, pilot):
        await press(app, pilot, "colon", *"plans", "enter")
        assert app.stage.view.focus == PLANS
        await until(lambda: app.stage.ledger.plans)
        await press(app, pilot, "slash", *"state:running,stuck plan:p", "enter")
        assert [row.seq for row in app.stage.rows(PLANS)] == [19, 22]
        await press(app, pilot, "escape", "slash", *"progress>0.4 err~car", "enter")
        assert [row.seq for row in app.stage.rows(PLANS)] == [20, 22]


async def test_plans_are_read_only_while_they_are_shown() -> None:
    asked: list[str] = []

    class Counting(StillSource):
        async def ledger(self, pane):  # type: ignore[no-untyped-def]
            asked.append(pane)
            return await super().ledger(pane)

    async with shown(LARGE, source=Counting()) as (app, pilot):
        await press(app, pilot, "8")
        await until(lambda: asked)
        assert set(asked) == {"schedules"}
        await press(app, pilot, "0")
        await until(lambda: "plans" in asked)
        assert "no plan yet: `tontine submit --plan FILE` adds one" in text(app)


async def test_the_whole_page_goes_to_the_pager(monkeypatch: pytest.MonkeyPatch) -> None:
    given: list[str] = []
    monkeypatch.setattr(pager, "show", lambda _, whole, __: given.append(whole))
    async with shown(SMALL, source=source_of(mapped())) as (app, pilot):
        await listed(app, pilot)
        await press(app, pilot, "enter")
        await until(lambda: isinstance(app.screen, ListPage))
        await press(app, pilot, "P")
        assert "6,204 of 10,000, 3 failed, 16 working, 1,984 queued  48 s" in given[0]
