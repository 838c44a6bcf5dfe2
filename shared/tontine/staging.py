"""A staged task as it runs: its stages in their order, each output stored before the next begins.

How it is stored is for whoever runs it (`keep`); here is the order of calls, the same in a worker
and in tests.
"""

from __future__ import annotations

import asyncio
import time
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from functools import partial
from typing import Any, cast

import bson

from .around import Steps
from .current import CurrentJob
from .stages import AsyncStaged, Stage, Staged
from .verdict import CODEC, NoResult, ended, unstorable_text

Keep = Callable[[int, bytes, int], "Future[bool]"]
"""Stores the output of a stage, by its place, as {"r": output}, with the milliseconds it ran. The
answer says whether the job is to end instead of going on."""


class StageRefused(Exception):
    """An attempt of a staged job ends here, as `end` says."""

    def __init__(self, end: NoResult) -> None:
        super().__init__(end.message)
        self.end = end


def play(
    staged: Staged,
    job: CurrentJob | None,
    args: Mapping[str, Any],
    *,
    keep: Keep,
    start: int = 0,
    value: Any = None,
) -> Steps[Any]:
    """The steps of one attempt, from stage `start` on with the output before it: what to call, and
    whether to await that."""
    last = len(staged.stages) - 1
    for place, stage in enumerate(staged.stages[start:], start):
        if job is not None and job.cancelled:
            raise StageRefused(_cancelled(stage))
        begun = time.monotonic()
        output = yield partial(stage.call, place, args, value), stage.is_async
        if place == last:
            return output
        ms = round((time.monotonic() - begun) * 1000)
        body = encoded(stage, output, staged.output_limit)
        # The next one begins when this is acknowledged, and with what was stored (ME2): so every
        # run of it has the same input.
        is_over = yield partial(_answered, keep(place, body, ms)), True
        if is_over and job is not None:
            job.mark_cancelled()
        value = decoded(body)
    return value


async def _answered(answer: Future[bool]) -> bool:
    return await asyncio.wrap_future(answer)


def encoded(stage: Stage, output: Any, limit: int) -> bytes:
    """An output as it is stored; `StageRefused` if it cannot be."""
    try:
        body = bson.encode({"r": output}, codec_options=CODEC)
    except Exception as error:
        text = unstorable_text(output, error, f"output of stage {stage.name}")
        raise StageRefused(ended("refused", "UnstorableOutput", text)) from error
    if len(body) > limit:
        size, most = f"{len(body) / 1024 / 1024:.1f} MB", f"{limit / 1024 / 1024:g} MB"
        text = (
            f"the output of stage {stage.name} has {size}, and {most} are kept: keep it elsewhere "
            "and return where, or raise output_limit"
        )
        raise StageRefused(ended("refused", "OutputTooLarge", text))
    return body


def decoded(body: bytes) -> Any:
    return bson.decode(body, CODEC)["r"]


def _cancelled(stage: Stage) -> NoResult:
    return ended("cancelled", "Cancelled", f"cancelled before stage {stage.name}")


def work_of(
    staged: Staged, drive: Callable[[Any], Any], steps: Callable[[Mapping[str, Any]], Any]
) -> Callable[..., Any]:
    """What stands for a staged task's function where outputs are stored: it is async if that is."""
    if not isinstance(staged, AsyncStaged):
        return lambda **args: drive(steps(args))

    async def work(**args: Any) -> Any:
        return await cast("Any", drive(steps(args)))

    return work
