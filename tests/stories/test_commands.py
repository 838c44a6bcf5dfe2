"""The commands as a user runs them: real processes against a real MongoDB."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from concurrent.futures import ThreadPoolExecutor
from contextlib import suppress
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import orjson
import pytest

from tests.support.cluster import Cluster
from tests.support.eventually import eventually
from tontine.store import insert, read
from tontine.store.call import Store
from tontine.store.insert import Wish

ROOT = Path(__file__).resolve().parents[2]
FINISHED: dict[str, Any] = {"state": "failed", "fails": 1, "attempt": 1}
USER_ERRORS: list[tuple[str, ...]] = [
    ("submit",),
    ("submit", ""),
    ("submit", "a.b", "{"),
    ("submit", "a.b", "[1]"),
    ("submit", "a.b", '{"x": NaN}'),
    ("submit", "a.b", '{"x": 99999999999999999999}'),
    ("submit", "a.b", '{"x": {"$date": "soon"}}'),
    ("submit", "a.b", "@missing.json"),
    ("submit", "a.b", "--count", "0"),
    ("submit", "a.b", "--count", "2", "--key", "k"),
    ("submit", "a.b", "--delay", "1s", "--at", "2030-01-01"),
    ("submit", "a.b", "--delay", "soon"),
    ("submit", "a.b", "--delay", "99999999999d"),
    ("submit", "a.b", "--at", "tomorrow"),
    ("submit", "a.b", "--max-attempts", "0"),
    ("submit", "a.b", "--timeout", "0s"),
    ("submit", "a.b", "--meta", "{"),
    ("submit", "a.b", "--meta", "@missing.json"),
    ("submit", "a.b", "-", "--meta", "-"),
    ("submit", "a.b", "--meta", '{"x": "' + "x" * 5000 + '"}'),
    ("why",),
    ("why", "7", "--id", "7"),
    ("why", "seven"),
    ("submit", "a.b", "--uri", "http://example.org"),
    ("submit", "a.b", "--database", "a b"),
    ("jobs", "--state", "odd"),
    ("jobs", "--limit", "0"),
    ("job", "seven"),
    ("job", "7"),
    ("job", "99999999999999999999"),
    ("retry", "7"),
    ("cancel",),
    ("cancel", "7", "--task", "a.b"),
    ("retry", "--task", ""),
    ("purge",),
    ("purge", "--older-than", "soon"),
    ("jobs", "--since", "soon"),
    ("stats", "--node", "ada"),
    ("state", "set", "prices", "pyproject.toml"),
    ("state", "set", "shop/prices", "missing.json"),
    ("state", "get", "shop/prices"),
    ("state", "rm", "shop/prices"),
    ("metrics", "--port", "99999"),
    ("metrics", "--host", "no such host"),
    ("pause",),
    ("pause", "ada"),
    ("stop", "ada", "--all"),
    ("demo", "--nodes", "0"),
    ("observe", "--once", "--timeout", "soon"),
    ("submitt", "a.b"),
]


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def lines(self) -> list[dict[str, Any]]:
        return [orjson.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def environment(mongo_uri: str, database: str, tmp_path: Path) -> dict[str, str]:
    mine = {"TONTINE_URI": mongo_uri, "TONTINE_DATABASE": database, "TONTINE_HOME": str(tmp_path)}
    return {**os.environ, **mine, "PYTHONPATH": str(ROOT)}


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    def run(*arguments: str, stdin: str = "") -> Ran:
        command = [sys.executable, "-m", "tontine", *arguments]
        ended = subprocess.run(
            command,
            input=stdin,
            env=environment,
            capture_output=True,
            text=True,
            check=False,
            timeout=60,
        )
        assert "Traceback" not in ended.stderr
        return Ran(ended.returncode, ended.stdout, ended.stderr)

    return run


def add(store: Store, count: int = 1, **more: Any) -> list[int]:
    """Jobs of a task that no node has."""
    jobs = store.run(insert.submit_many(Wish("a.b"), [{"x": 1}] * count))
    seqs = [job.seq for job in jobs if job.seq is not None]
    if more:
        store.database.jobs.update_many({"seq": {"$in": seqs}}, {"$set": more})
    return seqs


def test_submit_inserts_one_job_or_many_and_says_which(run: Run, store: Store) -> None:
    nobody = "no live node has the task a.b: its jobs will wait for one that does\n"
    assert run("submit", "a.b", '{"x": 1}') == Ran(0, "submitted job 1\n", nobody)
    assert (
        run("submit", "a.b", "-", "--count", "3", stdin='{"y": 2}').out
        == "submitted jobs 2 to 4 (3)\n"
    )
    assert [job["args"] for job in store.database.jobs.find().sort("seq")] == [
        {"x": 1},
        *[{"y": 2}] * 3,
    ]


def test_submit_keeps_meta_with_the_job(run: Run, store: Store, tmp_path: Path) -> None:
    (tmp_path / "meta.json").write_text('{"at": {"$date": "2030-01-31T06:00:00Z"}}')
    assert run("submit", "a.b", "--meta", '{"tenant": "ada"}', "--count", "2").code == 0
    assert (
        run("submit", "a.b", "-", "--meta", f"@{tmp_path / 'meta.json'}", stdin='{"x": 1}').code
        == 0
    )
    first, second, third = store.database.jobs.find().sort("seq")
    assert first["meta"] == second["meta"] == {"tenant": "ada"}
    assert (third["args"], third["meta"]["at"].year) == ({"x": 1}, 2030)
    assert (
        "--meta must be an object with what is kept with the job, not [1]"
        in run("submit", "a", "--meta", "[1]").err
    )


def test_submit_takes_every_wish(run: Run, store: Store) -> None:
    options = [
        "--key",
        "k",
        "--priority",
        "-3",
        "--max-attempts",
        "4",
        "--timeout",
        "1m",
        "--at",
        "2030-01-31T06:00:00Z",
    ]
    (shown,) = run("submit", "a.b", *options, "--json").lines
    job = store.database.jobs.find_one({"seq": 1})
    assert shown == {
        "_id": str(job["_id"]),
        "seq": 1,
        "task": "a.b",
        "state": "queued",
        "existed": False,
    }
    assert (job["key"], job["priority"], job["max_attempts"], job["timeout"]) == ("k", -3, 4, 60.0)
    assert f"{job['run_at']:%Y-%m-%dT%H:%M}" == "2030-01-31T06:00"
    assert run("submit", "a.b", "--key", "k").out == "job 1 has this key already\n"
    assert store.database.jobs.count_documents({}) == 1


def test_a_key_is_unique_in_a_database_that_nobody_has_prepared(run: Run) -> None:
    assert run("submit", "a.b", "--key", "k").out == "submitted job 1\n"
    assert run("submit", "a.b", "--key", "k").out == "job 1 has this key already\n"


def test_a_user_error_is_one_line_and_changes_nothing(run: Run, store: Store) -> None:
    with ThreadPoolExecutor(4) as pool:
        for arguments, ran in zip(
            USER_ERRORS, pool.map(lambda arguments: run(*arguments), USER_ERRORS), strict=True
        ):
            assert (ran.code, ran.out) == (2, ""), arguments
            assert ran.err.startswith("tontine: "), arguments
            assert ran.err.count("\n") == 1, arguments
    assert store.database.jobs.count_documents({}) == 0


def test_a_store_that_does_not_answer_is_told_in_one_line(run: Run) -> None:
    nowhere = ("--uri", "mongodb://127.0.0.1:1")
    assert run("jobs", *nowhere).code == 2
    observed = run("observe", "--once", "--timeout", "200ms", *nowhere)
    assert (observed.code, observed.err.count("\n")) == (3, 1)


def test_jobs_lists_the_newest_first(run: Run, store: Store) -> None:
    add(store, 3)
    (failed,) = add(store, **FINISHED, error={"type": "Boom", "message": "no\x1b[31m"})
    store.database.nodes.insert_one({"_id": "ada-1", "name": "ada", "state": "dead", "beat": 1})
    store.database.jobs.update_one({"seq": 3}, {"$set": {"node": "ada-1"}})
    store.database.jobs.update_one({"seq": failed}, {"$set": {"node": "gone-1"}})
    table = run("jobs", "--limit", "2").out.splitlines()
    assert "gone-1" in table[1].split()
    assert "ada" in table[2].split(), "by its name, as `nodes` has it"
    assert table[0].split() == ["SEQ", "STATE", "TASK", "ATTEMPT", "AGE", "RAN", "NODE", "NOTE"]
    assert table[1].split()[:4] == [str(failed), "✗", "failed", "a.b"]
    assert table[1].endswith("Boom: no\\e[31m")
    assert len(table) == 3
    assert [job["seq"] for job in run("jobs", "--json").lines] == [4, 3, 2, 1]
    assert [job["seq"] for job in run("jobs", "--state", "failed", "--json").lines] == [failed]
    assert run("jobs", "--task", "c.d") == Ran(0, "", "no such job\n")


def test_jobs_mentions_those_without_a_number(run: Run, store: Store) -> None:
    store.database.jobs.insert_one({"task": "a.b"})
    assert "1 job without a number" in run("jobs").err


def test_job_shows_one_whole_and_where_to_ask_why(run: Run, store: Store) -> None:
    error = {"type": "Boom", "message": "no", "traceback": "Traceback:\n  line \x1b[2J\n"}
    (seq,) = add(store, **FINISHED, error=error, extra={"any": b"\x00"}, odd="\u202e")
    store.database.jobs.update_one(
        {"seq": seq}, {"$set": {"errors": [error], "fails": 1, "lost": 1}}
    )
    store.database.logs.insert_one({"seq": seq, "attempt": 1, "lines": []})
    shown = run("job", str(seq))
    assert "earlier error 1 of 2: Boom: no" in shown.out
    assert "state         ✗ failed" in shown.out
    assert "error         Boom: no" in shown.out
    assert "  line \\e[2J" in shown.out
    assert "\\u202e" in shown.out
    logs = f"`tontine job {seq} --logs` shows what it printed and logged\n"
    assert (
        shown.err
        == f"{logs}`tontine why {seq}` tells why it is where it is, and what to do about it\n"
    )
    (document,) = run("job", str(seq), "--json").lines
    assert document["extra"] == {"any": "AA=="}


def test_retry_puts_finished_jobs_back_and_does_the_others_all_the_same(
    run: Run, store: Store
) -> None:
    (failed,) = add(store, **FINISHED)
    (queued,) = add(store)
    unknown = run("retry", "99", str(failed), str(queued))
    assert (unknown.code, unknown.out) == (2, f"job {failed} is back in the queue\n")
    assert unknown.err == (
        f"tontine: there is no job 99\njob {queued} is queued: only a finished job can be put "
        "back\n"
    )
    assert run("retry", str(queued)).code == 1
    assert store.database.jobs.count_documents({"state": "queued"}) == 2


def test_cancel_ends_queued_jobs_and_asks_for_running_ones(run: Run, store: Store) -> None:
    (queued,) = add(store)
    (running,) = add(store, state="working", node="ada-1", attempt=1)
    (done,) = add(store, state="done", attempt=1)
    ran = run("cancel", str(queued), str(running), str(done))
    assert ran.code == 1
    assert (
        ran.out
        == f"job {queued} is cancelled\njob {running} runs on ada-1, which was asked to end it\n"
    )
    assert ran.err == f"job {done} is done already\n"
    assert run("cancel", str(queued), "--json").lines[0]["ok"] is True


def test_init_says_what_was_there_and_what_it_made(run: Run) -> None:
    assert run("init").out.splitlines()[0].startswith("jobs: created, with index due")
    assert run("init").out.splitlines()[0] == "jobs: complete already"
    assert [line for line in run("init", "--json").lines if line.get("created")] == []
    assert "inbox: created, with the validator" in run("init", "--inbox").out.splitlines()
    assert "inbox: complete already" in run("init").out.splitlines()


def test_an_empty_cluster_has_no_nodes_and_is_healthy(run: Run) -> None:
    assert run("nodes") == Ran(0, "", "no node: `tontine node MODULE` starts one\n")
    assert run("stop", "--all").code == 0
    observed = run("observe", "--once", "--json")
    assert (observed.code, observed.lines[0]["schema"], observed.lines[0]["healthy"]) == (
        0,
        1,
        True,
    )


def test_observe_reports_what_nobody_can_run_and_never_writes(run: Run, store: Store) -> None:
    store.database.jobs.insert_one({"task": "a.b"})
    before = store.database.command("dbHash")["collections"]
    observed = run("observe")
    assert observed.code == 1
    assert "! no node is there, and 1 job waits" in observed.out
    assert "\x1b" not in observed.out
    assert store.database.command("dbHash")["collections"] == before


def test_interrupted_waiting_leaves_the_job_and_exits_130(
    environment: dict[str, str], store: Store
) -> None:
    command = [sys.executable, "-m", "tontine", "submit", "a.b", "--wait"]
    with subprocess.Popen(command, env=environment, stderr=subprocess.PIPE, text=True) as waiting:
        assert waiting.stderr is not None
        heard = [waiting.stderr.readline(), waiting.stderr.readline()]
        waiting.send_signal(signal.SIGINT)
        rest = waiting.stderr.read()
        assert waiting.wait(20) == 130
    assert heard == [
        "submitted job 1\n",
        "no live node has the task a.b: it stays queued until one does\n",
    ]
    assert rest.startswith("no longer waiting")
    assert store.database.jobs.count_documents({"state": "queued"}) == 1


def test_completion_asks_the_store_and_never_complains(
    environment: dict[str, str], run: Run, store: Store
) -> None:
    modules = [{"name": "shop", "tasks": ["shop.resize", "shop.mail"]}]
    store.database.nodes.insert_one(
        {"_id": "ada-1", "name": "ada", "state": "waiting", "beat": 1, "modules": modules}
    )

    def complete(*words: str, **more: str) -> list[str]:
        line = {
            "_TONTINE_COMPLETE": "bash_complete",
            "COMP_WORDS": " ".join(words),
            "COMP_CWORD": str(len(words) - 1),
        }
        tontine = "import sys; sys.argv[0] = 'tontine'; from tontine.cli import main; main()"
        ended = subprocess.run(
            [sys.executable, "-c", tontine],
            env=environment | line | more,
            capture_output=True,
            text=True,
            check=False,
        )
        assert ended.stderr == ""
        return [answer.partition(",")[2] for answer in ended.stdout.split()]

    assert complete("tontine", "pause", "a") == ["ada"]
    assert complete("tontine", "submit", "shop.") == ["shop.mail", "shop.resize"]
    assert complete("tontine", "jobs", "--state", "c") == ["cancelled"]
    store.database.schedules.insert_one({"_id": "tidy", "task": "shop.tidy", "every": 60})
    assert complete("tontine", "schedule", "rm", "t") == ["tidy"]
    assert complete("tontine", "pause", "a", TONTINE_URI="mongodb://127.0.0.1:1") == []


def test_a_progress_bar_is_drawn_only_on_a_terminal(
    environment: dict[str, str], store: Store
) -> None:
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tontine", "submit", "a.b", "--count", "5000"]
    with subprocess.Popen(
        command, env=environment | {"TERM": "xterm"}, stdout=theirs, stderr=theirs
    ):
        os.close(theirs)
        seen = b""
        with (
            suppress(OSError),
            os.fdopen(ours, "rb", buffering=0) as terminal,
        ):  # Linux: an error when the other side ends
            while part := terminal.read(4096):
                seen += part
    assert b"inserting" in seen
    assert b"submitted jobs 1 to 5000 (5000)" in seen
    assert store.database.jobs.count_documents({}) == 5000


@pytest.mark.story
def test_waiting_shows_results_and_failures(run: Run, cluster: Cluster) -> None:
    cluster.begin_all("ada", options=("--slots", "4"))
    assert run("submit", "story.double", '{"x": 21}', "--wait") == Ran(
        0, "42\n", "submitted job 1\n"
    )
    (document,) = run("submit", "story.echo", '{"text": "\\u009b"}', "--wait", "--json").lines
    assert (document["state"], document["result"]) == ("done", "\x9b")
    failed = run("submit", "story.hopeless", "--wait")
    assert (failed.code, failed.out) == (1, "")
    assert failed.err.endswith("job 3 failed: Reject: there is no point\n")
    many = run("submit", "story.double", '{"x": 1}', "--count", "2500", "--wait")
    assert many.code == 0
    assert many.out.startswith("2,500 jobs ended in ")
    assert many.out.endswith(": 2,500 done\n")
    unhappy = run("submit", "story.double", "--count", "7", "--wait")
    assert (unhappy.code, unhappy.err.count(" failed: ")) == (1, 5)
    assert [
        job["state"]
        for job in run("submit", "story.double", '{"x": 1}', "-n", "2", "--wait", "--json").lines
    ] == [
        "done",
        "done",
    ]


@pytest.mark.story
def test_nodes_are_listed_paused_resumed_and_stopped(run: Run, cluster: Cluster) -> None:
    cluster.begin_all("ada", "bea", options=("--lease", "5s"))
    table = run("nodes")
    assert table.out.splitlines()[0].split()[:3] == ["NAME", "STATE", "SHARE"]
    assert [line.split()[0] for line in table.out.splitlines()[1:]] == ["ada", "bea"]
    assert table.err == "epoch 2, 2 members\n"
    assert {node["name"] for node in run("nodes", "--json").lines} == {"ada", "bea"}
    assert run("observe", "--once").code == 0
    assert run("pause", "ada", "--wait") == Ran(0, "ada is paused\n", "")
    assert run("pause", "ada", "nobody").code == 2
    assert run("resume", "--all", "--wait", "--json").lines[0]["state"] in ("waiting", "working")
    assert run("stop", "bea") == Ran(0, "asked bea to stop\n", "")
    eventually(lambda: (cluster.record("bea") or {})["state"] == "dead")
    assert run("stop", "--all", "--wait") == Ran(0, "ada is dead\n", "")
    assert [node["state"] for node in run("nodes", "--json").lines] == ["dead", "dead"]


@pytest.mark.story
def test_the_demo_kills_a_node_and_every_job_ends_as_it_should(
    run: Run, mongo_uri: str, store: Store
) -> None:
    ran = run(
        "demo",
        "--seconds",
        "6",
        "--nodes",
        "2",
        "--uri",
        mongo_uri,
        "--database",
        store.database.name,
    )
    assert ran.code == 0, ran.out
    assert "killed node" in ran.out
    assert "inherited" in ran.out
    assert ", 0 otherwise; 0 unfinished" in ran.out
    assert ran.out.endswith("all nodes have stopped\n")
    assert store.run(read.read_nodes(dead=False)) == []


@pytest.mark.story
def test_an_interrupted_demo_leaves_no_node(
    environment: dict[str, str], mongo_uri: str, store: Store, tmp_path: Path
) -> None:
    command = [
        sys.executable,
        "-m",
        "tontine",
        "demo",
        "--uri",
        mongo_uri,
        "--database",
        store.database.name,
    ]
    with subprocess.Popen(command, env=environment, stdout=subprocess.PIPE, text=True) as demo:
        assert demo.stdout is not None
        eventually(lambda: store.database.jobs.count_documents({"state": "done"}), 60)
        demo.send_signal(signal.SIGINT)
        out = demo.stdout.read()
        assert demo.wait(30) == 130
    assert out.endswith("all nodes have stopped\n")
    assert store.run(read.read_nodes(dead=False)) == []
    assert {log.name for log in (tmp_path / "demo").iterdir()} == {"ada.log", "bea.log", "cyd.log"}
