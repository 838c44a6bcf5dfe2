"""Sample tasks for `tontine demo`: quick and slow, sync and async, and some that fail, for a while
or for good."""

from __future__ import annotations

import asyncio
import random
import time

from tenacity import wait_random

from . import Module, Reject, current_job

demo = Module("demo", version="1.0", authors=["The Tontine authors"])


@demo.task
def add(a: int, b: int) -> int:
    """Quick and sync."""
    return a + b


@demo.task
async def greet(name: str) -> str:
    """Quick and async."""
    await asyncio.sleep(random.uniform(0.01, 0.1))
    return f"Hello, {name}!"


@demo.task
def resize(image: str, width: int = 800) -> dict[str, object]:
    """Takes a moment."""
    time.sleep(random.uniform(0.1, 0.5))
    return {"image": image, "width": width, "height": width * 3 // 4}


@demo.task
def report(pages: int = 10) -> str:
    """Slow and sync, and says how far it is."""
    for page in range(1, pages + 1):
        time.sleep(random.uniform(0.2, 0.5))
        current_job().progress(page / pages, f"page {page} of {pages}")
    return f"a report of {pages} pages"


@demo.task
async def backup(files: int = 20) -> int:
    """Slow and async, and ends early when it is cancelled."""
    for number in range(1, files + 1):
        if current_job().cancelled:
            break
        await asyncio.sleep(random.uniform(0.1, 0.3))
        current_job().progress(number / files, f"file {number} of {files}")
    return files


@demo.task(max_attempts=5, backoff=wait_random(0.5, 2.0))
async def fetch(url: str, fails: int = 2) -> str:
    """Fails a few times and then works, like many a server."""
    await asyncio.sleep(random.uniform(0.05, 0.2))
    if current_job().attempt <= fails:
        raise ConnectionError(f"{url} does not answer")
    return f"the page at {url}"


@demo.task(max_attempts=3)
def charge(card: str, amount: int) -> str:
    """Fails for good when there is no point in trying again."""
    time.sleep(random.uniform(0.05, 0.2))
    if card == "expired":
        raise Reject("the card has expired")
    return f"charged {amount}"
