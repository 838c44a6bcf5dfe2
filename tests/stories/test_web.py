"""The observer in a browser: who gets in, what leaves the machine, and what is left behind."""

from __future__ import annotations

import asyncio
import contextlib
import signal
import subprocess
import sys
from collections.abc import AsyncIterator, Iterator
from pathlib import Path
from urllib.parse import urlsplit

import aiohttp
import psutil
import pytest

from tests.support.browser import browse
from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tests.support.web import WebServer, visitor
from tontine.store.call import Store

pytestmark = pytest.mark.story

TABS = 8


@pytest.fixture
def server(mongo_uri: str, store: Store, tmp_path: Path) -> Iterator[WebServer]:
    server = WebServer(mongo_uri, store.database.name, tmp_path)
    yield server
    server.close()


@contextlib.asynccontextmanager
async def admitted(server: WebServer) -> AsyncIterator[aiohttp.ClientSession]:
    """A visitor who has used a link."""
    async with visitor(Origin=server.url) as session:
        async with session.get(server.links()[-1]) as answer:
            assert answer.status == 200
        yield session


def gone(processes: list[psutil.Process]) -> bool:
    return not any(
        process.is_running() and process.status() != psutil.STATUS_ZOMBIE for process in processes
    )


async def status(session: aiohttp.ClientSession, url: str, **headers: str) -> tuple[int, str]:
    async with session.get(url, headers=headers) as answer:
        return answer.status, await answer.text()


async def refusal(session: aiohttp.ClientSession, url: str, **headers: str) -> int:
    """The status with which a socket is refused before it opens."""
    with pytest.raises(aiohttp.WSServerHandshakeError) as refused:
        await session.ws_connect(url, headers=headers)
    return refused.value.status


