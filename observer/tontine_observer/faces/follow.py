"""`--follow`: every change as one line, as JSON for programs or as plain words for a screen reader
or a log.

It ends with the pipe it writes to, or by a signal; a store that goes away is a line, not an end.
"""

from __future__ import annotations

import asyncio
import contextlib
import os
import sys
from collections.abc import Mapping
from typing import Any

import click

from tontine.cli.output import json_text
from tontine.errors import ConfigError, NotPermitted, StoreError

from ..feed.feed import Feed
from ..model.heard import Heard, Lost, NodeMoved, RosterMoved
from ..model.jobs import JobMoved
from ..model.nodes import is_routine
from ..picture.board import Board
from ..records.alert import Alert
from ..records.link import Link, Mode
from ..records.node import NodeFact
from ..records.picture import Picture
from ..records.timeline import Epoch
from ..records.values import date
from ..terminal.signals import end_on_signals
from .once import NOT_PERMITTED, SCHEMA, UNREACHABLE, counted, document

_LOOK_EVERY = 0.5


class Follower:
    """Turns what a board is told into lines."""

    def __init__(self, board: Board, *, plain: bool) -> None:
        self._board = board
        self._plain = plain
        self._alerts: dict[tuple[str, str], Alert] = {}
        self._mode: tuple[Mode, str] | None = None
        self._is_open = False

    def __call__(self, heard: Heard) -> None:
        if not self._is_open:
            return
        line = _line(heard)
        if line is not None:
            self._write(line)

    def begin(self) -> None:
        """The first line is the whole picture; after it come changes."""
        self._is_open = True
        picture = self._board.picture()
        if self._plain:
            click.echo(_summary(picture))
        else:
            self._write({"kind": "snapshot", **document(picture)})

    def look(self) -> None:
        """What is not told but found by looking: alerts that came and went, and how well is
        seen."""
        link = self._board.link
        if (link.mode, link.reason) != self._mode:
            self._mode = (link.mode, link.reason)
            self._write({"kind": "link", "mode": link.mode, "reason": link.reason})
        if not self._is_open or not link.is_fresh:
            return
        found = {(alert.kind, alert.subject): alert for alert in self._board.picture().alerts}
        for key in found.keys() - self._alerts.keys():
            self._write(_alert(found[key], is_raised=True))
        for key in self._alerts.keys() - found.keys():
            self._write(_alert(self._alerts[key], is_raised=False))
        self._alerts = found

    def _write(self, line: Mapping[str, Any]) -> None:
        at = line.get("at", self._board.now())
        if self._plain:
            click.echo(f"{at.astimezone():%H:%M:%S} {_words(line)}")
        else:
            click.echo(json_text({"schema": SCHEMA, "at": at, **line}))


def _summary(picture: Picture) -> str:
    status = picture.status
    states = (
        ", ".join(f"{number} {state}" for state, number in status.states.items() if number)
        or "none"
    )
    counts = ", ".join(f"{number:,} {state}" for state, number in counted(picture).items())
    return f"{status.database}: epoch {status.epoch}; nodes: {states}; jobs: {counts}"


def _line(heard: Heard) -> dict[str, Any] | None:
    match heard:
        case NodeMoved(at, before, after):
            return _node(at, before, after)
        case RosterMoved(new, _):
            return _epoch(new)
        case JobMoved():
            return _job(heard)
        case Lost(at, reason):
            return {"kind": "gap", "at": date(at), "reason": reason}
    return None


def _node(at: float, before: NodeFact | None, after: NodeFact | None) -> dict[str, Any] | None:
    fact = after or before
    old = before.state if before else None
    new = after.state if after else None
    if fact is None or old == new or is_routine(old or "", new or ""):
        return None
    line = {
        "kind": "node",
        "at": date(at),
        "node": fact.id,
        "name": fact.name,
        "from": old,
        "to": new,
    }
    return {**line, "why": fact.death} if fact.is_dead and fact.death else line


def _epoch(new: Epoch) -> dict[str, Any]:
    return {"kind": "epoch", "at": date(new.at), "epoch": new.epoch, "members": new.members}


