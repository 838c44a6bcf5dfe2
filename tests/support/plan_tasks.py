"""Tasks of plans, for the stories and the page about plans: each notes what it did in a ledger."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

from tontine import Module, More, Plan, current_job

shop = Module("shop")


def note(*words: object) -> None:
    """One line, whole, whoever else writes."""
    if ledger := os.environ.get("STORY_LEDGER"):
        line = " ".join(map(str, words)) + "\n"
        handle = os.open(ledger, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
        os.write(handle, line.encode())
        os.close(handle)


def _ran() -> None:
    place = current_job().plan
    assert place is not None
    item = "-" if place.item is None else place.item
    note("ran", place.seq, place.step, place.kind, item, place.outcome)


@shop.task
def open_album(album: int, photos: int = 3) -> dict[str, Any]:
    _ran()
    return {"urls": [f"{album}/{n}.jpg" for n in range(photos)], "title": f"Album {album}"}


@shop.task
def fetch(url: str, seconds: float = 0.0) -> dict[str, str]:
    _ran()
    time.sleep(seconds)
    if url.endswith("broken.jpg"):
        raise ValueError("no such photo")
    return {"path": f"/tmp/{url}"}


@shop.task
def resize(photo: dict[str, str] | None, width: int = 800) -> str | None:
    _ran()
    return None if photo is None else f"{photo['path']}@{width}"


@shop.task
def pack(photos: list[str | None], title: str = "") -> dict[str, Any]:
    _ran()
    return {"path": f"{title}.zip", "count": len([one for one in photos if one])}


@shop.task
def unpack(archive: str) -> None:
    _ran()


@shop.task
def mail(to: str) -> str:
    _ran()
    return to


@shop.task
def close_album(album: int) -> None:
    _ran()


@shop.task
def add(x: int, y: int = 0) -> int:
    _ran()
    return x + y


@shop.task
def total(numbers: list[int]) -> int:
    _ran()
    return sum(numbers)


@shop.task
def nap(seconds: float) -> float:
    _ran()
    time.sleep(seconds)
    return seconds


@shop.task
def need(path: str) -> str:
    """Fails as long as a file is not there."""
    _ran()
    if not Path(path).exists():
        raise FileNotFoundError(path)
    return path


@shop.task
def book(what: str) -> str:
    _ran()
    return f"booking of {what}"


@shop.task
def unbook(booking: str) -> None:
    _ran()


@shop.task
def plan_ahead(photos: int) -> More:
    """Adds a step for each photo, and one that comes after all of them."""
    _ran()
    more = Plan()
    found = [more.step("shop.add", {"x": n}, name=f"photo-{n}") for n in range(photos)]
    more.step("shop.total", {"numbers": found})
    return More(photos, more)