@pytest.mark.long
async def test_a_browser_loads_the_page_sees_a_node_and_quits(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.begin_all("zebra")
    server = WebServer(cluster.uri, cluster.database.name, tmp_path)
    try:
        async with browse(tmp_path) as page:
            await page.go(server.links()[0])
            await page.wait_for("zebra")
            assert "token" not in await page.ask("location.href")
            assert await page.ask("document.fonts.check('14px \"Tontine Mono\"')")
            children = server.children()
            assert len(children) == 1
            await page.ask("document.body.replaceChildren('before')")
            await page.call("Page.reload")
            await page.wait_for("zebra")
            await page.press("q")
            await page.wait_for("the observer has ended")
            eventually(
                lambda: gone(children) and not server.children(),
                30,
                "the observer's process is gone",
            )
            asked = page.requests()
            assert {urlsplit(url).netloc for url in asked} == {server.host}
            assert {urlsplit(url).scheme for url in asked} == {"http", "ws"}
            assert f"{server.url}/static/DejaVuSansMono.woff2" in asked
            assert page.complaints() == []
        assert server.end() == 0
    finally:
        server.close()


async def test_a_link_works_once_and_prints_the_next(server: WebServer) -> None:
    first = server.links()[0]
    async with visitor() as stranger:
        assert (await status(stranger, server.url))[0] == 403
        assert (await status(stranger, f"{server.url}/?token=wrong"))[0] == 403
        assert (await status(stranger, f"{server.url}/?token="))[0] == 403
    assert server.links() == [first], "a wrong token uses up nothing"
    async with visitor() as one, visitor() as another:
        assert (await status(one, first))[0] == 200
        assert (await status(another, first))[0] == 403
        assert (await status(one, server.url))[0] == 200, "the browser that used it stays admitted"
        second = eventually(lambda: server.links()[1:], 30, "the next link")[0]
        assert (await status(another, second))[0] == 200


async def test_every_answer_forbids_what_is_not_of_this_server(server: WebServer) -> None:
    async with visitor() as stranger:
        for path in (
            "/",
            "/static/page.js",
            "/static/nothing",
            "/tab",
            "/download/x",
            "/elsewhere",
        ):
            async with stranger.get(f"{server.url}{path}") as answer:
                policy = answer.headers["Content-Security-Policy"]
                assert policy.startswith("default-src 'self';")
                assert "http" not in policy
                assert answer.headers["Referrer-Policy"] == "no-referrer"
                assert answer.headers["X-Content-Type-Options"] == "nosniff"
                assert answer.headers["Cache-Control"] == "no-store"
        async with stranger.get(server.links()[0]) as page:
            assert "https:" not in await page.text()
            (cookie,) = page.cookies.values()
            assert (cookie["httponly"], cookie["samesite"]) == (True, "Strict")


async def test_a_foreign_host_is_refused_everywhere(server: WebServer) -> None:
    async with admitted(server) as session:
        for host in (
            "evil.example",
            "evil.example:80",
            "127.0.0.1.evil.example",
            "[::2]",
            "",
            "x@[",
            "10.0.0.1",
        ):
            for path in ("/", "/static/page.js", "/tab"):
                assert (await status(session, f"{server.url}{path}", Host=host))[0] == 403, (
                    host,
                    path,
                )
            foreign = {"Host": host, "Origin": f"http://{host}"}
            assert await refusal(session, f"{server.url}/tab", **foreign) == 403
        port = server.host.rpartition(":")[2]
        for host in (f"localhost:{port}", f"LOCALHOST:{port}", f"[::1]:{port}", "127.0.0.1:1"):
            assert (await status(session, server.url, Host=host))[0] == 200, (
                "a forwarded port is another"
            )
    assert server.children() == []


async def test_a_foreign_origin_or_none_opens_no_socket(server: WebServer) -> None:
    port = int(server.host.rpartition(":")[2])
    async with admitted(server) as session:
        for origin in (
            "http://evil.example",
            f"http://127.0.0.1:{port + 1}",
            f"http://localhost:{port}",
            f"ftp://{server.host}",
            "null",
            "",
            "http://[",
        ):
            assert await refusal(session, f"{server.url}/tab", Origin=origin) == 403, origin
    async with visitor() as session:
        assert (await status(session, server.links()[-1]))[0] == 200
        assert await refusal(session, f"{server.url}/tab") == 403, "no origin at all"
    async with visitor(Origin=server.url) as stranger:
        assert await refusal(stranger, f"{server.url}/tab") == 403, "no session"
    assert server.children() == []


async def test_the_ninth_tab_is_refused_and_ending_the_server_ends_all_others(
    server: WebServer,
) -> None:
    async with admitted(server) as session:
        tabs = [await session.ws_connect(f"{server.url}/tab") for _ in range(TABS)]
        assert await refusal(session, f"{server.url}/tab") == 503
        code, words = await status(session, f"{server.url}/tab")
        assert (code, words.split(",")[0]) == (503, "8 tabs are open already")
        await tabs.pop().close()
        eventually(
            lambda: len(server.children()) == TABS - 1, 60, "the process of the closed tab is gone"
        )
        tabs.append(await session.ws_connect(f"{server.url}/tab"))
        children = eventually(
            lambda: found if len(found := server.children()) == TABS else None, 60, "eight children"
        )
        assert await asyncio.to_thread(server.end, signal.SIGINT) == 0
        eventually(lambda: gone(children), 10, "no child is left")
        for tab in tabs:
            await tab.close()


async def test_a_server_that_is_killed_leaves_no_observer_behind(server: WebServer) -> None:
    async with admitted(server) as session:
        tab = await session.ws_connect(f"{server.url}/tab")
        await asyncio.wait_for(tab.receive_bytes(), 120)
        children = server.children()
        assert len(children) == 1
        server.end(signal.SIGKILL)
        eventually(lambda: gone(children), 60, "no child is left")
        await tab.close()


async def test_a_tab_is_read_only_and_its_command_line_keeps_the_secret(
    server: WebServer, mongo_uri: str
) -> None:
    async with (
        admitted(server) as session,
        session.ws_connect(f"{server.url}/tab?width=100&height=30") as tab,
    ):
        await asyncio.wait_for(tab.receive_bytes(), 120)
        (child,) = server.children()
        command, environment = child.cmdline(), child.environ()
        assert command[-2:] == ["observe", "--read-only"]
        assert "mongodb" not in " ".join(command)
        assert environment["TONTINE_URI"] == mongo_uri
        assert (environment["COLUMNS"], environment["ROWS"]) == ("100", "30")


async def told(tab: aiohttp.ClientWebSocketResponse, *words: str) -> str:
    """Read the screen until it shows one of some words; which."""
    seen, until = "", asyncio.get_running_loop().time() + 90
    while True:
        found = next((word for word in words if word in seen), None)
        if found is not None:
            return found
        assert asyncio.get_running_loop().time() < until, f"none of {words} is in {seen!r}"
        message = await tab.receive(timeout=120)
        assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT), message
        if message.type is aiohttp.WSMsgType.BINARY:
            seen += message.data.decode()


async def test_an_export_is_a_download_for_those_admitted_and_an_action_is_refused(
    cluster: Cluster, tmp_path: Path
) -> None:
    cluster.begin_all("zebra")
    server = WebServer(cluster.uri, cluster.database.name, tmp_path)
    try:
        async with admitted(server) as session, session.ws_connect(f"{server.url}/tab") as tab:
            await told(tab, "zebra")
            await tab.send_json(["stdin", "p"])
            await told(tab, "--read-only")
            await tab.send_json(["stdin", "e"])
            await told(tab, "as CSV")
            await tab.send_json(["stdin", "\r"])
            message = await asyncio.wait_for(
                anext(one async for one in tab if one.type is aiohttp.WSMsgType.TEXT), 90
            )
            kind, key = message.json()
            assert kind == "download"
            async with visitor() as stranger:
                assert (await status(stranger, f"{server.url}/download/{key}"))[0] == 403
            async with session.get(f"{server.url}/download/{key}") as answer:
                assert answer.headers["Content-Disposition"].startswith(
                    "attachment; filename*=UTF-8''"
                )
                assert "zebra" in await answer.text()
            assert (await status(session, f"{server.url}/download/{key}"))[0] == 404, (
                "it is handed over once"
            )
            assert cluster.record("zebra") is not None
            assert all(node["desired"] == "running" for node in cluster.records())
    finally:
        server.close()


