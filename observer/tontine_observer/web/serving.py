"""From the settings to a server that runs until a signal ends it, and leaves no process behind."""

from __future__ import annotations

import asyncio
from typing import Any

import click
from aiohttp import web

from tontine.errors import ConfigError
from tontine.store.connect import resolve

from ..terminal.signals import end_on_signals
from .config import LOOPBACK, WebConfig
from .gate import Gate
from .server import Site


def serve(config: WebConfig) -> None:
    """Serve until a signal comes, and leave no process behind."""
    # Here, not in the first tab: what is missing is said at once. A recording needs no store.
    uri = (
        ""
        if any(option.startswith("--replay") for option in config.options)
        else resolve(config.store)
    )
    asyncio.run(_serve(config, uri))


async def _serve(config: WebConfig, uri: str) -> None:
    gate = Gate(config.names)
    address = ""

    def invite(words: str = "for another browser") -> None:
        click.echo(f"{words}: http://{address}/?token={gate.token}")

    server = Site(config, uri, gate, invite)
    runner = web.AppRunner(server.application(), access_log=None, shutdown_timeout=2.0)
    ended = asyncio.Event()
    end_on_signals(ended.set, "SIGINT")
    await runner.setup()
    try:
        address = await _listen(runner, config)
        invite("open this link, which works once")
        await ended.wait()
    finally:
        await server.end()
        await runner.cleanup()


async def _listen(runner: web.AppRunner, config: WebConfig) -> str:
    """Start to listen; host and port as a URL has them."""
    # The name stands for two addresses, and a free port of the one may be taken on the other.
    host = LOOPBACK if config.host.lower() == "localhost" else config.host
    try:
        await web.TCPSite(runner, host, config.port).start()
    except OSError as error:
        raise ConfigError(
            f"cannot listen on {host} port {config.port}: {error.strerror or error}"
        ) from error
    bound: Any = runner.addresses[0]
    return f"{config.shown_host}:{bound[1]}"
