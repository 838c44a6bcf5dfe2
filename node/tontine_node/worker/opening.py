"""What a worker opens before its first job and closes when it is retired: the connections of its
context (MC1).

Sync ones first, in the main thread, then async ones in the event loop; then `configure`. They close
in reverse.
"""

from __future__ import annotations

import asyncio
import logging
import os
import threading
from collections.abc import Callable, Iterator
from typing import Any

from tontine.context import Connection, Context
from tontine.function import is_async

from ..running.pipe import BrokenModules
from .place import place_of

log = logging.getLogger("tontine.context")

CLOSE_WITHIN = 5.0
TEXT_LIMIT = 500

Entered = list[tuple[Connection[Any], Any]]
"""What stands open, and the manager that closes it."""


class Opening:
    """The connections of one worker; without a context there are none."""

    def __init__(self, context: Context | None, loop: asyncio.AbstractEventLoop) -> None:
        self._context = context
        self._loop = loop
        self._entered: Entered = []
        self._keeper: asyncio.Task[None] | None = None
        self._is_over = asyncio.Event()

    def get_ready(self) -> BrokenModules | None:
        """Open everything and configure; what kept it from that, if anything did."""
        if self._context is None:
            return None
        self._context.is_opened_here = True
        return self._open(self._context) or self._configure(self._context)

    def close(self) -> None:
        """Close everything in reverse. What takes too long ends with the process."""
        if not self._entered and self._keeper is None:
            return
        limit = threading.Timer(CLOSE_WITHIN, _give_up)
        limit.daemon = True
        limit.start()
        if self._keeper is not None:
            self._is_over.set()
            self._loop.run_until_complete(self._keeper)
        for connection, manager in _last_first(self._entered):
            try:
                manager.__exit__(None, None, None)
            except BaseException:  # the user's code may raise anything
                log.exception("%s could not be closed", _named(connection))
        limit.cancel()

    def _open(self, context: Context) -> BrokenModules | None:
        async_ones: list[tuple[Connection[Any], Any]] = []
        for connection in context.connections:
            try:
                manager: Any = connection.open()
                if _is_async_manager(manager):
                    async_ones.append((connection, manager))
                    continue
                if not _is_sync_manager(manager):
                    return _no_manager(connection, manager)
                connection.opened(manager.__enter__())
            except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
                return _not_opened(connection, error)
            self._entered.append((connection, manager))
        return self._open_async(async_ones) if async_ones else None

    def _open_async(self, managers: list[tuple[Connection[Any], Any]]) -> BrokenModules | None:
        opened: asyncio.Future[BrokenModules | None] = self._loop.create_future()
        # One coroutine for all its life: many libraries want to be left by the one that entered.
        self._keeper = self._loop.create_task(self._keep(managers, opened))
        self._keeper.add_done_callback(self._check_keeper)
        return self._loop.run_until_complete(opened)

    async def _keep(
        self,
        managers: list[tuple[Connection[Any], Any]],
        opened: asyncio.Future[BrokenModules | None],
    ) -> None:
        """Enter async connections, wait until it is over, and leave them."""
        entered: Entered = []
        for connection, manager in managers:
            try:
                connection.opened(await manager.__aenter__())
            except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
                opened.set_result(_not_opened(connection, error))
                break
            entered.append((connection, manager))
        else:
            opened.set_result(None)
        try:
            await self._is_over.wait()
        finally:
            for connection, manager in _last_first(entered):
                try:
                    await manager.__aexit__(None, None, None)
                except BaseException:  # the user's code may raise anything
                    log.exception("%s could not be closed", _named(connection))

    def _check_keeper(self, keeper: asyncio.Task[None]) -> None:
        """A worker whose connections ended by themselves is of no use, and its master must see
        that."""
        if not self._is_over.is_set():
            why = "it was cancelled" if keeper.cancelled() else repr(keeper.exception())
            log.error("the connections ended by themselves: %s", why)
            os._exit(70)

    def _configure(self, context: Context) -> BrokenModules | None:
        function = context.configured
        error = None if function is None else self._raised_by(function)
        if function is None or error is None:
            return None
        name = f"{getattr(function, '__name__', 'configure')}() of context {context.name}"
        why = f"{name} failed: {_text_of(error)}{place_of(error, function)}"
        return BrokenModules(why, "configure")

    def _raised_by(self, function: Callable[[], Any]) -> BaseException | None:
        """Call it, and await it if it is async; its error is a value, as some would end the event
        loop."""
        try:
            made = function()
        except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
            return error
        return self._loop.run_until_complete(_raised_in(made)) if is_async(function) else None


async def _raised_in(made: Any) -> BaseException | None:
    try:
        await made
    except BaseException as error:  # noqa: BLE001 - the user's code may raise anything
        return error
    return None


def _is_async_manager(manager: Any) -> bool:
    """Also what could be entered both ways: the other is there to say so."""
    return hasattr(type(manager), "__aenter__") and hasattr(type(manager), "__aexit__")


def _is_sync_manager(manager: Any) -> bool:
    return hasattr(type(manager), "__enter__") and hasattr(type(manager), "__exit__")


def _last_first(entered: Entered) -> Iterator[tuple[Connection[Any], Any]]:
    """Those that are open, each taken from its tasks before it is closed."""
    while entered:
        connection, manager = entered.pop()
        connection.closed()
        yield connection, manager


def _named(connection: Connection[Any]) -> str:
    return f"the connection {connection.name} of context {connection.context.name}"


def _no_manager(connection: Connection[Any], value: Any) -> BrokenModules:
    why = f"it gives a {type(value).__name__}, and must give a context manager"
    place = place_of(None, connection.open)
    return BrokenModules(f"{_named(connection)} cannot be entered: {why}{place}", "configuration")


def _not_opened(connection: Connection[Any], error: BaseException) -> BrokenModules:
    place = place_of(error, connection.open)
    return BrokenModules(
        f"{_named(connection)} cannot be opened: {_text_of(error)}{place}", "connection"
    )


def _text_of(error: BaseException) -> str:
    """One line of it."""
    try:
        text = " ".join(str(error).split())[:TEXT_LIMIT]
    except Exception:  # noqa: BLE001 - the user's code, like an error that cannot be printed
        text = ""
    return f"{type(error).__name__}: {text}" if text else type(error).__name__


def _give_up() -> None:
    log.error("the connections did not close within %g s", CLOSE_WITHIN)
    os._exit(0)
