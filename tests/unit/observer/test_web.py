"""Who is let in, and where a page may be served: decided without a server."""

from __future__ import annotations

import click
import pytest
from click.testing import CliRunner

from tontine.config import StoreConfig
from tontine.errors import ConfigError
from tontine_observer.web.config import WebConfig, is_loopback
from tontine_observer.web.download import Download
from tontine_observer.web.gate import Gate
from tontine_observer.web.options import WebOptions, web_options

NAMES = frozenset({"localhost", "127.0.0.1", "::1"})


def test_a_token_admits_once_and_is_followed_by_another() -> None:
    gate = Gate(NAMES)
    first = gate.token
    assert gate.admit("") is None
    assert gate.admit(first[:-1]) is None
    assert gate.admit("é") is None
    session = gate.admit(first)
    assert session is not None
    assert gate.token != first
    assert gate.admit(first) is None
    assert gate.knows(session)
    assert not gate.knows(first)
    assert not gate.knows("")


def test_sessions_of_several_browsers_stay_apart() -> None:
    gate, other = Gate(NAMES), Gate(NAMES)
    sessions = {gate.admit(gate.token) for _ in range(3)}
    assert len(sessions) == 3
    assert all(session and gate.knows(session) and not other.knows(session) for session in sessions)
    assert gate.cookie != other.cookie


@pytest.mark.parametrize("host", ["localhost", "LocalHost:80", "127.0.0.1:8000", "[::1]:9"])
def test_its_own_names_are_trusted_at_any_port(host: str) -> None:
    gate = Gate(NAMES)
    assert gate.trusts_host(host)
    assert gate.trusts_origin(f"http://{host}", host)
    assert gate.trusts_origin(f"https://{host}", host)


@pytest.mark.parametrize(
    "host",
    [
        "",
        "evil.example",
        "localhost.evil.example",
        "evil@[",
        "::1",
        "localhost@evil.example",
        "/",
        "127.1",
    ],
)
def test_other_names_are_not(host: str) -> None:
    assert not Gate(NAMES).trusts_host(host)


@pytest.mark.parametrize(
    "origin",
    [
        "",
        "null",
        "http://",
        "http://evil.example",
        "http://localhost",
        "http://localhost:81",
        "file://localhost:80",
    ],
)
def test_only_the_very_same_origin_may_open_a_socket(origin: str) -> None:
    assert not Gate(NAMES).trusts_origin(origin, "localhost:80")
    assert not Gate(NAMES).trusts_origin(origin, "")


def test_loopback_is_what_only_this_machine_reaches() -> None:
    assert [
        is_loopback(host) for host in ("127.0.0.1", "127.9.9.9", "::1", "localhost", "LOCALHOST")
    ] == [True] * 5
    assert not any(
        is_loopback(host)
        for host in ("0.0.0.0", "::", "10.0.0.1", "localhost.example", "", "2130706433")
    )


def test_leaving_loopback_takes_a_second_word() -> None:
    store = StoreConfig("mongodb://x")
    with pytest.raises(ConfigError, match="--expose"):
        WebConfig(store, host="0.0.0.0")
    exposed = WebConfig(store, host="0.0.0.0", is_exposed=True)
    assert exposed.names > NAMES
    assert "0.0.0.0" not in exposed.shown_host
    assert WebConfig(store, host="192.0.2.1", is_exposed=True).names >= {"192.0.2.1"}
    assert WebConfig(store, host="::1").shown_host == "[::1]"
    assert not WebConfig(store).is_writable
    with pytest.raises(ConfigError, match="no port"):
        WebConfig(store, port=65536)


async def test_a_download_is_asked_for_piece_by_piece_to_its_end() -> None:
    pieces = [b"one", b"two", b""]
    asked = 0

    async def ask() -> None:
        nonlocal asked
        download.take(pieces[asked])
        asked += 1

    download = Download("key", '/somewhere/naïve "file".svg', ask)
    assert [chunk async for chunk in download.chunks()] == [b"one", b"two"]
    assert asked == 3
    assert download.disposition == "attachment; filename*=UTF-8''na%C3%AFve%20%22file%22.svg"


def wish(*arguments: str) -> tuple[WebOptions | None, str]:
    """What `web_options` makes of a command line."""
    seen: list[WebOptions | None] = []

    @click.command()
    @click.option("--once", is_flag=True)
    @click.option("--read-only", is_flag=True)
    @click.option("--ascii", is_flag=True)
    @click.option("--theme", default="dark")
    @click.option("--redact", multiple=True)
    @web_options
    @click.option("--uri")
    def command(web: WebOptions | None, **_others: object) -> None:
        seen.append(web)

    run = CliRunner().invoke(command, arguments)
    assert run.exit_code in (0, 2), run.output
    return (seen[0] if seen else None), run.output


def test_a_tab_gets_what_its_screen_was_given_and_nothing_of_the_servers() -> None:
    asked, _ = wish(
        "--web", "--port", "8000", "--uri", "mongodb://u:secret@h", "--theme", "light", "--ascii"
    )
    assert asked == WebOptions("127.0.0.1", 8000, False, False, ("--ascii", "--theme=light"))
    asked, _ = wish("--web", "--redact", "a b", "--redact", "--c", "--read-only")
    assert asked == WebOptions("127.0.0.1", 0, False, False, ("--redact=a b", "--redact=--c"))
    assert wish("--theme", "light") == (None, "")


def test_what_contradicts_the_page_is_refused() -> None:
    assert "go with --web" in wish("--host", "::1")[1]
    assert "contradict" in wish("--web", "--read-only", "--writable")[1]
    assert "choose one of them" in wish("--web", "--once")[1]
