"""`tontine observe`: flags -> the screen, or one snapshot where there is no screen."""

from __future__ import annotations

import importlib.util
import os
import sys

import click

from tontine.cli.options import store_options
from tontine.config import StoreConfig, seconds
from tontine.errors import MissingExtra

from .once import observe_once
from .web.options import TAB_DRIVER, WebWish, web_options


@click.command(name="observe")
@click.option("--once", is_flag=True, help="Write one snapshot and end; also what happens without a terminal.")
@click.option("--json", "as_json", is_flag=True, help="One snapshot as one JSON document.")
@click.option("--timeout", default="10s", show_default=True, help="How long the store may take to answer.")
@click.option(
    "--watch", default="0s", metavar="6s", help="With --once: watch first, to see claim loops that stand still."
)
@click.option("--read-only", is_flag=True, help="Refuse every action.")
@web_options
@store_options
def observe(
    once: bool, as_json: bool, timeout: str, watch: str, read_only: bool, web: WebWish | None, store: StoreConfig
) -> None:
    """Watch the nodes and the queue. It only reads, and may come and go as it likes.

    \b
    Exit codes of a snapshot:
      0  healthy
      1  degraded: there are alerts
      2  wrong usage
      3  the store does not answer
      4  the database user may not read it

    \b
    Examples:
      tontine observe                  the screen (needs the extra tontine[observer])
      tontine observe --once           a snapshot as text
      tontine observe --once --json    the same for programs
    """
    if web is not None:
        web.serve(store, read_only=read_only)
        return
    limit = max(0.1, seconds(timeout))
    if once or as_json or not _has_screen():
        raise click.exceptions.Exit(observe_once(store, as_json=as_json, timeout=limit, watch=seconds(watch)))
    if importlib.util.find_spec("textual") is None:
        raise MissingExtra("the observer's screen", "observer")
    from .app import ObserverApp

    ObserverApp(store, limit).run()


def _has_screen() -> bool:
    if os.environ.get("TEXTUAL_DRIVER") == TAB_DRIVER:
        return True
    # All three: the screen is drawn on stderr.
    return all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr)) and os.environ.get("TERM") != "dumb"
