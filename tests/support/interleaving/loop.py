"""An event loop that runs when it is told to, on a clock that moves when it is told to."""

from __future__ import annotations

import asyncio
import contextlib
import inspect
from collections.abc import Callable, Iterator
from typing import Any

TURNS_AT_MOST = 1000
"""Nobody has so much to do at one moment."""


class ManualClock:
    """A stopwatch that stands still until somebody moves it."""

    def __init__(self, start: float = 1000.0) -> None:
        self._now = start

    def now(self) -> float:
        return self._now

    def advance(self, seconds: float) -> None:
        self._now += seconds


class _NoSelector:
    """Nothing arrives from outside."""

    def select(self, timeout: float | None) -> list[Any]:
        return []

    def close(self) -> None: ...


class ManualLoop(asyncio.BaseEventLoop):
    """asyncio without sockets, threads or time of its own: tasks, events, sleeps and timeouts work
    as ever."""

    def __init__(self, clock: ManualClock, complain: Callable[[str], None]) -> None:
        super().__init__()
        self._clock = clock
        self._complain = complain
        self._selector = _NoSelector()
        self.set_exception_handler(
            lambda _, context: complain(f"{context.get('exception') or context['message']!r}")
        )

    def time(self) -> float:
        return self._clock.now()

    def run_in_executor(self, executor: Any, func: Callable[..., Any], *args: Any) -> Any:  # type: ignore[override]
        """What belongs in a thread happens at once; a coroutine function becomes a task in its
        stead."""
        result = func(*args)
        if inspect.iscoroutine(result):
            return self.create_task(result)
        future = self.create_future()
        future.set_result(result)
        return future

    def turn(self) -> None:
        """Run everything that can run at this moment."""
        with self.entered():
            for _ in range(TURNS_AT_MOST):
                self._run_once()  # type: ignore[attr-defined]
                if not self._ready and not self._is_due():
                    return
        self._complain(
            f"it spins, in one of {[task.get_coro() for task in asyncio.all_tasks(self)]}"
        )

    @contextlib.contextmanager
    def entered(self) -> Iterator[None]:
        """Inside, this is the running loop."""
        asyncio._set_running_loop(self)
        try:
            yield
        finally:
            asyncio._set_running_loop(None)

    def abandon(self) -> None:
        """Forget all tasks where they stand, as a killed process does."""
        with self.entered():
            for task in asyncio.all_tasks(self):
                task._log_destroy_pending = False  # type: ignore[attr-defined]
                coroutine: Any = task.get_coro()
                coroutine.close()
        self.close()

    def _is_due(self) -> bool:
        scheduled: list[asyncio.TimerHandle] = self._scheduled  # type: ignore[attr-defined]
        return bool(scheduled) and scheduled[0].when() <= self.time()

    _ready: Any

    def _process_events(self, event_list: list[Any]) -> None: ...

    def _write_to_self(self) -> None: ...
