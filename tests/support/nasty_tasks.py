"""Tasks that leave processes behind, or end their worker in every way that there is."""

from __future__ import annotations

import os
import signal
import subprocess
import sys
import threading
import time
from collections.abc import Callable
from concurrent.futures import ProcessPoolExecutor
from pathlib import Path
from typing import Any

from tests.support.tasks import note, story
from tontine import Module

__all__ = ["nasty", "story"]

nasty = Module("nasty", version="1.0", authors=["The tests <tests@example.org>"])


def _by_shell(pids: Path) -> None:
    os.system(f"sleep 300 & echo $! >> {pids}")


def _by_fork(pids: Path) -> None:
    if os.fork() == 0:
        _write_pid(pids)
        time.sleep(300)


def _by_daemon(pids: Path) -> None:
    """In a session of its own, with nobody above it: nothing but its environment tells where it
    came from."""
    if os.fork() == 0:
        os.setsid()
        if os.fork() == 0:
            _write_pid(pids)
            time.sleep(300)
        os._exit(0)


def _by_pool(pids: Path) -> None:
    pool = ProcessPoolExecutor(2)
    for _ in range(2):
        pool.submit(_sleep_in_pool, pids)


def _by_bare_daemon(pids: Path) -> None:
    """In a session of its own and without an environment: nothing but its age tells where it came
    from."""
    write_and_sleep = f"echo $$ >> {pids}; exec sleep 300"
    subprocess.Popen(["/bin/sh", "-c", write_and_sleep], env={}, start_new_session=True)


def _sleep_in_pool(pids: Path) -> None:
    _write_pid(pids)
    time.sleep(300)


def _write_pid(pids: Path) -> None:
    fd = os.open(pids, os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, f"{os.getpid()}\n".encode())
    os.close(fd)


LEAVING: dict[str, Callable[[Path], None]] = {
    "shell": _by_shell,
    "fork": _by_fork,
    "daemon": _by_daemon,
    "pool": _by_pool,
    "bare": _by_bare_daemon,
}


@nasty.task
def leave(how: str, pids: str, then_hang: bool = False) -> int:
    """Leaves a process behind; gives its worker's pid."""
    worker = os.getpid()
    LEAVING[how](Path(pids))
    while not Path(pids).exists():
        time.sleep(0.01)
    note("left")
    if then_hang:
        time.sleep(300)
    return worker


@nasty.task
def fork_and_return() -> int:
    """Both come back out of the function, one of them as a copy of the worker."""
    child = os.fork()
    if child:
        os.waitpid(child, 0)
    return os.getpid()


@nasty.task
async def fork_and_return_async() -> int:
    child = os.fork()
    if child:
        os.waitpid(child, 0)  # noqa: ASYNC222 - it ends at once
    return os.getpid()


@nasty.task
def fork_and_exit(code: int) -> int:
    child = os.fork()
    if not child:
        sys.exit(code)
    return os.waitstatus_to_exitcode(os.waitpid(child, 0)[1])


def _close_everything() -> None:
    os.closerange(3, 1024)


ENDING: dict[str, Callable[[], Any]] = {
    "deadline": lambda: os._exit(75),
    "group": lambda: os.killpg(0, signal.SIGKILL),
    "descriptors": _close_everything,
    "nonsense": lambda: os.write(int(sys.argv[2]), b"\0\0\0\2\0\0\0\0[]"),
}


@nasty.task
def end_worker(how: str) -> str:
    note(how)
    ENDING[how]()
    return "it lives"


@nasty.task
def end_worker_later(delay: float) -> str:
    """It has returned when its worker ends."""
    note("later")

    def end() -> None:
        until = time.perf_counter() + delay
        while time.perf_counter() < until:
            pass
        os._exit(3)

    threading.Thread(target=end).start()
    return "it lives"


@nasty.task
def stop_worker() -> None:
    os.kill(os.getpid(), signal.SIGSTOP)
    time.sleep(300)


@nasty.task
def harmless() -> str:
    """What looks dangerous and is not."""
    os.kill(os.getpid(), signal.SIGTERM)
    os.kill(os.getpid(), signal.SIGINT)
    thread = threading.Thread(target=sys.exit)
    thread.start()
    thread.join()
    program = subprocess.Popen(["sleep", "300"])
    program.terminate()
    return signal.Signals(-program.wait(30)).name


@nasty.task
def say(text: str) -> str:
    print(text)
    print(text, file=sys.stderr, flush=True)
    sys.stdout.buffer.write(f"{text} in bytes\n".encode())
    sys.stdout.flush()
    return text
