"""`More`: a task of a plan returns its result together with steps to add (PL13)."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any, TypeGuard

import bson

from tontine import verdict
from tontine.current import CurrentJob
from tontine.errors import ConfigError

if TYPE_CHECKING:
    from tontine.plan import More


def is_more(result: Any) -> TypeGuard[More]:
    """Whether steps come with it. Workers that run no plan need not load how one is written."""
    kind = type(result)
    return kind.__module__ == "tontine.plan" and kind.__name__ == "More"


def encode_more(more: More, job: CurrentJob | None) -> bytes | verdict.NoResult:
    """The result with its steps as BSON; how the attempt ended if that is impossible."""
    place = None if job is None else job.plan
    if place is None or place.kind != "step" or place.item is not None:
        return verdict.ended(
            "refused",
            "InvalidMore",
            "only the task of a plan's step can return More, and of none that is mapped",
        )
    try:
        steps = more.steps()
    except (ConfigError, AttributeError) as error:
        return verdict.ended("refused", "InvalidMore", f"the steps to add cannot be: {error}")
    encoded = verdict.encode(more.result)
    if not isinstance(encoded, bytes):
        return encoded
    result = bson.decode(encoded, verdict.CODEC)["r"]
    try:
        return bson.encode({"r": result, "m": steps}, codec_options=verdict.CODEC)
    except Exception as error:  # noqa: BLE001 - bson raises errors of many types
        return verdict.ended("refused", "InvalidMore", f"the steps to add cannot be: {error}")
