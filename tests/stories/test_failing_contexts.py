"""Contexts that do not get ready: they say so, try again, and keep nobody else from working."""

from __future__ import annotations

import os
import signal
from pathlib import Path
from typing import Any

import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.diagnose.why import explain
from tontine.diagnose.why.read import gather
from tontine.records.want import Want
from tontine.store.call import Store
from tontine.store.modules import want

pytestmark = pytest.mark.story

TASKS = """
from tontine import Module

{name} = Module("{name}", version="1.0")

@{name}.task
def work(x: int = 1) -> int:
    return x
"""
PROFILE = """
import os
import time
from contextlib import contextmanager
from pathlib import Path

from tontine import Context

mail = Context("mail")
HERE = Path(__file__).parent

@mail.connection
@contextmanager
def server():
    with (HERE / "tries").open("a") as file:
        file.write("x")
    (HERE / "pid").write_text(str(os.getpid()))
    if (HERE / "hangs").exists():
        time.sleep(600)
    if not (HERE / "up").exists():
        raise ConnectionError("the mail server is away")
    yield "server"

@mail.configure
def configure():
    if (HERE / "crashes").exists():
        os._exit(9)
"""
SETTINGS = """
[contexts.default]
modules = ["{directory}/plain_tasks.py"]
[contexts.mail]
modules = ["{directory}/letter_tasks.py"]
profile = "{directory}/mail_profile.py:mail"
start_within = "4s"
"""


@pytest.fixture
def directory(tmp_path: Path) -> Path:
    directory = tmp_path / "code"
    directory.mkdir()
    for name in ("plain", "letter"):
        (directory / f"{name}_tasks.py").write_text(TASKS.format(name=name))
    (directory / "mail_profile.py").write_text(PROFILE)
    (directory / "tontine.toml").write_text(SETTINGS.format(directory=directory))
    return directory


def context(cluster: Cluster, name: str) -> dict[str, Any]:
    record = cluster.record("a") or {}
    return next((one for one in record.get("contexts", ()) if one["name"] == name), {})


def wait_for(cluster: Cluster, name: str, **facts: Any) -> dict[str, Any]:
    def is_so() -> dict[str, Any] | None:
        said = context(cluster, name)
        return (
            said if said and all(said.get(key) == value for key, value in facts.items()) else None
        )

    return eventually(is_so, 60, f"{name} {facts}: {context(cluster, name)} {cluster._tail('a')}")


def begin(cluster: Cluster, directory: Path) -> None:
    cluster.launch(name="a", options=["--config", str(directory / "tontine.toml"), "--lease", "3s"])
    cluster.wait_for_state("a", "waiting", "working")


def why(cluster: Cluster, seq: int | None) -> str:
    """The finding about a job whose context is not ready."""
    evidence = Store(cluster.database).run(gather(seq or 0))
    return "".join(one.sentence for one in explain(evidence) if one.code == "not-ready")


def works(cluster: Cluster, task: str) -> None:
    with Client(cluster.database) as client:
        job = client.wait(client.submit(task, {"x": 7}), timeout=60)
    assert (job.state, job.result, job.attempt) == ("done", 7, 1)


def test_a_connection_that_fails_is_tried_again_and_delays_only_its_own_modules(
    cluster: Cluster, directory: Path
) -> None:
    begin(cluster, directory)
    works(cluster, "plain.work")
    eventually(lambda: context(cluster, "mail").get("tries", 0) >= 2, 60)
    said = context(cluster, "mail")
    assert (said["state"], said["ready"]) == ("initializing", 0)
    assert "the mail server is away" in said["error"]
    assert context(cluster, "default")["state"] == "ready"
    with Client(cluster.database) as client:
        waiting = client.submit("letter.work", {"x": 3})
        works(cluster, "plain.work")
        assert client.get(waiting.seq or 0).state == "queued", "nobody has it yet"
        told = why(cluster, waiting.seq)
        assert "node a may get it with" in told
        assert "letter_tasks.py in the context mail, which is initializing after" in told
        assert "the mail server is away" in told
        (directory / "up").touch()
        wait_for(cluster, "mail", state="ready")
        assert client.wait(waiting, timeout=60).result == 3
    (node,) = cluster.nodes
    eventually(lambda: "context mail is ready, too: letter 1.0: work" in node.text(), 60)
    assert node.text().count("plain 1.0: work") == 1
    record = cluster.record("a") or {}
    assert [one["state"] for one in record["modules"]] == ["serving", "serving"]
    assert "error" not in wait_for(cluster, "mail", ready=1)
    (directory / "up").unlink()
    os.kill(int((directory / "pid").read_text()), signal.SIGKILL)
    wait_for(cluster, "mail", state="failing")
    with Client(cluster.database) as client:
        waiting = client.submit("letter.work", {"x": 4})
    eventually(lambda: "the mail server is away" in why(cluster, waiting.seq), 60)
    told = why(cluster, waiting.seq)
    assert "node a has it in the context mail, which is failing after" in told


def test_one_that_hangs_is_given_up_in_time_and_one_that_crashes_at_once_is_seen(
    cluster: Cluster, directory: Path
) -> None:
    (directory / "hangs").touch()
    begin(cluster, directory)
    works(cluster, "plain.work")
    said = eventually(lambda: context(cluster, "mail").get("error"), 60)
    assert said == "it was not ready after 4 s"
    (directory / "crashes").touch()
    (directory / "up").touch()
    (directory / "hangs").unlink()
    eventually(lambda: "exited with code 9" in context(cluster, "mail").get("error", ""), 60)
    works(cluster, "plain.work")
    (directory / "crashes").unlink()
    wait_for(cluster, "mail", state="ready")
    works(cluster, "letter.work")


