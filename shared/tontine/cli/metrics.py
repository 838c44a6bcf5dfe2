"""`tontine metrics`: the whole cluster for Prometheus, read from its records."""

from __future__ import annotations

import logging
import threading
import time
from collections.abc import Callable
from http import HTTPStatus
from http.server import BaseHTTPRequestHandler, ThreadingHTTPServer
from typing import Any

import click

from ..config import StoreConfig
from ..errors import ConfigError, MissingExtra, TontineError
from ..legible import legible
from .options import opened, store_options
from .output import note

log = logging.getLogger(__name__)

PORT = 9464
READ_EVERY = 5.0
READ_WITHIN = 8.0
"""Less than the ten seconds for which Prometheus waits."""


@click.command()
@click.option("--port", type=click.IntRange(0, 65535), default=PORT, show_default=True)
@click.option(
    "--host",
    default="127.0.0.1",
    show_default=True,
    help="Address to listen at; 0.0.0.0 is every one of this machine.",
)
@store_options
def metrics(port: int, host: str, store: StoreConfig) -> None:
    """Serve the whole cluster to Prometheus, at /metrics.

    It reads the records that nodes keep, at most every five seconds, whoever asks; nodes themselves
    serve nothing. Any number may run, anywhere. While MongoDB does not answer, neither do scrapes
    succeed (503); it goes on by itself.

    Whoever can reach the port can read the names of tasks and nodes: it listens on this machine
    only unless told otherwise.

    \b
    Examples:
      tontine metrics
      tontine metrics --port 9464 --host 0.0.0.0
    """
    try:
        import prometheus_client  # noqa: F401
    except ImportError:
        raise MissingExtra("tontine metrics", "metrics") from None
    with opened(store) as opened_store:
        page = Page(lambda: _text(opened_store))
        try:
            server = ThreadingHTTPServer((host, port), _answering(page))
        except OSError as error:
            raise ConfigError(
                f"cannot listen at {host}:{port}: {error.strerror or error}: choose another "
                "--port or --host"
            ) from None
        with server:
            note(f"serving http://{host}:{server.server_address[1]}/metrics (Ctrl-C ends it)")
            server.serve_forever()


def _text(store: Any) -> bytes:
    """What is served, read now."""
    from prometheus_client import CollectorRegistry, generate_latest

    from ..store.read import hurried
    from ..store.stats import picture
    from .exposition import Exposition

    registry = CollectorRegistry(auto_describe=False)
    registry.register(Exposition(store.run(hurried(picture(), READ_WITHIN))))
    return bytes(generate_latest(registry))


class Page:
    """What was read last, for all who ask within a few seconds."""

    def __init__(self, read: Callable[[], bytes], clock: Callable[[], float] = time.monotonic):
        self._read = read
        self._clock = clock
        self._reading = threading.Lock()
        self._at = float("-inf")
        self._kept: bytes | TontineError = b""

    def get(self) -> bytes:
        """The page, or the error of the last try: a store that is away is not asked by each
        scrape."""
        with self._reading:
            if self._clock() - self._at >= READ_EVERY:
                try:
                    self._kept = self._read()
                except TontineError as error:
                    self._kept = error
                self._at = self._clock()
            if isinstance(self._kept, TontineError):
                raise self._kept
            return self._kept


def _answering(page: Page) -> type[BaseHTTPRequestHandler]:
    class Answering(BaseHTTPRequestHandler):
        """Answers one request."""

        def do_GET(self) -> None:
            if self.path.partition("?")[0] != "/metrics":
                self._answer(HTTPStatus.NOT_FOUND, b"there is only /metrics here\n")
                return
            try:
                text = page.get()
            except TontineError as error:
                self._answer(HTTPStatus.SERVICE_UNAVAILABLE, f"{legible(error)}\n".encode())
            except Exception as error:
                # The top of a request: whatever one record has in it, the next scrape is answered.
                log.exception("a scrape failed")
                self._answer(HTTPStatus.INTERNAL_SERVER_ERROR, f"{error!r}\n".encode())
            else:
                self._answer(HTTPStatus.OK, text)

        def _answer(self, status: HTTPStatus, body: bytes) -> None:
            kind = "version=0.0.4; charset=utf-8" if status is HTTPStatus.OK else "charset=utf-8"
            self.send_response(status)
            self.send_header("Content-Type", f"text/plain; {kind}")
            self.send_header("Content-Length", str(len(body)))
            self.end_headers()
            self.wfile.write(body)

        def log_message(self, *_: Any) -> None:
            """Scrapes are no news."""

    return Answering
