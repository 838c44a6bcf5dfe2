"""What keys do to the view: cursors, panes, filters, orders, time. Nothing here needs a terminal."""

from __future__ import annotations

from collections.abc import Callable
from datetime import datetime, timedelta

from ..query.sorting import Order
from ..records.pane import Target
from .layout import JOBS, PANES, TIME, shown_panes
from .panes import table
from .panes.alert import current as current_alerts
from .panes.frame import inside
from .panes.view import KINDS
from .stage import TABLES, Stage

Act = Callable[[Stage], str | None]
"""Does something to the view; what there is to say about it."""


def _move(by: int) -> Act:
    def act(stage: Stage) -> str | None:
        return move(stage, by)

    return act


def move(stage: Stage, by: int) -> str | None:
    """Move the cursor of the pane in focus."""
    view = stage.view.list
    keys = stage.keys(stage.view.focus)
    if stage.view.focus == TIME:
        _move_lane(stage, by)
    else:
        table.settle(view, keys, _height(stage))
        table.move(view, keys, by)
    stage.moved()
    return None


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


def _page(sign: int) -> Act:
    def act(stage: Stage) -> str | None:
        return move(stage, sign * max(1, _height(stage) - 1))

    return act


def _end(stage: Stage) -> str | None:
    return move(stage, len(stage.keys(stage.view.focus)))


def _pane(pane: str) -> Act:
    def act(stage: Stage) -> str | None:
        stage.view.show(pane, is_tabbed="tabs" in stage.boxes)
        stage.arrange()
        return None

    return act


def _time(stage: Stage) -> str | None:
    """To the time pane, beside the others where there is room for them."""
    stage.view.focus = stage.view.tab = TIME
    stage.arrange()
    return None


def _cycle(by: int) -> Act:
    """The next pane: where several are shown the focus moves, else the tab does."""

    def act(stage: Stage) -> str | None:
        shown = shown_panes(stage.boxes)
        around = shown if len(shown) > 1 and "tabs" not in stage.boxes else list(PANES)
        place = around.index(stage.view.focus) if stage.view.focus in around else 0
        stage.view.focus = stage.view.tab = around[(place + by) % len(around)]
        stage.arrange()
        return None

    return act


def _sort(stage: Stage) -> str | None:
    kept = TABLES.get(stage.view.focus)
    if kept is None:
        return "there is nothing to sort here"
    view = stage.view.list
    view.order = view.order.next(kept.sortable)
    stage.touch()
    return f"sorted by {view.order.fact}" if view.order.fact else "in the usual order"


def _reverse(stage: Stage) -> str | None:
    if stage.view.focus not in TABLES:
        return "there is nothing to sort here"
    view = stage.view.list
    view.order = view.order.turned() if view.order.fact else Order(is_reversed=not view.order.is_reversed)
    stage.touch()
    return None


def _freeze(stage: Stage) -> str | None:
    if stage.view.is_frozen or stage.view.at is not None:
        stage.thaw()
        return None
    stage.freeze()
    return "frozen: everything goes on behind this picture; space returns to now"


def back(stage: Stage) -> str | None:
    """One step back: the filter, the whole screen for one pane, the past; in this order."""
    view = stage.view
    if view.focus in TABLES and view.list.chosen.text:
        view.list.chosen = type(view.list.chosen)()
    elif view.is_maximised:
        view.is_maximised = False
        stage.arrange()
    elif view.marked:
        view.marked = frozenset()
    elif view.at is not None or view.is_frozen:
        stage.thaw()
    stage.touch()
    return None


def go_to(stage: Stage, at: datetime | None) -> None:
    """Look at a moment; None, or one that has not come yet, is now."""
    now = stage.board.now()
    if at is None or at >= now:
        stage.thaw()
        return
    stage.view.at = max(at, stage.board.oldest())
    stage.touch()


