"""A progress bar on stderr if that is a terminal, now and then a line if it is not."""

from __future__ import annotations

import time
from types import TracebackType
from typing import Self

from rich.progress import (
    BarColumn,
    MofNCompleteColumn,
    Progress,
    TaskProgressColumn,
    TextColumn,
    TimeRemainingColumn,
)
from rich.text import Text

from ..legible import legible
from .output import console, note

_LINE_EVERY = 5.0


class Meter:
    """How far something is that takes a while."""

    def __init__(self, what: str, total: int, *, shown: bool = True) -> None:
        self._what = what
        self._total = total
        self._shown = shown
        self._line_at = time.monotonic() + _LINE_EVERY
        out = console(stderr=True)
        amount = MofNCompleteColumn() if total > 1 else TaskProgressColumn()
        columns = (
            TextColumn("{task.description}", markup=False),
            BarColumn(),
            amount,
            TimeRemainingColumn(),
        )
        self._progress = Progress(
            *columns, console=out, transient=True, disable=not (shown and out.is_terminal)
        )
        self._task = self._progress.add_task(what, total=total)

    def reach(self, done: float, remark: str = "") -> None:
        """Show that `done` of the total are reached."""
        self._progress.update(
            self._task, completed=done, description=f"{self._what} {legible(remark, 60)}".strip()
        )
        if (
            self._shown
            and self._progress.disable
            and self._total > 1
            and time.monotonic() >= self._line_at
        ):
            self._line_at = time.monotonic() + _LINE_EVERY
            note(f"{self._what}: {done:,.0f} of {self._total:,}")

    def say(self, message: str) -> None:
        """A remark above the bar."""
        if self._progress.disable:
            note(message)
        else:
            self._progress.console.print(Text(message))

    def __enter__(self) -> Self:
        self._progress.start()
        return self

    def __exit__(
        self,
        type: type[BaseException] | None,
        value: BaseException | None,
        trace: TracebackType | None,
    ) -> None:
        self._progress.stop()
