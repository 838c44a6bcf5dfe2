"""What every peer's script shares, with nothing but the standard library: its commands, and how its
tasks leave traces.

    fill N        put N no-op jobs into the queue, the fastest way the library has
    submit N      the same, one call per job
    latency N     submit N jobs, each after the one before has started
    work          run two worker processes until killed
    chain N S     submit N tasks, each with what the one before returned, which take S seconds each
    chord N S     submit N tasks and one that takes all of their results

All but `work` answer with one line of JSON on stdout. A worker process counts its runs in a small
mapped file, so that counting costs next to nothing and needs no server.
"""

from __future__ import annotations

import json
import mmap
import os
import struct
import sys
import threading
import time
from collections.abc import Callable, Iterable, Mapping
from pathlib import Path
from typing import Any

TALLY = struct.Struct("<qdd")
"""How many runs, and when the first and the last of them were."""
STAMPS = "stamps"
_STARTED_WITHIN = 60.0

_lock = threading.Lock()
_open: dict[int, mmap.mmap] = {}


def directory() -> Path:
    return Path(os.environ["BENCH_TRACES"])


def tick() -> None:
    """Count one run of the no-op task."""
    now = time.time()
    with _lock:
        book = _open.get(os.getpid()) or _new_book()
        count, first, _ = TALLY.unpack_from(book)
        TALLY.pack_into(book, 0, count + 1, first or now, now)


def _new_book() -> mmap.mmap:
    """One for each process: a forked worker must not go on with its parent's."""
    path = directory() / f"{os.getpid()}.tally"
    path.write_bytes(bytes(TALLY.size))
    with path.open("r+b") as file:
        _open[os.getpid()] = mmap.mmap(file.fileno(), TALLY.size)
    return _open[os.getpid()]


def tallies(traces: Path) -> list[tuple[int, float, float]]:
    """What `tick` has left, of each process."""
    books = (path.read_bytes() for path in traces.glob("*.tally"))
    return [TALLY.unpack(book) for book in books if len(book) == TALLY.size]


def stamp(sent: float, traces: Path | None = None) -> None:
    """Note when a job was sent and that it has started now."""
    started = time.time()
    descriptor = os.open((traces or directory()) / STAMPS, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(descriptor, f"{sent!r} {started!r}\n".encode())
    os.close(descriptor)


def link(sent: float, seconds: float) -> float:
    """One task of a chain: it notes when the one before ended and returns when it ends itself."""
    tick()
    stamp(sent)
    time.sleep(seconds)
    return time.time()


def item(n: int, seconds: float) -> int:
    """One of many tasks that another comes after."""
    tick()
    time.sleep(seconds)
    return n


def gather(results: Iterable[int], sent: float) -> int:
    """The one after many, as soon as it has all of their results."""
    count = sum(1 for _ in results)
    stamp(sent)
    return count


def timed(count: int, submit: Callable[[int], None]) -> None:
    """Answer `fill` or `submit`."""
    began = time.perf_counter()
    submit(count)
    _answer(count=count, seconds=time.perf_counter() - began)


def probe(count: int, submit: Callable[[float], Any], traces: Path) -> list[float]:
    """Milliseconds from just before each submit to the start of its task, each after the start of
    the one before."""
    for number in range(count):
        submit(time.time())
        await_start(number + 1, traces)
    lines = (line.split() for line in (traces / STAMPS).read_text().splitlines())
    return [(float(started) - float(sent)) * 1000 for sent, started in lines]


def await_start(number: int, traces: Path) -> None:
    """Wait until so many jobs have started."""
    path, until = traces / STAMPS, time.monotonic() + _STARTED_WITHIN
    while not path.exists() or path.read_bytes().count(b"\n") < number:
        if time.monotonic() > until:
            sys.exit(f"job {number} has not started within {_STARTED_WITHIN:g} s")
        time.sleep(0.002)


def _answer(**facts: Any) -> None:
    print(json.dumps(facts), flush=True)


def main(
    fill: Callable[[int], None],
    submit: Callable[[int], None],
    ping: Callable[[float], Any],
    work: Callable[[], None],
    workflows: Mapping[str, Callable[[int, float], None]] | None = None,
) -> None:
    """Obey the command line."""
    match sys.argv[1:]:
        case ["work"]:
            work()
        case ["fill", count]:
            timed(int(count), fill)
        case ["submit", count]:
            timed(int(count), submit)
        case ["latency", count]:
            _answer(milliseconds=probe(int(count), ping, directory()))
        case [("chain" | "chord") as what, count, seconds] if workflows:
            timed(int(count), lambda number: workflows[what](number, float(seconds)))
        case _:
            sys.exit(f"unknown command: {' '.join(sys.argv[1:])}")
