"""The options of `tontine observe` that concern the web, and the way from them to the server."""

from __future__ import annotations

import functools
import importlib.util
from collections.abc import Callable
from dataclasses import dataclass
from typing import Any, TypeVar

import click

from tontine.config import StoreConfig
from tontine.errors import ConfigError, MissingExtra

TAB_DRIVER = "tontine_observer.web.driver:TabDriver"
"""What TEXTUAL_DRIVER says in the process of a tab, whose screen is a pipe."""

Command = TypeVar("Command", bound=Callable[..., Any])


@dataclass(frozen=True, slots=True)
class WebWish:
    """That a page was asked for, and how."""

    host: str
    port: int
    expose: bool
    writable: bool

    def serve(self, store: StoreConfig, *, read_only: bool = False, options: tuple[str, ...] = ()) -> None:
        """Serve it until a signal comes; `options` are given to every tab's observer."""
        if read_only and self.writable:
            raise ConfigError("--read-only and --writable contradict each other")
        if importlib.util.find_spec("aiohttp") is None or importlib.util.find_spec("textual") is None:
            raise MissingExtra("the observer's web page", "web")
        from .config import WebConfig
        from .server import serve

        serve(WebConfig(store, self.host, self.port, self.expose, self.writable, options))


def web_options(command: Command) -> Command:
    """`--web` and what goes with it, given to the command as `web`; None when it was not asked for."""

    @click.option("--web", "is_web", is_flag=True, help="Serve the observer to a browser on this machine.")
    @click.option("--port", type=click.IntRange(0, 65535), help="With --web: where. [default: a free port]")
    @click.option("--host", help="With --web: the address to listen on. [default: 127.0.0.1]")
    @click.option("--expose", is_flag=True, help="With --web and --host: an address that others can reach, too.")
    @click.option("--writable", is_flag=True, help="With --web: actions are possible; else it is read-only.")
    @functools.wraps(command)
    def with_web(
        *args: Any, is_web: bool, port: int | None, host: str | None, expose: bool, writable: bool, **options: Any
    ) -> Any:
        given = port is not None or host is not None or expose or writable
        if given and not is_web:
            raise click.UsageError("--port, --host, --expose and --writable go with --web")
        wish = WebWish("127.0.0.1" if host is None else host, port or 0, expose, writable) if is_web else None
        return command(*args, web=wish, **options)

    return with_web  # type: ignore[return-value]