def test_a_node_whose_only_context_cannot_connect_waits_and_recovers(
    cluster: Cluster, directory: Path
) -> None:
    settings = directory / "tontine.toml"
    text = settings.read_text()
    settings.write_text(text[text.index("[contexts.mail]") :])
    begin(cluster, directory)
    assert wait_for(cluster, "mail", state="initializing")["ready"] == 0
    (directory / "up").touch()
    works(cluster, "letter.work")


CUT = """
import asyncio
from contextlib import asynccontextmanager
from pathlib import Path

from tontine import Context

mail = Context("mail")
HERE = Path(__file__).parent

@mail.connection
@asynccontextmanager
async def line():
    keeper = asyncio.current_task()

    async def watch():
        while not (HERE / "cut").exists():
            await asyncio.sleep(0.01)
        (HERE / "cut").unlink()
        keeper.cancel()

    watching = asyncio.create_task(watch())
    with (HERE / "opened").open("a") as file:
        file.write("x")
    yield watching
"""
HOLDING = """

@letter.task
def hold(began: str, gate: str) -> int:
    import os, time
    from pathlib import Path
    Path(began).touch()
    while not Path(gate).exists():
        time.sleep(0.01)
    return os.getpid()
"""


def test_a_connection_that_dies_while_a_job_runs_costs_its_worker_and_the_job_runs_again(
    cluster: Cluster, directory: Path
) -> None:
    (directory / "mail_profile.py").write_text(CUT)
    with (directory / "letter_tasks.py").open("a") as file:
        file.write(HOLDING)
    begin(cluster, directory)
    wait_for(cluster, "mail", state="ready")
    began, gate, opened = (directory / name for name in ("began", "gate", "opened"))
    with Client(cluster.database) as client:
        job = client.submit("letter.hold", {"began": str(began), "gate": str(gate)})
        eventually(began.exists, 60)
        (directory / "cut").touch()
        eventually(lambda: len(opened.read_text()) == 2, 60, "another worker opened it again")
        works(cluster, "plain.work")
        gate.touch()
        ended = client.wait(job, timeout=60)
    assert (ended.state, ended.attempt, ended.lost) == ("done", 2, 1)
    assert "exited with code 70" in str(ended.errors)


def test_a_profile_that_is_no_context_ends_a_node_that_starts_also_beside_others(
    cluster: Cluster, directory: Path
) -> None:
    (directory / "mail_profile.py").write_text("mail = 7\n")
    settings = ["--config", str(directory / "tontine.toml")]
    node = cluster.launch(name="a", options=settings)
    assert node.process.wait(60) == 2
    assert "is no tontine.Context: it is of type int" in node.text()


def test_what_ends_a_node_that_works_already_ends_none_of_its_jobs(
    cluster: Cluster, directory: Path
) -> None:
    slow = "    import time\n    time.sleep(x)\n    return x"
    plain = TASKS.format(name="plain").replace("    return x", slow)
    (directory / "plain_tasks.py").write_text(plain)
    waits = "import time\nfrom pathlib import Path\n"
    waits += "while not (Path(__file__).parent / 'begun').exists():\n    time.sleep(0.01)\n"
    (directory / "mail_profile.py").write_text(waits + "mail = 7\n")
    settings = directory / "tontine.toml"
    settings.write_text(settings.read_text().replace("4s", "60s"))
    node = cluster.launch(name="a", options=["--config", str(settings)])
    with Client(cluster.database) as client:
        job = client.submit("plain.work", {"x": 3})
        eventually(lambda: (one := client.get(job)) and one.state == "working", 60)
        (directory / "begun").touch()
        assert node.process.wait(60) == 2
        ended = client.get(job)
    assert "is no tontine.Context: it is of type int" in node.text()
    record = cluster.database.nodes.find_one({"name": "a"}) or {}
    assert "is no tontine.Context" in record["death"]
    assert (ended.state, ended.result, ended.attempt, ended.lost) == ("done", 3, 1, 0)
    assert record["metrics"]["done"] == 1


def test_what_was_added_and_is_broken_by_then_does_not_end_the_next_life(
    cluster: Cluster, directory: Path
) -> None:
    settings, added = directory / "tontine.toml", directory / "letter_tasks.py"
    available = f'[node]\navailable = ["{added}"]\n'
    plain = f'[contexts.default]\nmodules = ["{directory}/plain_tasks.py"]\n'
    settings.write_text(available + plain)
    begin(cluster, directory)
    works(cluster, "plain.work")
    first = (cluster.record("a") or {})["_id"]
    text = added.read_text()
    cluster.store.run(want([first], Want(str(added))))
    works(cluster, "letter.work")
    added.write_text("1 / 0")
    cluster.database.nodes.update_one({"_id": first}, {"$set": {"state": "dead"}})
    eventually(lambda: (cluster.record("a") or {}).get("_id") != first, 60)
    wait_for(cluster, "default", state="initializing")
    eventually(lambda: "ZeroDivisionError" in context(cluster, "default").get("error", ""), 60)
    added.write_text(text)
    works(cluster, "letter.work")
