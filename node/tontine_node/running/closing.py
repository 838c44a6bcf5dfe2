"""At a stop, workers that have connections open close them before they end (MC1)."""

from __future__ import annotations

import asyncio
import contextlib

from .contexts import Contexts
from .pool import CLOSES_WITHIN


async def close_idle(contexts: Contexts, reason: str) -> None:
    """Retire the workers that have something open and nothing to do, and wait for their end.

    Who is still at work, or takes too long, is left to be killed, and closes nothing.
    """
    with_profile = [one for one in contexts.dispatchers if one.context.profile is not None]
    idle = [
        workload.child
        for dispatcher in with_profile
        for workload in dispatcher.workloads.values()
        if workload.child.is_ready and not workload.sent
    ]
    for dispatcher in with_profile:
        dispatcher.pool.start_no_more()
    for child in idle:
        child.retire(reason)
    with contextlib.suppress(TimeoutError):
        async with asyncio.timeout(CLOSES_WITHIN):
            for child in idle:
                await child.process.ended.wait()
