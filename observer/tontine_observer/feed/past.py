"""Reads what was before the observer came: stored events and samples, else what the oplog still
has.

All of it is welcome and none of it is needed: what takes too long or may not be read is left out.
"""

from __future__ import annotations

import time
from datetime import datetime, timedelta
from typing import TypeVar

from tontine.errors import StoreError
from tontine.records.change import Delta
from tontine.records.states import JobState
from tontine.store import events, samples
from tontine.store.call import AsyncStore, Operation
from tontine.store.read import hurried
from tontine.store.stream import Stream

from ..model import intake
from ..model.backfill import fill_curves, fill_lives
from ..model.known import Known

T = TypeVar("T")

BACKFILL_FOR, EVENTS_AT_MOST, EVENTS_AT_LEAST = 24 * 3600.0, 20_000, 500
READ_WITHIN = 10.0
FINE_FOR, FINE_STEP, COARSE_STEP = 3600.0, 10.0, 300.0
RECALL_FOR, RECALL_AT_MOST, RECALL_WITHIN = 600.0, 20_000, 5.0


async def fill(known: Known, store: AsyncStore, now: datetime, since: float) -> None:
    """Give what is known a past of `since` seconds before `now`, its first look."""
    past = await _read(store, events.since(now - timedelta(seconds=since), EVENTS_AT_MOST))
    if past is None:
        past = await _read(store, events.latest(EVENTS_AT_LEAST)) or []
    intake.remember(known, past)
    found = await _samples(store, now, since)
    if not past and not found:
        intake.recall(known, await _recall(store, now, since))
    timed = [(one.at.timestamp(), one) for one in found]
    queued = known.tally.counts.get(JobState.QUEUED, 0)
    fill_curves(known.tally.curves, timed, now.timestamp(), queued)
    fill_lives(known.lives, timed, now.timestamp(), known.clean)


async def _samples(store: AsyncStore, now: datetime, since: float) -> list[samples.Sample]:
    """The nodes' samples: of the last hour all, of what was before that some."""
    found: list[samples.Sample] = []
    for first, last, step in (
        (since, FINE_FOR, COARSE_STEP),
        (min(FINE_FOR, since), 0.0, FINE_STEP),
    ):
        if first > last:
            reading = samples.read(
                now - timedelta(seconds=first), now - timedelta(seconds=last), step
            )
            found += await _read(store, reading) or []
    return found


async def _recall(store: AsyncStore, now: datetime, since: float) -> list[Delta]:
    """Changes that the stream still knows of."""
    began = int(now.timestamp() - min(since, RECALL_FOR))
    deltas: list[Delta] = []
    until = time.monotonic() + RECALL_WITHIN
    try:
        async with Stream(store, since=(began, 1)) as stream:
            while len(deltas) < RECALL_AT_MOST and time.monotonic() < until:
                some = await stream.next()
                deltas += [delta for delta in some if delta.at < now.timestamp()]
                if not some or some[-1].at >= now.timestamp():
                    break
    except StoreError:
        return deltas  # the oplog does not reach that far, or there is none
    return deltas


async def _read(store: AsyncStore, steps: Operation[T]) -> T | None:
    try:
        return await store.run(hurried(steps, READ_WITHIN))
    except StoreError:
        return None
