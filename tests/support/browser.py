"""A real headless Chromium, driven over its own debugging protocol: no driver, no downloaded
browser."""

from __future__ import annotations

import asyncio
import base64
import contextlib
import itertools
import os
import shutil
from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import aiohttp
import pytest

from tests.support.eventually import eventually_async

NAMES = ("chromium", "chromium-browser", "google-chrome")
OPTIONS = (
    "--headless=new",
    "--no-sandbox",  # which root and most containers cannot have; it only sees our own page
    "--remote-debugging-port=0",
    "--no-first-run",
    "--disable-gpu",
    "--disable-dev-shm-usage",
    "--disable-background-networking",
    "--disable-component-update",
    "--disable-sync",
    "--window-size=1400,800",
)


def find_chromium() -> str:
    """The Chromium of this machine; without one the test is skipped here and fails in CI."""
    found = next((path for name in NAMES if (path := shutil.which(name))), None)
    if found is None:
        missing = "no Chromium to test with; on Debian: apt-get install chromium"
        if os.environ.get("CI"):
            pytest.fail(missing)
        pytest.skip(missing)
    return found


class Page:
    """One tab of the browser."""

    def __init__(self, socket: aiohttp.ClientWebSocketResponse) -> None:
        self.events: list[dict[str, Any]] = []
        self._socket = socket
        self._numbers = itertools.count(1)
        self._answers: dict[int, asyncio.Future[dict[str, Any]]] = {}
        self._reading = asyncio.create_task(self._read())

    async def _read(self) -> None:
        async for message in self._socket:
            told = message.json()
            if "id" in told:
                self._answers.pop(told["id"]).set_result(told)
            else:
                self.events.append(told)

    async def close(self) -> None:
        await self._socket.close()
        await self._reading

    async def call(self, method: str, **params: Any) -> dict[str, Any]:
        number = next(self._numbers)
        self._answers[number] = asyncio.get_running_loop().create_future()
        await self._socket.send_json({"id": number, "method": method, "params": params})
        answer = await asyncio.wait_for(self._answers[number], 60)
        assert "error" not in answer, answer
        result: dict[str, Any] = answer["result"]
        return result

    async def go(self, url: str) -> None:
        for domain in ("Page", "Network", "Runtime", "Log"):
            await self.call(f"{domain}.enable")
        await self.call("Page.navigate", url=url)

    async def ask(self, expression: str) -> Any:
        """What an expression gives in the page."""
        answer = await self.call(
            "Runtime.evaluate", expression=expression, awaitPromise=True, returnByValue=True
        )
        assert "exceptionDetails" not in answer, answer
        return answer["result"].get("value")

    async def text(self) -> str:
        """What a user can read, as the page has it in its elements."""
        return str(await self.ask("document.body ? document.body.innerText : ''"))

    async def wait_for(self, words: str, within: float = 90.0) -> str:
        async def seen() -> str | None:
            text = await self.text()
            return text if words in text else None

        return await eventually_async(seen, within, f"{words!r} in the page")

    async def press(self, key: str) -> None:
        await self.call("Input.dispatchKeyEvent", type="keyDown", key=key, text=key)
        await self.call("Input.dispatchKeyEvent", type="keyUp", key=key)

    async def picture(self) -> bytes:
        """The page as a PNG."""
        shot = await self.call("Page.captureScreenshot", format="png")
        return base64.b64decode(shot["data"])

    def requests(self) -> list[str]:
        """Every address that the page asked for, sockets too."""
        asked = [
            event["params"]
            for event in self.events
            if event["method"] == "Network.requestWillBeSent"
        ]
        sockets = [
            event["params"]
            for event in self.events
            if event["method"] == "Network.webSocketCreated"
        ]
        return [one["request"]["url"] for one in asked] + [one["url"] for one in sockets]

    def complaints(self) -> list[str]:
        """Errors that the browser logged, such as what a policy refused."""
        logged = [
            event["params"]["entry"] for event in self.events if event["method"] == "Log.entryAdded"
        ]
        thrown = [event for event in self.events if event["method"] == "Runtime.exceptionThrown"]
        return [str(entry) for entry in logged if entry["level"] == "error"] + [
            str(event) for event in thrown
        ]


@contextlib.asynccontextmanager
async def browse(directory: Path) -> AsyncIterator[Page]:
    """A new browser with one empty page; gone at the end."""
    profile = directory / "chromium"
    options = [*OPTIONS, f"--user-data-dir={profile}"]
    with (directory / "chromium.log").open("wb") as log:
        process = await asyncio.create_subprocess_exec(
            find_chromium(), *options, "about:blank", stdout=log, stderr=log, start_new_session=True
        )
    try:
        port = await eventually_async(lambda: _port(profile), 90, "Chromium listens")
        async with aiohttp.ClientSession() as session:
            async with session.get(f"http://127.0.0.1:{port}/json/list") as answer:
                (first, *_) = [one for one in await answer.json() if one["type"] == "page"]
            socket = await session.ws_connect(first["webSocketDebuggerUrl"], max_msg_size=0)
            page = Page(socket)
            try:
                yield page
            finally:
                await page.close()
    finally:
        with contextlib.suppress(ProcessLookupError):
            os.killpg(process.pid, 9)
        await process.wait()


async def _port(profile: Path) -> int | None:
    written = profile / "DevToolsActivePort"
    lines = written.read_text().splitlines() if written.exists() else []
    return int(lines[0]) if len(lines) > 1 else None
