"""docs/contexts.md and examples/mail: a node whose workers have a mail server open, or wait for
it."""

from __future__ import annotations

import socket
import subprocess
import sys
from collections.abc import Iterator
from contextlib import contextmanager
from email import message_from_bytes
from pathlib import Path
from typing import Any

import pytest
from aiosmtpd.controller import Controller
from aiosmtpd.smtp import SMTP, Envelope, Session

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tests.support.typed import read
from tontine import Client

EXAMPLE = ROOT / "examples" / "mail"
PAGE = (ROOT / "docs" / "contexts.md").read_text()


def test_the_files_of_the_page_are_those_of_the_example() -> None:
    page = read(PAGE)
    own = {path.name: path.read_text().strip() for path in EXAMPLE.glob("*.py")}
    assert {name: page.text(name).strip() for name in own} == own
    assert (EXAMPLE / "tontine.toml").read_text() in PAGE


@pytest.mark.story
@pytest.mark.long
def test_the_tests_of_the_page_pass(tmp_path: Path) -> None:
    page = read(PAGE)
    for name in page.files:
        (tmp_path / name).write_text(page.text(name))
    (tmp_path / "pytest.ini").write_text("[pytest]\npythonpath = .\n")
    ended = subprocess.run(
        [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"],
        cwd=tmp_path,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "4 passed" in ended.stdout, ended.stdout


class PostOffice:
    """A mail server's memory."""

    def __init__(self) -> None:
        self.subjects: list[str] = []
        self.farewells = 0

    async def handle_DATA(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        content = envelope.content
        assert isinstance(content, bytes)
        self.subjects.append(str(message_from_bytes(content)["Subject"]))
        return "250 OK"

    async def handle_QUIT(self, server: SMTP, session: Session, envelope: Envelope) -> str:
        self.farewells += 1
        return "221 Bye"


@contextmanager
def mail_server(port: int) -> Iterator[PostOffice]:
    office = PostOffice()
    controller = Controller(office, hostname="127.0.0.1", port=port)
    controller.start()
    try:
        yield office
    finally:
        controller.stop()


def free_port() -> int:
    with socket.socket() as one:
        one.bind(("127.0.0.1", 0))
        return int(one.getsockname()[1])


@pytest.mark.story
def test_a_context_waits_for_its_mail_server_and_others_do_not(cluster: Cluster) -> None:
    port = free_port()
    node = cluster.launch(
        name="post", environment={"SMTP_PORT": str(port)}, cwd=EXAMPLE, options=["--lease", "5s"]
    )
    client = Client(cluster.database)

    def context(name: str) -> dict[str, Any]:
        record = cluster.record("post") or {}
        return next((one for one in record.get("contexts", ()) if one["name"] == name), {})

    # Nobody listens: letters wait, orders do not.
    packed = client.submit("orders.pack", {"number": 1, "customer": "ada@example.org"})
    assert client.wait(packed, timeout=60).result == "order 1 is packed"
    eventually(lambda: context("default").get("state") == "ready")
    eventually(lambda: context("mail").get("error"), within=60)
    mail = context("mail")
    assert mail["state"] == "initializing"
    assert (
        "the connection smtp of context mail cannot be opened: ConnectionRefusedError"
        in mail["error"]
    )
    assert "(mail_context.py:14)" in mail["error"]
    assert node.is_running
    (letter,) = client.find(task="letters.send")
    assert letter.state == "queued"

    with mail_server(port) as office:
        assert client.wait(letter, timeout=90).result == "ada@example.org"
        eventually(lambda: context("mail")["state"] == "ready")
        assert office.subjects == ["Your order 1"]

    # It hangs up and comes back: the task connects again.
    with mail_server(port) as office:
        letters = client.submit_many(
            "letters.send", [{"to": "bob@example.org", "subject": f"{n}"} for n in range(4)]
        )
        client.wait(letters, timeout=60, raises=True)
        assert sorted(office.subjects) == ["0", "1", "2", "3"]
        node.stop(within=30)
        assert node.process.returncode == 0
        assert office.farewells > 0, "those that had it open said so before they ended"
