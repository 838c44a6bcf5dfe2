"""The tasks of plans in a chaos run. Each notes when it runs, as the others do, and those that get
results of other steps look at them."""

from __future__ import annotations

import time
from typing import Any

from tests.chaos.tasks import running
from tontine import Module, More, Plan, current_job

trip = Module("trip", version="1.0", authors=["The tests <tests@example.org>"])


@trip.task
def pack(number: int) -> dict[str, Any]:
    """Something to map over."""
    with running() as told:
        return {**told, "items": list(range(number))}


@trip.task
def leg(
    item: Any = None, seconds: float = 0.0, until: int = 0, odd: bool = False
) -> dict[str, Any]:
    """Fails in its first attempts, or always for `odd` items."""
    with running() as told:
        time.sleep(seconds)
        if current_job().attempt <= until:
            raise RuntimeError(f"attempt {current_job().attempt} of {until} fails")
        if odd and isinstance(item, int) and item % 3 == 1:
            raise RuntimeError("every third fails")
        return {**told, "item": item if isinstance(item, int) else None}


@trip.task
def join(parts: list[Any], number: int, odd: bool = False) -> dict[str, Any]:
    """Gets all that came before, in its order, and nothing of what failed."""
    with running() as told:
        missing = [place for place, part in enumerate(parts) if part is None]
        wanted = [place for place in range(number) if odd and place % 3 == 1]
        if len(parts) != number or not set(wanted) <= set(missing):
            raise ValueError(f"{len(parts)} of {number} parts, without {missing}")
        return {**told, "missing": len(missing)}


@trip.task
def back(until: int = 0, what: Any = None) -> dict[str, int]:
    """The way back."""
    with running() as told:
        if current_job().attempt <= until:
            raise RuntimeError(f"attempt {current_job().attempt} of {until} to go back fails")
        return told


@trip.task
def ahead(number: int) -> More:
    """Adds a fan-out and its fan-in."""
    with running() as told:
        more = Plan()
        legs = [more.step("trip.leg", {"item": n}, name=f"leg-{n}") for n in range(number)]
        more.step("trip.join", {"parts": legs, "number": number})
        return More(told, more)


@trip.task
def close() -> dict[str, int]:
    with running() as told:
        return told
