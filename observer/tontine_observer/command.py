"""`tontine observe`: flags -> the screen, one snapshot, a stream of lines, or a recording."""

from __future__ import annotations

import importlib.util
import os
import sys
from collections.abc import Iterator
from contextlib import closing, contextmanager
from dataclasses import dataclass, replace
from functools import partial
from pathlib import Path

import click

from tontine.cli.options import store_options
from tontine.config import StoreConfig, seconds
from tontine.errors import MissingExtra
from tontine.store.connect import resolve

from .faces.follow import follow
from .faces.once import HEALTHY, UNREACHABLE, observe_once, show_once
from .feed.feed import Feed
from .feed.live import LiveSource
from .feed.polls import Polls
from .feed.process import NICE, settle_in
from .feed.recording import Recorder
from .feed.replay import ReplaySource
from .model import intake
from .model.known import Known
from .picture.board import Board
from .records.clean import Cleaner
from .terminal.settings import Settings, screen_options
from .web.config import TAB_DRIVER
from .web.options import WebOptions, web_options


@dataclass(frozen=True, slots=True)
class Flags:
    """The flags, read once."""

    store: StoreConfig
    timeout: float
    since: float
    read_only: str
    streams: bool
    nice: int
    board: Board
    replay: Path | None
    screen: Settings
    demo: int | None = None


@click.command(name="observe")
@click.option(
    "--once", is_flag=True, help="Write one snapshot and end; also what happens without a terminal."
)
@click.option(
    "--json",
    "as_json",
    is_flag=True,
    help="With --once one JSON document; alone the same as --follow.",
)
@click.option(
    "--follow", "is_following", is_flag=True, help="Write every change as one line of JSON."
)
@click.option(
    "--plain", is_flag=True, help="With --follow: plain words, for a screen reader or a log."
)
@click.option(
    "--timeout", default="10s", show_default=True, help="How long the store may take to answer."
)
@click.option(
    "--watch",
    default="0s",
    metavar="6s",
    help="With --once: watch first, to see claim loops that stand still.",
)
@click.option(
    "--since", default="24h", show_default=True, help="How far to look back when it starts."
)
@click.option(
    "--record",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Write what is seen to a file, redacted.",
)
@click.option(
    "--replay",
    type=click.Path(path_type=Path, dir_okay=False),
    help="Look at a recording; needs no database.",
)
@click.option(
    "--redact", multiple=True, metavar="REGEX", help="Hide what matches, beside the usual secrets."
)
@click.option(
    "--read-only", is_flag=True, help="Offer no requests, whatever the database user may do."
)
@click.option("--demo", type=int, hidden=True, help="The descriptor of the demo's wire.")
@click.option("--no-streams", is_flag=True, help="Poll instead of following a change stream.")
@click.option(
    "--nice",
    type=click.IntRange(0, 19),
    default=NICE,
    show_default=True,
    help="How far it stands back on a busy machine, as nice(1) does; 0 not at all.",
)
@screen_options
@web_options
@store_options
def observe(
    once: bool,
    as_json: bool,
    is_following: bool,
    plain: bool,
    timeout: str,
    watch: str,
    since: str,
    record: Path | None,
    replay: Path | None,
    redact: tuple[str, ...],
    read_only: bool,
    demo: int | None,
    no_streams: bool,
    nice: int,
    web: WebOptions | None,
    store: StoreConfig,
    screen: Settings,
) -> None:
    """Watch the nodes and the queue. It only reads, except for what you ask of it, and may come and
    go as it likes.

    \b
    Exit codes of a snapshot:
      0  healthy
      1  degraded: there are alerts
      2  wrong usage
      3  the store does not answer
      4  the database user may not read it

    \b
    Examples:
      tontine observe                       the screen (needs the extra tontine[observer])
      tontine observe --once                a snapshot as text
      tontine observe --once --json         the same for programs
      tontine observe --follow              every change as a line of JSON
      tontine observe --record night.jsonl  the screen, and a recording of it
      tontine observe --replay night.jsonl  look at the recording
      tontine observe --screenshot now.svg  one picture of the screen
      tontine observe --web                 a page in the browser (needs the extra tontine[web])
    """
    if web is not None:
        web.serve(store)
        return
    if replay is not None and (record is not None or is_following):
        raise click.UsageError(
            "--replay is a look at what was: it goes with the screen, --once and --json"
        )
    if plain and not is_following:
        raise click.UsageError("--plain goes with --follow")
    board = Board(store.database, Cleaner.of(redact))
    flags = Flags(
        store=store,
        timeout=max(0.1, seconds(timeout)),
        since=seconds(since),
        read_only="started with --read-only" if read_only else "",
        streams=not no_streams,
        nice=nice,
        board=board,
        replay=replay,
        screen=screen,
        demo=demo,
    )
    with _recording(record, board.known):
        code = _run(
            flags, once=once, as_json=as_json, lines=is_following, plain=plain, watch=seconds(watch)
        )
    raise click.exceptions.Exit(code)


