"""What keys do to the view: cursors, panes, filters, orders, time; and what there is to say about
it."""

from __future__ import annotations

from datetime import datetime, timedelta

from ..query.filters import RowFilter, parse
from ..query.sorting import Order
from ..records.pane import Target
from .layout import BY_ITSELF, JOBS, PANES, TIME, shown_panes
from .panes import table
from .panes.alert import current as current_alerts
from .panes.frame import inside
from .panes.view import KINDS
from .stage import TABLES, Stage

FAR = 1_000_000_000
"""More rows than any list has."""


def move(stage: Stage, by: int) -> None:
    """Move the cursor of the pane in focus."""
    keys = stage.keys(stage.view.focus)
    if stage.view.focus == TIME:
        _move_lane(stage, by)
    else:
        table.settle(stage.view.list, keys, _height(stage))
        table.move(stage.view.list, keys, by)
    stage.moved()


def _move_lane(stage: Stage, by: int) -> None:
    view, keys = stage.view.lists[TIME], stage.keys(TIME)
    if keys:
        view.place = max(0, min(len(keys) - 1, view.place + by))
        view.key = keys[view.place]
        room = max(1, _height(stage) - 5)
        view.top = max(view.place - room + 1, min(view.top, view.place))


def _height(stage: Stage) -> int:
    box = stage.boxes.get(stage.view.focus)
    return max(1, inside(box)[1] - 1) if box else 1


def move_page(stage: Stage, sign: int) -> None:
    move(stage, sign * max(1, _height(stage) - 1))


def move_sideways(stage: Stage, by: int) -> None:
    """As the arrows do: in time where there is time."""
    if stage.view.focus == TIME:
        shift(stage, by)


def show_pane(stage: Stage, pane: str) -> None:
    stage.view.show(pane, is_tabbed="tabs" in stage.boxes)
    stage.arrange()


def show_time(stage: Stage) -> None:
    """To the time pane, beside the others where there is room for them."""
    stage.view.turn_to(TIME)
    stage.arrange()


def cycle(stage: Stage, by: int) -> None:
    """The next pane: where several are shown the focus moves, else the tab does."""
    shown = shown_panes(stage.boxes)
    around = shown if len(shown) > 1 and "tabs" not in stage.boxes else list(PANES)
    place = around.index(stage.view.focus) if stage.view.focus in around else 0
    stage.view.turn_to(around[(place + by) % len(around)])
    stage.arrange()


def sort(stage: Stage) -> str:
    shown = TABLES.get(stage.view.focus)
    if shown is None:
        return "there is nothing to sort here"
    view = stage.view.list
    view.order = view.order.next(shown.sortable)
    stage.touch()
    return f"sorted by {view.order.fact}" if view.order.fact else "in the usual order"


def reverse(stage: Stage) -> str | None:
    if stage.view.focus not in TABLES:
        return "there is nothing to sort here"
    order = stage.view.list.order
    stage.view.list.order = (
        order.turned() if order.fact else Order(is_reversed=not order.is_reversed)
    )
    stage.touch()
    return None


def freeze(stage: Stage) -> str | None:
    if stage.view.is_frozen or stage.view.at is not None:
        stage.thaw()
        return None
    stage.freeze()
    return "frozen: everything goes on behind this picture; space returns to now"


def back(stage: Stage) -> None:
    """One step back: the filter, the whole screen for one pane, the past; in this order."""
    view = stage.view
    if view.focus in TABLES and view.list.chosen.text:
        view.list.chosen = RowFilter()
    elif view.tab in BY_ITSELF and "tabs" not in stage.boxes:
        view.leave()
        stage.arrange()
    elif view.is_maximised:
        view.is_maximised = False
        stage.arrange()
    elif view.marked:
        view.marked = frozenset()
    elif view.at is not None or view.is_frozen:
        stage.thaw()
    stage.touch()


def go_to(stage: Stage, at: datetime | None) -> None:
    """Look at a moment; None, or one that has not come yet, is now."""
    if at is None or at >= stage.board.now():
        stage.thaw()
        return
    stage.view.at = max(at, stage.board.oldest())
    stage.touch()


def shift(stage: Stage, columns: int) -> None:
    """So many columns on in time."""
    here = stage.view.at or stage.scene.picture.at
    go_to(stage, here + timedelta(seconds=columns * (stage.view.step or 1.0)))


def jump(stage: Stage, *, back: bool, epochs: bool = False) -> str | None:
    """To the nearest change, or epoch, before or after the moment shown."""
    here = stage.view.at or stage.scene.picture.at
    found = stage.board.next_change(here, back=back, epochs=epochs)
    if found is None and back:
        return "nothing older is known"
    go_to(stage, found)
    return None


def go_to_oldest(stage: Stage) -> None:
    go_to(stage, stage.board.oldest())


def go_to_now(stage: Stage) -> None:
    stage.thaw()


def zoom(stage: Stage, *, closer: bool) -> None:
    stage.view.zoom(closer=closer)
    stage.touch()


def choose_kinds(stage: Stage) -> str:
    """The next choice of what the changes pane shows."""
    stage.view.kinds = (stage.view.kinds + 1) % len(KINDS)
    stage.touch()
    return f"changes: {KINDS[stage.view.kinds][0]}"


def dismiss(stage: Stage) -> str:
    alerts = current_alerts(stage.scene)
    if not alerts:
        return "there is no alert"
    stage.view.dismiss(alerts[0])
    stage.touch()
    return "put aside until it goes away and comes back"


def mark_row(stage: Stage) -> None:
    row = stage.current(JOBS)
    if row is not None and row.seq is not None:
        stage.view.marked ^= {row.seq}
    move(stage, 1)


def mark_all(stage: Stage) -> str:
    seqs = frozenset(row.seq for row in stage.rows(JOBS) if row.seq is not None)
    stage.view.marked = frozenset() if stage.view.marked >= seqs else seqs
    stage.touch()
    return f"{len(stage.view.marked):,} jobs marked"


def reveal(stage: Stage) -> str:
    """Show the arguments and results of jobs, or hide them again."""
    stage.view.is_revealed = not stage.view.is_revealed
    stage.touch()
    return (
        "arguments and results are shown"
        if stage.view.is_revealed
        else "arguments and results are hidden"
    )


def show(stage: Stage, target: Target) -> None:
    """Go to what an alert or a change is about."""
    pane = str(target.pane) if str(target.pane) in PANES else PANES[0]
    stage.view.turn_to(pane)
    view = stage.view.lists[pane]
    if target.filter and pane in TABLES:
        view.chosen = parse(target.filter, TABLES[pane].fields)
    if target.key:
        view.key = f"#{target.key.lstrip('#')}" if pane == JOBS else target.key
        keys = list(stage.keys(pane))
        if view.key in keys:
            view.place = keys.index(view.key)
    stage.arrange()
