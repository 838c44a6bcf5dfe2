"""Reads failures, queued jobs by task or range, and schedules, for a screen that shows them.
Clean, and a piece at a time: nobody waits for it."""

from __future__ import annotations

from collections.abc import Mapping
from datetime import datetime, timedelta
from typing import Any

from tontine.legible import duration
from tontine.records.schedule import Standing
from tontine.store import ledgers, ranges, read, standings
from tontine.store.call import AsyncStore
from tontine.store.read import hurried

from ..picture.board import Board
from ..picture.failures import grouped, parts
from ..picture.modules import is_offered
from ..records.clean import Cleaner
from ..records.ledger import Failed, Ledger, ScheduleRow, Wanted
from ..records.pane import Pane
from ..records.rows import error_text
from ..records.values import timestamp, whole

WITHIN = 10.0
FAILURES_OVER = timedelta(hours=24)
FAILURES_READ = 20_000
RANGES_COUNTED = 64


async def read_ledger(store: AsyncStore, board: Board, pane: Pane) -> Ledger:
    """What one pane shows, read now; the rest of the ledger is empty."""
    match pane:
        case Pane.FAILURES:
            return await _failures(store, board)
        case Pane.TASKS:
            queued, is_whole = await store.run(hurried(ledgers.count_queued(), WITHIN))
            clean = board.known.clean
            named = {clean.title(task): number for task, number in queued.items()}
            return Ledger(queued=named, is_queued_whole=is_whole)
        case Pane.MODULES:
            return await _wanted(store, board)
    found = await store.run(hurried(standings.read_standings(), WITHIN))
    return Ledger(schedules=tuple(_schedule(one, board.known.clean) for one in found))


async def _wanted(store: AsyncStore, board: Board) -> Ledger:
    known = await store.run(hurried(ranges.read_ranges(), WITHIN))
    nodes, clean = board.picture().nodes, board.known.clean
    lacking = [key for key in sorted(known.keys) if not is_offered(key, nodes)]
    wanted: dict[str, Wanted] = {}
    for key in lacking[:RANGES_COUNTED]:
        number = await store.run(hurried(ledgers.count_waiting(key), WITHIN))
        if number:
            is_partial = number >= ledgers.WAITING_AT_MOST
            wanted[clean.name(key)] = Wanted(number, is_partial)
    return Ledger(wanted=wanted)


async def _failures(store: AsyncStore, board: Board) -> Ledger:
    now: datetime = await store.run(hurried(read.now(), WITHIN))
    since, until = now - FAILURES_OVER, now + timedelta(minutes=1)
    clean = board.known.clean
    found: dict[int, Failed] = {}
    before, is_all = -1, False
    while not is_all and before < len(found) < FAILURES_READ:
        page = await store.run(hurried(ledgers.read_failed(since, until), WITHIN))
        before = len(found)
        found |= {one.seq: one for one in (read_failed(each, clean) for each in page)}
        is_all = len(page) < ledgers.FAILED_AT_ONCE
        # Those of the same moment may be on both pages: they are read twice, and counted once.
        until = page[-1]["finished_at"] + timedelta(milliseconds=1) if page else since
    oldest = since.timestamp() if is_all else min(one.at for one in found.values())
    rows = grouped(found.values(), board.jobs().rows, oldest, now.timestamp())
    over = duration(now.timestamp() - oldest)
    note = f"of {over}" if is_all else f"of the newest {len(found):,}, in {over}"
    return Ledger(failures=rows, failures_note=note)


def read_failed(document: Mapping[str, Any], clean: Cleaner) -> Failed:
    return Failed(
        whole(document.get("seq")),
        clean.title(document.get("task")),
        # As the rows of jobs have it, and cut at the same place: else one kind would be two.
        *parts(error_text(document.get("error"), clean)),
        timestamp(document.get("finished_at")) or 0.0,
    )


def _schedule(one: Standing, clean: Cleaner) -> ScheduleRow:
    schedule, last = one.schedule, one.last
    notes = [*([f"broken: {one.broken}"] if one.broken else []), *one.warnings]
    if schedule is None:
        name = clean.title(one.name)
        note = clean.text("; ".join(notes) or "removed")
        return ScheduleRow(name, "-", "-", True, None, "", None, None, note, is_usable=False)
    if schedule.skipped:
        notes.append(f"{schedule.skipped:,} times skipped: its last job had not ended")
    when = f"every {duration(schedule.every)}" if schedule.every else f"{schedule.cron}"
    zone = f" {schedule.timezone}" if not schedule.every and schedule.timezone != "UTC" else ""
    return ScheduleRow(
        name=clean.title(one.name),
        task=clean.title(schedule.task),
        when=clean.text(f"{when}{zone}", 60),
        is_off=schedule.off,
        next_at=schedule.next_at if isinstance(schedule.next_at, datetime) else None,
        last_state=last.state.value if last and last.state else "",
        last_at=last.at if last else None,
        last_seq=last.seq if last else None,
        note=clean.text("; ".join(notes)),
    )
