"""Steps that a task adds to its plan are named after its step (PL13). Pure."""

from __future__ import annotations

from collections.abc import Mapping
from typing import Any

from ..records.plan import STEPS_AT_MOST


def added(steps: Mapping[str, Any], by: str) -> dict[str, Any]:
    """Steps as they go into the plan of the one that added them."""
    return {f"{by}:{name}": renamed(step, by) for name, step in steps.items()}


def too_many(steps: int, more: int) -> str | None:
    """Why a plan of so many steps cannot have so many more; None when it can."""
    if steps + more <= STEPS_AT_MOST:
        return None
    return f"it adds {more:,} steps to {steps:,}, and a plan may have {STEPS_AT_MOST:,}"


def renamed(step: Mapping[str, Any], by: str) -> dict[str, Any]:
    """The same step where the steps that it names are called after the one that added them."""
    renamed = dict(step)
    for name in ("take", "stream"):
        if isinstance(step.get(name), Mapping):
            renamed[name] = {arg: _named(what, by) for arg, what in step[name].items()}
    if isinstance(step.get("after"), list):
        renamed["after"] = _named(step["after"], by)
    if isinstance(step.get("map"), str):
        renamed["map"] = _named(step["map"], by)
    undo = step.get("undo")
    if isinstance(undo, Mapping) and isinstance(undo.get("take"), Mapping):
        take = {arg: _named(what, by) for arg, what in undo["take"].items()}
        renamed["undo"] = {**undo, "take": take}
    return renamed


def _named(what: Any, by: str) -> Any:
    return [f"{by}:{one}" for one in what] if isinstance(what, list) else f"{by}:{what}"