async def test_a_writable_page_pauses_a_node(cluster: Cluster, tmp_path: Path) -> None:
    cluster.begin_all("zebra")
    server = WebServer(cluster.uri, cluster.database.name, tmp_path, "--writable")
    try:
        async with admitted(server) as session, session.ws_connect(f"{server.url}/tab") as tab:
            await told(tab, "zebra")
            answer = ""
            while answer != "Pause":  # as long as the picture is not fresh it is refused
                await tab.send_json(["stdin", "p"])
                answer = await told(tab, "Pause", "does not answer", "no node")
            await tab.send_json(["stdin", "y"])
            await asyncio.to_thread(cluster.wait_for_state, "zebra", "paused", within=90)
    finally:
        server.close()


async def test_a_tab_that_is_closed_at_once_leaves_no_process(server: WebServer) -> None:
    async with admitted(server) as session:
        for _ in range(3):
            async with session.ws_connect(f"{server.url}/tab"):
                pass
        answers = [(await status(session, f"{server.url}/tab"))[0]]
        eventually(lambda: not server.children(), 60, "no child is left")
        assert answers == [426], "they were let in"


async def test_an_observer_that_cannot_start_says_why_in_the_page(tmp_path: Path) -> None:
    server = WebServer("", "tontine", tmp_path, "--replay", str(tmp_path / "no-such-recording"))
    try:
        async with admitted(server) as session, session.ws_connect(f"{server.url}/tab") as tab:
            kind, words = await tab.receive_json(timeout=120)
            assert kind == "ended"
            assert "no-such-recording" in words
            assert (await tab.receive()).type in (aiohttp.WSMsgType.CLOSE, aiohttp.WSMsgType.CLOSED)
    finally:
        server.close()


async def test_nonsense_from_a_page_hurts_nobody(server: WebServer) -> None:
    async with (
        admitted(server) as session,
        session.ws_connect(f"{server.url}/tab?width=-5&height=x") as tab,
    ):
        await asyncio.wait_for(tab.receive_bytes(), 120)
        for nonsense in (
            "{",
            "[]",
            '["stdin", 5]',
            '["resize", 0, -1]',
            '["resize", 1000000, 9]',
            '["quit"]',
            "3",
        ):
            await tab.send_str(nonsense)
        await tab.send_bytes(b"\x00")
        await tab.send_str('["stdin", "q"]')
        async for message in tab:
            assert message.type in (aiohttp.WSMsgType.BINARY, aiohttp.WSMsgType.TEXT)
    eventually(lambda: not server.children(), 30, "q has ended it")


def ended(*options: str) -> tuple[int, str]:
    """How a server ends that cannot start: the code, and the one line it says."""
    command = [
        sys.executable,
        "-m",
        "tontine",
        "observe",
        *options,
        "--uri",
        "mongodb://127.0.0.1:1",
    ]
    run = subprocess.run(command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False)
    assert "Traceback" not in run.stderr
    return run.returncode, run.stderr


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "10.1.2.3", "example.org"])
def test_what_is_not_loopback_has_to_be_asked_for_twice(host: str) -> None:
    code, words = ended("--web", "--host", host)
    assert code == 2
    assert "is not a loopback address" in words
    assert "--expose" in words


def test_options_that_contradict_each_other_are_refused() -> None:
    assert ended("--port", "8000")[0] == 2
    assert ended("--web", "--read-only", "--writable")[0] == 2
    assert ended("--web", "--port", "70000")[0] == 2


async def test_an_exposed_server_still_knows_its_own_names_only(
    mongo_uri: str, store: Store, tmp_path: Path
) -> None:
    server = WebServer(
        mongo_uri, store.database.name, tmp_path, "--host", "0.0.0.0", "--expose", "--writable"
    )
    try:
        port = server.host.rpartition(":")[2]
        here = f"http://127.0.0.1:{port}"
        link = server.links()[0].replace(server.url, here)
        async with visitor(Origin=here) as session:
            assert (await status(session, link, Host="evil.example"))[0] == 403
            assert (await status(session, link))[0] == 200
            async with session.ws_connect(f"{here}/tab") as tab:
                await asyncio.wait_for(tab.receive_bytes(), 120)
                (child,) = server.children()
                assert child.cmdline()[-1] == "observe", "and it may act"
    finally:
        server.close()


def test_a_port_that_is_taken_is_one_clear_line(server: WebServer) -> None:
    code, words = ended("--web", "--port", server.host.rpartition(":")[2])
    assert code == 2
    assert "cannot listen on 127.0.0.1" in words