@contextmanager
def _recording(file: Path | None, known: Known) -> Iterator[None]:
    """Write what comes in to the file, if there is one, for as long as this lasts."""
    if file is None:
        yield
        return
    complain = partial(intake.note, known, "observer")
    with closing(Recorder(file, known.database, known.clean, complain)) as recorder:
        known.taps.append(recorder)
        yield


def _run(flags: Flags, *, once: bool, as_json: bool, lines: bool, plain: bool, watch: float) -> int:
    """One of the faces; its exit code."""
    if flags.screen.screenshot is not None:
        return _take_screenshot(flags, flags.screen.screenshot)
    if flags.replay is not None and (once or as_json or not has_screen()):
        ReplaySource(flags.replay, flags.board)
        return show_once(flags.board, as_json=as_json)
    if lines or (as_json and not once):
        feed = Feed(flags.store, flags.board, streams=flags.streams, polls=_polls(flags))
        settle_in(flags.nice)
        return follow(feed, flags.board, plain=plain, timeout=flags.timeout)
    if once or not has_screen():
        return observe_once(
            flags.store, flags.board, as_json=as_json, timeout=flags.timeout, watch=watch
        )
    return _open_screen(flags)


def _open_screen(flags: Flags) -> int:
    _need_textual()
    from .terminal.app import ObserverApp
    from .terminal.demo import DemoLink

    demo = None if flags.demo is None else DemoLink(flags.demo)
    app = ObserverApp(_source(flags), flags.screen, demo)
    settle_in(flags.nice)
    app.run()
    return app.return_code or 0


def _take_screenshot(flags: Flags, file: Path) -> int:
    _need_textual()
    from .terminal.screenshot import take

    has_answered = take(_source(flags), flags.screen, file, flags.timeout)
    return HEALTHY if has_answered else UNREACHABLE


def _need_textual() -> None:
    if importlib.util.find_spec("textual") is None:
        raise MissingExtra("the observer's screen", "observer")


def _source(flags: Flags) -> LiveSource | ReplaySource:
    """What feeds the screen."""
    if flags.replay is not None:
        return ReplaySource(flags.replay, flags.board)
    # Now: whatever the embedded MongoDB has to say, it says before there is a screen.
    store = replace(flags.store, uri=resolve(flags.store))
    return LiveSource(store, flags.board, polls=_polls(flags), streams=flags.streams)


def _polls(flags: Flags) -> Polls:
    return Polls(
        flags.board.known, answer_within=flags.timeout, read_only=flags.read_only, since=flags.since
    )


def has_screen() -> bool:
    """Whether there is a terminal to draw on, or a tab."""
    if os.environ.get("TEXTUAL_DRIVER") == TAB_DRIVER:
        return True
    # All three: the screen is drawn on stderr.
    is_terminal = all(stream.isatty() for stream in (sys.stdin, sys.stdout, sys.stderr))
    return is_terminal and os.environ.get("TERM") != "dumb"