def _job(moved: JobMoved) -> dict[str, Any] | None:
    row = moved.after or moved.before
    old = moved.before.state if moved.before else None
    new = moved.after.state if moved.after else None
    if row is None or old == new:
        return None
    line = {"kind": "job", "at": date(moved.at), "seq": row.seq, "_id": row.id, "task": row.task}
    line |= {"from": old, "to": new, "node": row.node, "attempt": row.attempt}
    return {**line, "error": row.error} if row.error else line


def _alert(alert: Alert, *, is_raised: bool) -> dict[str, Any]:
    return {
        "kind": "alert",
        "alert": alert.kind,
        "raised": is_raised,
        "weight": alert.weight,
        "subject": alert.subject,
        "text": alert.text,
        "advice": alert.advice,
    }


def _words(line: Mapping[str, Any]) -> str:
    """One line for people: no symbols, the most important first."""
    match line["kind"]:
        case "node":
            why = f", {line['why']}" if line.get("why") else ""
            return f"node {line['name']}: {line['from'] or 'new'} to {line['to'] or 'gone'}{why}"
        case "epoch":
            return f"epoch {line['epoch']}: {len(line['members'])} members"
        case "job":
            error = f", {line['error']}" if line.get("error") and line["to"] != "done" else ""
            return (
                f"job {line['seq']} {line['task']}: {line['from'] or 'new'} to "
                f"{line['to'] or 'removed'}{error}"
            )
        case "alert":
            return f"alert: {line['text']}" if line["raised"] else f"over: {line['text']}"
        case "gap":
            return f"gap: {line['reason']}"
    return f"{line.get('mode')} {line.get('reason') or ''}".strip()


def follow(feed: Feed, board: Board, *, plain: bool, timeout: float) -> int:
    """Write lines until the reader or the user has enough; the exit code."""
    try:
        return asyncio.run(_follow(feed, board, plain=plain, within=timeout))
    except BrokenPipeError:
        # Whoever read has gone: nothing is wrong. Python would complain once more when it closes
        # stdout.
        with contextlib.suppress(OSError):
            sys.stdout = open(os.devnull, "w")  # noqa: SIM115, PTH123
        return 0


async def _follow(feed: Feed, board: Board, *, plain: bool, within: float) -> int:
    follower, stopped = Follower(board, plain=plain), asyncio.Event()
    board.known.taps.append(follower)
    end_on_signals(stopped.set)
    await feed.start()
    try:
        problem = await _first_look(board, feed, within)
        if problem is not None:
            return problem
        await _first_count(board, within)
        follower.begin()
        while not stopped.is_set():
            follower.look()
            feed.check()
            with contextlib.suppress(TimeoutError):
                await asyncio.wait_for(stopped.wait(), _LOOK_EVERY)
        return 0
    finally:
        await feed.stop()


async def _first_look(board: Board, feed: Feed, within: float) -> int | None:
    """Wait until something is there to show; the exit code when that takes too long."""
    until = asyncio.get_running_loop().time() + within
    while not board.link.is_fresh:
        if asyncio.get_running_loop().time() > until:
            return _refuse(board.link, feed.trouble)
        await asyncio.sleep(0.05)
    return None


async def _first_count(board: Board, within: float) -> None:
    """Wait until the ended jobs were counted, too; where that takes too long they are not told."""
    until = asyncio.get_running_loop().time() + within
    while not board.known.tally.is_counted and asyncio.get_running_loop().time() < until:
        if board.link.mode is Mode.SAMPLED:
            return  # what is under load is not counted as a whole
        await asyncio.sleep(0.05)


def _refuse(link: Link, trouble: Exception | None) -> int:
    if (
        isinstance(trouble, ConfigError)
        and not isinstance(trouble, StoreError)
        and trouble.__cause__ is None
    ):
        raise trouble
    click.echo(f"tontine: {link.reason or 'MongoDB does not answer'}", err=True)
    return NOT_PERMITTED if isinstance(trouble, NotPermitted) else UNREACHABLE
