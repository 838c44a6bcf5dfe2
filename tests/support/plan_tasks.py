"""Tasks of plans, for the stories and the page about plans: each notes what it did in a ledger."""

from __future__ import annotations

import os
import time
from pathlib import Path
from typing import Any

import psutil

from tontine import Module, More, Plan, Stream, current_job

shop = Module("shop", version="1.0")


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


@shop.task
def sip(results: Stream[Any], pause: float = 0.0) -> list[Any]:
    """Reads a stream, and notes what it has read."""
    _ran()
    read = []
    for result in results:
        note("read", current_job().attempt, result)
        read.append(result)
        time.sleep(pause)
    return read


@shop.task
async def sip_async(results: Stream[Any]) -> list[Any]:
    _ran()
    return [result async for result in results]


@shop.task
def drink(results: Stream[Any], until: str = "") -> dict[str, int]:
    """Reads a stream of any length, and tells by how much this process and its master grew
    meanwhile. A file that it waits for tells when."""
    _ran()
    while until and not Path(until).exists():
        time.sleep(0.05)
    both = psutil.Process(), psutil.Process(os.getppid())
    before = [one.memory_info().rss for one in both]
    grown, count = [0, 0], 0
    for result in results:
        assert result["n"] == count, (result["n"], count)
        count += 1
        if count % 100 == 0:
            now = [one.memory_info().rss for one in both]
            grown = [max(grown[n], now[n] - before[n]) for n in range(2)]
    return {"count": count, "worker": grown[0], "master": grown[1]}


@shop.task
def numbers(many: int) -> list[int]:
    return list(range(many))


@shop.task
def number(n: int) -> dict[str, int]:
    return {"n": n}


@shop.task
def wait_for(path: str, result: int = 0) -> int:
    """Ends when a file is there."""
    _ran()
    while not Path(path).exists():
        time.sleep(0.02)
    return result
