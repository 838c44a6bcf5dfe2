"""examples/photobox as people would run it: a web server, two nodes, a mail server, and a MongoDB
where each of them is a user with no more rights than it needs."""

from __future__ import annotations

import io
import json
import os
import signal
import subprocess
import sys
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import httpx
import pytest
from aiosmtpd.controller import Controller
from click.testing import CliRunner
from PIL import Image
from pymongo import MongoClient

from tests.support.cluster import ROOT, Cluster
from tests.support.eventually import eventually
from tests.support.mongod import free_port, with_users
from tontine.cli import tontine
from tontine.store.call import Store

pytestmark = [pytest.mark.story, pytest.mark.long]
PHOTOBOX = ROOT / "examples/photobox"


class Mailbox:
    """A mail server that keeps what it gets, by recipient."""

    def __init__(self) -> None:
        self.to: Counter[str] = Counter()

    async def handle_DATA(self, server: Any, session: Any, envelope: Any) -> str:
        self.to.update(envelope.rcpt_tos)
        return "250 kept"


@dataclass(slots=True)
class Scene:
    """Everything that runs."""

    web: httpx.Client
    mailbox: Mailbox
    cluster: Cluster
    database: Any

    def upload(self, to: str, image: bytes | None = None) -> str:
        answer = self.web.post(
            "/photos", data={"to": to}, files={"photo": ("cat.png", image or picture())}
        )
        assert answer.status_code == 202, answer.text
        return str(answer.json()["photo"])

    def status(self, photo: str) -> dict[str, Any]:
        answer = self.web.get(f"/photos/{photo}")
        assert answer.status_code == 200, answer.text
        return dict(answer.json())

    def start_node(self, name: str) -> None:
        self.cluster.begin(name, "--lease", "5s", "--processes", "1", modules="photobox.tasks")


def picture(width: int = 900) -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (width, width * 2 // 3), "teal").save(held, "PNG")
    return held.getvalue()


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("photobox")
    mailbox = Mailbox()
    mail = Controller(mailbox, hostname="127.0.0.1", port=free_port())
    with (
        pytest.MonkeyPatch.context() as patch,
        with_users(directory) as (root, host),
        MongoClient[dict[str, Any]](root, tz_aware=True) as client,
    ):
        assert CliRunner().invoke(tontine, ["init", "--roles", "--uri", root]).exit_code == 0
        own = {"role": "readWrite", "db": "photobox"}
        client["tontine"].command("createUser", "node", pwd="pw", roles=["tontineNode"])
        client["tontine"].command(
            "createUser", "photobox", pwd="pw", roles=["tontineProducer", own]
        )
        patch.setenv("PHOTOBOX_URI", f"mongodb://photobox:pw@{host}/tontine?replicaSet=rs")
        patch.setenv("PHOTOBOX_SMTP_HOST", "127.0.0.1")
        patch.setenv("PHOTOBOX_SMTP_PORT", str(mail.port))
        patch.setenv("PYTHONPATH", str(PHOTOBOX))
        cluster = Cluster(
            f"mongodb://node:pw@{host}/tontine?replicaSet=rs", Store(client["tontine"]), directory
        )
        mail.start()
        try:
            with web_server(directory) as web:
                scene = Scene(web, mailbox, cluster, client["photobox"])
                scene.start_node("a")
                scene.start_node("b")
                cluster.wait_for_members(2)
                yield scene
        finally:
            cluster.close()
            mail.stop()


@contextmanager
def web_server(directory: Path) -> Iterator[httpx.Client]:
    port = free_port()
    command = [
        sys.executable,
        "-m",
        "uvicorn",
        "photobox.app:app",
        "--port",
        str(port),
        "--log-level",
        "warning",
    ]
    with (directory / "web.log").open("wb") as log:
        process = subprocess.Popen(
            command, stdout=log, stderr=log, env=os.environ | {"PYTHONPATH": str(PHOTOBOX)}
        )
    try:
        with httpx.Client(base_url=f"http://127.0.0.1:{port}", timeout=30) as web:
            eventually(lambda: is_up(web), 60, "the web server answers")
            yield web
    finally:
        process.terminate()
        process.wait(30)


def is_up(web: httpx.Client) -> bool:
    try:
        return web.get("/").status_code == 200
    except httpx.TransportError:
        return False


def test_a_photo_gets_its_thumbnails_the_browser_sees_it_and_one_mail_is_sent(scene: Scene) -> None:
    photo = scene.upload("ada@example.org")
    with scene.web.stream("GET", f"/photos/{photo}/events", timeout=60) as answer:
        told = [json.loads(line.removeprefix("data: ")) for line in answer.iter_lines() if line]
    assert (told[-1]["state"], told[-1]["progress"], told[-1]["error"]) == ("done", 1.0, None)
    assert [one["progress"] for one in told] == sorted(one["progress"] for one in told)
    small = Image.open(io.BytesIO(scene.web.get(f"/photos/{photo}/200.jpg").content))
    assert small.size == (200, 133)
    eventually(lambda: scene.mailbox.to["ada@example.org"], what="the e-mail")
    assert scene.mailbox.to["ada@example.org"] == 1


def test_what_is_no_photo_fails_once_and_says_why(scene: Scene) -> None:
    photo = scene.upload("bob@example.org", b"no picture at all")
    told = eventually(
        lambda: (one := scene.status(photo))["state"] == "failed" and one, 60, "it failed"
    )
    assert "cannot identify image file" in told["error"]
    assert scene.cluster.jobs(**{"args.photo": photo})[0]["fails"] == 1, "its task gives up on such"


def test_an_unknown_photo_is_404(scene: Scene) -> None:
    for photo in ("nonsense", "0" * 24):
        assert scene.web.get(f"/photos/{photo}").status_code == 404


def test_the_nightly_schedule_is_known_and_can_be_run_at_once(scene: Scene) -> None:
    schedule = eventually(
        lambda: scene.cluster.database.schedules.find_one({"task": "photobox.tidy"}),
        what="nodes make it known",
    )
    assert schedule["cron"] == "0 3 * * *"


def test_a_rolling_restart_under_flow_loses_nothing_and_mails_once(scene: Scene) -> None:
    people = [f"p{number}@example.org" for number in range(24)]
    photos = [scene.upload(one) for one in people[:8]]
    for name in ("a", "b"):
        newest = [node for node in scene.cluster.nodes if node.name == name][-1]
        newest.signal(signal.SIGTERM)
        photos += [scene.upload(one) for one in people[len(photos) : len(photos) + 8]]
        assert newest.process.wait(60) == 0, newest.text()
        scene.start_node(name)
        scene.cluster.wait_for_members(2)
    eventually(
        lambda: all(scene.status(one)["state"] == "done" for one in photos),
        120,
        "every photo is done",
    )
    eventually(lambda: all(scene.mailbox.to[one] for one in people), 60, "every e-mail is there")
    assert {scene.mailbox.to[one] for one in people} == {1}
