"""Plans as a store would have them, in every state that looks different; for screens that must look
the same every time."""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import replace
from datetime import datetime, timedelta
from typing import Any

from bson import ObjectId

from tests.screens.still import NOW
from tontine.records.plan import PlanError, PlanRecord
from tontine.records.plan_status import JobCounts, PlanStatus
from tontine_observer.feed.plans import page_of
from tontine_observer.records.clean import Cleaner
from tontine_observer.records.plan import PlanPage

Counts = Mapping[tuple[str, str], JobCounts]


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def jobs(began: float = 60.0, ended: float = 0.0, **counts: Any) -> JobCounts:
    return JobCounts(started_at=ago(began), finished_at=ago(ended) if ended else None, **counts)


def page(seq: int | None, state: str | None, steps: Any, counts: Counts, **more: Any) -> PlanPage:
    document: dict[str, Any] = {
        "_id": ObjectId(f"{int(NOW.timestamp()) - 3:08x}{17:016x}"),
        "steps": steps,
    }
    if seq is not None:
        document |= {"_id": f"p{seq}", "seq": seq, "created_at": ago(75)}
    if state is not None:
        document |= {"state": state, "try": 0, "rev": 0}
    document |= more
    plan = PlanRecord.from_document(document)
    return page_of(document, plan, PlanStatus.of(plan, counts), NOW, Cleaner())


def step(*after: str, **more: Any) -> dict[str, Any]:
    return {"task": "shop.do", "after": list(after), **more}


DONE, WORKING = jobs(60, 50, done=1), jobs(12, working=1)


def chain() -> PlanPage:
    """Its second of three steps runs."""
    steps = {"open": step(), "pack": step("open"), "mail": step("pack")}
    counts = {("step", "open"): DONE, ("step", "pack"): WORKING}
    return page(17, "running", steps, counts, name="album", key="album-7")


def diamond() -> PlanPage:
    steps = {
        "open": step(),
        "fetch": step("open"),
        "look": step("open"),
        "pack": step("fetch", "look"),
    }
    counts = {("step", "open"): DONE, ("step", "fetch"): DONE, ("step", "look"): WORKING}
    return page(18, "running", {**steps, "mail": step("pack")}, counts, name="diamond")


def mapped() -> PlanPage:
    """A map of 10,000, some of which may fail, under way."""
    steps = {
        "list": step(),
        "fetch": step(map="list", may_fail=True, **{"as": "url"}),
        "pack": step("fetch"),
    }
    why = PlanError("TimeoutError", "upstream did not answer in 30 s", "fetch", 4711, 4803)
    fetching = jobs(48, done=6204, failed=3, working=16, queued=1984, failure=why)
    counts = {("step", "list"): DONE, ("step", "fetch"): fetching}
    return page(19, "running", steps, counts, name="photos", widths={"fetch": 10_000})


def undoing() -> PlanPage:
    """A trip whose car was not to be had: the hotel is given back, the flight comes after it."""
    back = {"task": "shop.unbook"}
    steps = {
        "flight": step(undo=back),
        "hotel": step("flight", undo=back),
        "car": step("hotel"),
    }
    failed = replace(jobs(30, 29, failed=1), failure=PlanError("", "", "car", None, 4809))
    counts = {
        ("step", "flight"): DONE,
        ("step", "hotel"): DONE,
        ("step", "car"): failed,
        ("undo", "hotel"): jobs(4, working=1),
    }
    error = {"step": "car", "seq": 4809, "type": "RuntimeError", "message": "no car is free"}
    told = {"undo": ["hotel", "flight"], "cause": "failed", "error": error}
    last = {"finally": {"task": "shop.tell"}}
    return page(20, "undoing", steps, counts, name="trip", **told, **last)


def cancelled() -> PlanPage:
    steps = {"open": step(), "pack": step("open")}
    counts = {("step", "open"): DONE, ("step", "pack"): jobs(40, 30, cancelled=1, stopped=1)}
    told = {"cause": "cancelled", "finished_at": ago(30), "try": 1}
    return page(21, "cancelled", steps, counts, name="album", **told)


def stuck() -> PlanPage:
    """Its undo failed, and `finally` has run."""
    steps = {"flight": step(undo={"task": "shop.unbook"}), "car": step("flight")}
    why = PlanError("OSError", "no line to the airline", "flight", None, 4808)
    error = {"step": "car", "seq": 4809, "type": "RuntimeError", "message": "no car is free"}
    counts = {
        ("step", "flight"): DONE,
        ("step", "car"): jobs(30, 29, failed=1),
        ("undo", "flight"): replace(jobs(28, 27, failed=1), failure=why),
        ("finally", "~finally/0"): jobs(26, 25, done=1),
    }
    told = {"undo": ["flight"], "cause": "failed", "error": error, "finished_at": ago(25)}
    return page(
        22, "stuck", steps, counts, name="trip", **told, **{"finally": {"task": "shop.tell"}}
    )


def unaccepted() -> PlanPage:
    """As a driver inserted it: without a number, and without a state."""
    return page(None, None, {"get": {"task": "shop.get"}, "put": step("get")}, {}, name="raw")


EVIL = "\x1b[31mred\x07 [bold]x[/bold] \u202egnp.exe 日本語"


def hostile() -> PlanPage:
    """What no driver should write: text of all kinds where names and numbers belong."""
    steps = {
        EVIL: {"task": EVIL, "after": [EVIL, "nobody", 5], "map": 7, "take": {"x": [None]}},
        "": 17,
        "b": {"task": {"$gt": 1}, "after": "a", "map": [EVIL], "may_fail": "yes", "undo": []},
        "c": step("b", "d"),
        "d": step("c"),
    }
    error = {"type": EVIL, "message": f"password=hunter2 {EVIL}", "step": 5, "item": "x", "seq": {}}
    odd = {"try": "x", "rev": EVIL, "widths": [EVIL], "undo": {"a": 1}, "finished_at": EVIL}
    more = {"created_at": 3, "finally": EVIL, "key": [EVIL], "token": "hunter2", **odd}
    return page(23, EVIL, steps, {}, name={"x": EVIL}, error=error, **more)


def refused() -> PlanPage:
    told = {
        "error": {"message": "it has no `steps`: name at least one"},
        "finished_at": ago(70),
        "try": None,
    }
    return page(24, "failed", None, {}, name="none", **told)


ALL = {
    one.__name__: one
    for one in (chain, diamond, mapped, undoing, cancelled, stuck, unaccepted, hostile, refused)
}