def _shift(columns: int) -> Act:
    def act(stage: Stage) -> str | None:
        here = stage.view.at or stage.scene.picture.at
        go_to(stage, here + timedelta(seconds=columns * (stage.view.step or 1.0)))
        return None

    return act


def _jump(*, back: bool, epochs: bool) -> Act:
    def act(stage: Stage) -> str | None:
        here = stage.view.at or stage.scene.picture.at
        found = stage.board.next_change(here, back=back, epochs=epochs)
        if found is None and back:
            return "nothing older is known"
        go_to(stage, found)
        return None

    return act


def _oldest(stage: Stage) -> str | None:
    go_to(stage, stage.board.oldest())
    return None


def _now(stage: Stage) -> str | None:
    stage.thaw()
    return None


def _zoom(*, closer: bool) -> Act:
    def act(stage: Stage) -> str | None:
        stage.view.zoom(closer=closer)
        stage.touch()
        return None

    return act


def _kinds(stage: Stage) -> str | None:
    stage.view.kinds = (stage.view.kinds + 1) % len(KINDS)
    stage.touch()
    return f"changes: {KINDS[stage.view.kinds][0]}"


def _dismiss(stage: Stage) -> str | None:
    alerts = current_alerts(stage.scene)
    if not alerts:
        return "there is no alert"
    stage.view.dismiss(alerts[0])
    stage.touch()
    return "put aside until it goes away and comes back"


def _mark_row(stage: Stage) -> str | None:
    row = stage.current(JOBS)
    if row is not None and row.seq is not None:
        stage.view.marked ^= {row.seq}
    return move(stage, 1)


def _mark_all(stage: Stage) -> str | None:
    seqs = frozenset(row.seq for row in stage.rows(JOBS) if row.seq is not None)
    stage.view.marked = frozenset() if stage.view.marked >= seqs else seqs
    stage.touch()
    return f"{len(stage.view.marked):,} jobs marked"


def show(stage: Stage, target: Target) -> None:
    """Go to what an alert or a change is about."""
    from ..query.filters import parse

    pane = str(target.pane) if str(target.pane) in PANES else PANES[0]
    stage.view.focus = stage.view.tab = pane
    view = stage.view.lists[pane]
    if target.filter and pane in TABLES:
        view.chosen = parse(target.filter, TABLES[pane].fields)
    if target.key:
        view.key = f"#{target.key.lstrip('#')}" if pane == JOBS else target.key
        keys = list(stage.keys(pane))
        if view.key in keys:
            view.place = keys.index(view.key)
    stage.arrange()


def _horizontal(by: int) -> Act:
    """`h` and `l` are the arrows: they move in time where there is time."""

    def act(stage: Stage) -> str | None:
        return _shift(by)(stage) if stage.view.focus == TIME else None

    return act


ACTS: dict[str, Act] = {
    "up": _move(-1),
    "down": _move(1),
    "page_up": _page(-1),
    "page_down": _page(1),
    "first": _move(-1_000_000_000),
    "last": _end,
    "left": _horizontal(-1),
    "right": _horizontal(1),
    **{f"pane_{number}": _pane(pane) for number, pane in enumerate(PANES, 1)},
    "time": _time,
    "next_pane": _cycle(1),
    "previous_pane": _cycle(-1),
    "sort": _sort,
    "reverse": _reverse,
    "freeze": _freeze,
    "back": back,
    "earlier": _shift(-1),
    "later": _shift(1),
    "much_earlier": _shift(-10),
    "much_later": _shift(10),
    "change_before": _jump(back=True, epochs=False),
    "change_after": _jump(back=False, epochs=False),
    "epoch_before": _jump(back=True, epochs=True),
    "epoch_after": _jump(back=False, epochs=True),
    "oldest": _oldest,
    "now": _now,
    "closer": _zoom(closer=True),
    "farther": _zoom(closer=False),
    "changes": _kinds,
    "dismiss": _dismiss,
    "mark_row": _mark_row,
    "select": _mark_all,
}
