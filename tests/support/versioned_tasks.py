"""A module whose version is whatever its environment says: for nodes of several versions at
once."""

from __future__ import annotations

import os
import time

from tontine import Module, current_job

VERSION = os.environ.get("VERSIONED_AS", "1.2.0")

versioned = Module("versioned", version=VERSION)


def note(what: str) -> None:
    line = f"{current_job().seq} {current_job().attempt} {what} {VERSION}\n"
    fd = os.open(os.environ["STORY_LEDGER"], os.O_WRONLY | os.O_APPEND | os.O_CREAT)
    os.write(fd, line.encode())
    os.close(fd)


@versioned.task
def which() -> str:
    note("ran")
    return VERSION


@versioned.task(on_lost="fail")
def once(seconds: float) -> str:
    note("began")
    time.sleep(seconds)
    return VERSION
