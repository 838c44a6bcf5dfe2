"""Contexts: what a worker opens before its first job, and how a task gets at it.

Here is what is declared and what stands open; a worker opens and closes it.
"""

from __future__ import annotations

import contextlib
import inspect
from collections.abc import Callable, Iterator
from contextlib import AbstractAsyncContextManager, AbstractContextManager
from typing import Any, Generic, TypeVar, overload

from .errors import ConfigError, NotOpen
from .function import check_hook

Opened = TypeVar("Opened")
StandIn = TypeVar("StandIn")
Configure = TypeVar("Configure", bound=Callable[[], Any])
Manager = AbstractContextManager[Any] | AbstractAsyncContextManager[Any]

_running_in: list[str] = []
"""The context of the worker that this process is; empty in any other process."""


def run_in(name: str) -> None:
    """This process is a worker of that context."""
    _running_in[:] = [name]


class Connection(Generic[Opened]):
    """Something that each worker of a context opens before its first job: calling it gives what is
    open."""

    def __init__(self, context: Context, open: Callable[[], Manager]) -> None:
        self.name: str = open.__name__
        """That of the function which opens it."""
        self.context = context
        """Where it belongs."""
        self.open = open
        """Makes the context manager that a worker enters."""
        self.__doc__ = open.__doc__
        self._open: list[Opened] = []
        self._standing_in: list[Any] = []

    def __call__(self) -> Opened:
        """What is open; `NotOpen` where it is not."""
        if self._standing_in:
            return self._standing_in[-1]  # type: ignore[no-any-return]
        if not self._open:
            raise NotOpen(self._why_not())
        return self._open[0]

    def __repr__(self) -> str:
        return f"<connection {self.name} of context {self.context.name}>"

    @contextlib.contextmanager
    def standing_in(self, value: StandIn) -> Iterator[StandIn]:
        """In a test: calling it gives this value, in all threads of this process, until the block
        ends.

        It may be anything that behaves as the tasks need it.
        """
        self._standing_in.append(value)
        try:
            yield value
        finally:
            place = next(i for i, one in enumerate(self._standing_in) if one is value)
            del self._standing_in[place]

    def opened(self, value: Opened) -> None:
        """A worker has opened it."""
        self._open[:] = [value]

    def closed(self) -> None:
        """A worker is about to close it."""
        self._open.clear()

    def _why_not(self) -> str:
        belongs = f"the connection {self.name} belongs to context {self.context.name}"
        if not _running_in:
            return (
                f"{belongs}; this process is no worker of it (in a test: "
                f"`with {self.name}.standing_in(...)`)"
            )
        if self.context.is_opened_here:
            return (
                f"{belongs} and is not open now: it is opened after what is declared before it, "
                "sync ones first, and closed when the worker ends"
            )
        if _running_in[0] == self.context.name:
            return (
                f"{belongs}; this worker runs in a context of that name without it: is `profile` "
                f"in [contexts.{self.context.name}] the Context that has it, imported by the "
                "same name?"
            )
        return f"{belongs}; this task runs in {_running_in[0]}"


class Context:
    """A named set of connections for the workers of a context, and what is done once they are
    open."""

    def __init__(self, name: str) -> None:
        if not isinstance(name, str) or not name:
            raise ConfigError(f'{name!r} cannot name a context: write it like Context("mail")')
        self.name = name
        """What errors call it; best the one of its table in the settings file."""
        self.connections: list[Connection[Any]] = []
        """In the order in which they were declared."""
        self.configured: Callable[[], Any] | None = None
        """What `configure` was given."""
        self.is_opened_here = False
        """Whether this process is a worker that opens it."""

    def __repr__(self) -> str:
        return f"<Context {self.name}>"

    # An object that can be entered both ways is entered as an async one: its other way is there to
    # say so.
    @overload
    def connection(
        self, open: Callable[[], AbstractAsyncContextManager[Opened]], /
    ) -> Connection[Opened]: ...

    @overload
    def connection(
        self, open: Callable[[], AbstractContextManager[Opened]], /
    ) -> Connection[Opened]: ...

    def connection(self, open: Any, /) -> Connection[Any]:
        """Open it in each worker before the first job, and close it when the worker ends.

        It goes above `@contextmanager` or `@asynccontextmanager`; sync ones are opened first, then
        async ones in the event loop of the worker's async tasks, each in the order of declaration.
        """
        _check_opener(open, self.name)
        if any(one.name == open.__name__ for one in self.connections):
            raise ConfigError(f"the connection {open.__name__} of {self.name} is defined twice")
        made: Connection[Any] = Connection(self, open)
        self.connections.append(made)
        return made

    def configure(self, function: Configure) -> Configure:
        """Call it, sync or async, in each worker once its connections are open; no job comes
        before."""
        check_hook(function, "configure", ())
        if self.configured is not None:
            raise ConfigError(f"the context {self.name} has two functions for `configure`")
        self.configured = function
        return function


def _check_opener(open: Any, context: str) -> None:
    name = getattr(open, "__name__", None)
    if not callable(open) or not isinstance(name, str):
        raise ConfigError(
            f"{open!r} cannot be a connection: it takes a function that gives a context manager"
        )
    unfit = f"{name} cannot be a connection"
    if inspect.isasyncgenfunction(open):
        raise ConfigError(f"{unfit}: write @asynccontextmanager below @{context}.connection")
    if inspect.isgeneratorfunction(open):
        raise ConfigError(f"{unfit}: write @contextmanager below @{context}.connection")
    if inspect.iscoroutinefunction(open):
        raise ConfigError(f"{unfit}: it is awaited, and a connection is entered; yield it instead")
    try:
        inspect.signature(open).bind()
    except TypeError as error:
        raise ConfigError(f"{unfit}: nobody gives it arguments ({error})") from None
    except ValueError:  # Python does not know, so neither do we
        return
