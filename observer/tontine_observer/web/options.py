"""The options of `tontine observe` that concern the web, and the way from them to the server."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click
from click.core import ParameterSource

from tontine.config import StoreConfig
from tontine.errors import MissingExtra

from .config import LOOPBACK, WebConfig

Command = TypeVar("Command", bound=Callable[..., Any])


_OWN = frozenset({"is_web", "port", "host", "expose", "writable", "read_only", "uri", "database"})
_NOT_OF_A_SCREEN = frozenset(
    {"once", "as_json", "is_following", "plain", "watch", "record", "screenshot", "size"}
)


@dataclass(frozen=True, slots=True)
class WebOptions:
    """That a page was asked for, and how; `options` are those that every tab's observer gets,
    too."""

    host: str
    port: int
    expose: bool
    writable: bool
    options: tuple[str, ...] = ()

    def serve(self, store: StoreConfig) -> None:
        """Serve it until a signal comes."""
        if (
            importlib.util.find_spec("aiohttp") is None
            or importlib.util.find_spec("textual") is None
        ):
            raise MissingExtra("the observer's web page", "web")
        from .serving import serve

        serve(WebConfig(store, self.host, self.port, self.expose, self.writable, self.options))


def web_options(command: Command) -> Command:
    """`--web` and what goes with it, given to the command as `web`; None when it was not asked
    for."""

    @click.option(
        "--web", "is_web", is_flag=True, help="Serve the observer to a browser on this machine."
    )
    @click.option(
        "--port", type=click.IntRange(0, 65535), help="With --web: where. [default: a free port]"
    )
    @click.option("--host", help="With --web: the address to listen on. [default: 127.0.0.1]")
    @click.option(
        "--expose",
        is_flag=True,
        help="With --web and --host: an address that others can reach, too.",
    )
    @click.option(
        "--writable",
        is_flag=True,
        help="With --web: offer requests, too; without it, the page only shows.",
    )
    @functools.wraps(command)
    def with_web(
        *args: Any,
        is_web: bool,
        port: int | None,
        host: str | None,
        expose: bool,
        writable: bool,
        **options: Any,
    ) -> Any:
        given = port is not None or host is not None or expose or writable
        if given and not is_web:
            raise click.UsageError("--port, --host, --expose and --writable go with --web")
        if writable and options.get("read_only"):
            raise click.UsageError("--read-only and --writable contradict each other")
        web = None
        if is_web:
            web = WebOptions(
                host if host is not None else LOOPBACK,
                port or 0,
                expose,
                writable,
                _options_of_tabs(),
            )
        return command(*args, web=web, **options)

    return with_web  # type: ignore[return-value]


def _options_of_tabs() -> tuple[str, ...]:
    """What was given on the command line, but for what is the server's own."""
    context = click.get_current_context()
    options: list[str] = []
    for option in context.command.params:
        name = option.name or ""
        if context.get_parameter_source(name) is not ParameterSource.COMMANDLINE or name in _OWN:
            continue
        word = option.opts[-1]
        if name in _NOT_OF_A_SCREEN:
            raise click.UsageError(f"{word} writes what --web shows: choose one of them")
        value = context.params[name]
        if value is True:
            options.append(word)
        else:
            options += [
                f"{word}={one}" for one in (value if isinstance(value, tuple) else (value,))
            ]
    return tuple(options)
