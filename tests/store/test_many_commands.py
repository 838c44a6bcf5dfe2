"""`jobs`, `retry`, `cancel` and `purge` on many jobs: counted and said first, and nothing is done
unless agreed to."""

from __future__ import annotations

import os
import pty
import signal
import subprocess
import sys
from collections.abc import Callable
from contextlib import suppress
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from tests.support.cluster import ROOT
from tontine.cli import tontine
from tontine.cli.progress import Meter
from tontine.errors import TontineError
from tontine.store import insert, many
from tontine.store.call import Store
from tontine.store.insert import Wish

LONG_AGO = datetime.now(UTC) - timedelta(hours=2)
REFUSED: dict[str, Any] = {"error": {"type": "ConnectionError", "message": "refused"}}


@dataclass(frozen=True, slots=True)
class Ran:
    """What a command left behind."""

    code: int
    out: str
    err: str

    @property
    def json(self) -> Any:
        return orjson.loads(self.out)


Run = Callable[..., Ran]


@pytest.fixture
def environment(mongo_uri: str, database: str) -> dict[str, str]:
    return {"TONTINE_URI": mongo_uri, "TONTINE_DATABASE": database}


@pytest.fixture
def run(environment: dict[str, str]) -> Run:
    """A command in this process; `main` would make one line of its error."""

    def run(*arguments: str) -> Ran:
        ended = CliRunner().invoke(tontine, arguments, env=environment)
        if isinstance(ended.exception, TontineError):
            return Ran(2, ended.stdout, str(ended.exception))
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return Ran(ended.exit_code, ended.stdout, ended.stderr)

    return run


def add(
    store: Store, count: int, state: str = "queued", task: str = "a.b", **more: Any
) -> list[int]:
    jobs = store.run(insert.submit_many(Wish(task), [{}] * count))
    seqs = [job.seq for job in jobs if job.seq is not None]
    ended = {"finished_at": LONG_AGO} if state in ("done", "failed", "cancelled") else {}
    change = {"state": state, "attempt": int(state != "queued"), **ended, **more}
    store.database.jobs.update_many({"seq": {"$in": seqs}}, {"$set": change})
    return seqs


def number(store: Store, **where: Any) -> int:
    return int(store.database.jobs.count_documents(where))


def test_retry_counts_first_and_does_nothing_unless_told(run: Run, store: Store) -> None:
    add(store, 3, "failed", **REFUSED)
    add(store, 2, "failed", task="c.d")
    add(store, 1, "done")
    wanted = (
        "retry",
        "--state",
        "failed",
        "--task",
        "a.*",
        "--since",
        "3h",
        "--error",
        "ConnectionError",
    )
    dry = run(*wanted, "--dry-run")
    assert (dry.code, dry.err) == (0, "")
    assert dry.out.startswith(
        "3 failed jobs of a.* with the error ConnectionError that ended since "
    )
    assert dry.out.endswith(" UTC: nothing was changed\n")
    assert run(*wanted, "--dry-run", "--json").json == {
        "action": "retry",
        "matched": 3,
        "dry_run": True,
    }
    unsaid = run(*wanted)
    assert (unsaid.code, unsaid.out) == (2, "")
    assert unsaid.err.endswith("give --yes to put them back, or --dry-run to count only")
    assert number(store, state="queued") == 0
    assert run(*wanted, "--yes") == Ran(0, "3 jobs put back\n", "")
    assert number(store, state="queued", task="a.b") == 3
    nothing = run(*wanted, "--yes")
    assert (nothing.code, nothing.out.startswith("no failed jobs of a.*")) == (0, True)
    assert nothing.out.endswith(": nothing to do\n")


def test_retry_tells_what_could_not_be_put_back(run: Run, store: Store) -> None:
    add(store, 7, "failed", key="k")
    told = run("retry", "--key", "k", "--yes")
    assert (told.code, told.out) == (1, "1 job put back, 6 could not be\n")
    assert told.err.count("stays as it is: an unfinished job has its key 'k'\n") == 5
    assert told.err.endswith("... and 1 more: --json tells the first hundred\n")
    again = run("retry", "--key", "k", "--yes", "--json")
    assert (
        again.code,
        again.json["changed"],
        again.json["refused"],
        len(again.json["reasons"]),
    ) == (1, 0, 6, 6)


def test_jobs_that_are_done_are_put_back_only_with_done(run: Run, store: Store) -> None:
    (seq,) = add(store, 1, "done")
    (failed,) = add(store, 1, "failed")
    refused = run("retry", str(seq), str(failed))
    assert refused == Ran(
        2,
        f"job {failed} is back in the queue\n",
        f"job {seq} is done: give --done to run it again\n",
    )
    assert run("retry", str(seq), "--json").json["ok"] is False
    many_done = run("retry", "--state", "done", "--yes")
    assert many_done.code == 2
    assert "give --done, too, if that is meant" in many_done.err
    assert run("retry", "--state", "done", "--dry-run").out == "1 done job: nothing was changed\n"
    assert run("retry", "--task", "a.b", "--yes").out.endswith("nothing to do\n")
    assert number(store, state="done") == 1
    assert run("retry", str(seq), "--done") == Ran(0, f"job {seq} is back in the queue\n", "")
    add(store, 2, "done")
    assert run("retry", "--state", "done", "--done", "--yes").out == "2 jobs put back\n"


def test_a_key_that_is_taken_does_not_keep_the_others_named_from_going_back(
    run: Run, store: Store
) -> None:
    first, second = add(store, 2, "failed", key="k")
    (third,) = add(store, 1, "failed")
    ran = run("retry", str(first), str(second), str(third))
    assert (ran.code, ran.out) == (
        2,
        f"job {first} is back in the queue\njob {third} is back in the queue\n",
    )
    assert ran.err == f"tontine: job {second} cannot go back: an unfinished job has its key 'k'\n"


def test_cancel_ends_queued_ones_and_asks_for_running_ones(run: Run, store: Store) -> None:
    add(store, 3)
    add(store, 2, "working", node="web-1-0123abcd")
    add(store, 1, "done")
    assert run("cancel", "--node", "web-1", "--dry-run").out == (
        "2 queued or working jobs on the node web-1: nothing was changed\n"
    )
    told = run("cancel", "--all", "--yes")
    assert (
        told.out
        == "5 jobs cancelled, 2 of them still running: their nodes were asked to end them\n"
    )
    assert (number(store, state="cancelled"), number(store, state="working", cancel=True)) == (3, 2)


def test_purge_removes_what_is_older_and_never_what_is_unfinished(run: Run, store: Store) -> None:
    add(store, 2)
    add(store, 3, "done")
    (fresh,) = add(store, 1, "failed", finished_at=datetime.now(UTC))
    assert run("purge", "--older-than", "3h", "--yes").out.endswith("nothing to do\n")
    dry = run("purge", "--older-than", "1h", "--dry-run")
    assert dry.out.startswith("3 done, failed or cancelled jobs that ended before ")
    assert run("purge", "--all", "--yes", "--json").json["changed"] == 3
    assert number(store) == 3
    assert number(store, seq=fresh) == 1, "it ended in the last minute"
    assert "not both" in run("purge", "--older-than", "1h", "--until", "1h").err


def test_jobs_are_listed_and_counted_by_what_is_known_of_them(run: Run, store: Store) -> None:
    add(store, 150, "done", task="c.d")
    failed = add(store, 3, "failed", key="welcome-ada", schedule="s", **REFUSED)
    assert run("jobs", "--count") == Ran(0, "153\n", "")
    assert run("jobs", "--state", "failed", "--state", "done", "--count", "--json").json == {
        "count": 153
    }
    for options in (
        ("--key", "welcome-*"),
        ("--error", "*fused"),
        ("--state", "failed", "--since", "3h"),
    ):
        listed = run("jobs", *options, "--json").out.splitlines()
        assert [orjson.loads(line)["seq"] for line in listed] == failed[::-1], options
        assert run("jobs", *options, "--count").out == "3\n"
    assert run("jobs", "--state", "failed", "--since", "1h") == Ran(0, "", "no such job\n")
    assert len(run("jobs", "-n", "130", "--json").out.splitlines()) == 130


@pytest.mark.parametrize(
    ("arguments", "words"),
    [
        (("retry",), "name jobs by number, or say which with filters like --task, or --all"),
        (("cancel", "--yes"), "name jobs by number, or say which"),
        (("purge",), "say which jobs with filters like --older-than 7d"),
        (("retry", "7", "--task", "a.b"), "give numbers or filters, not both"),
        (("cancel", "7", "--all"), "give numbers or filters, not both"),
        (("retry", "7", "--dry-run"), "give numbers or filters, not both"),
        (("cancel", "--task", ""), "is a variable not set?"),
        (("purge", "--older-than", ""), "is no time"),
        (("jobs", "--since", "soon"), "is no time"),
        (("jobs", "--since", "1h", "--until", "2h"), "`since` is the earlier one"),
        (("cancel", "--state", "failed"), "'failed' is not one of 'queued', 'working'"),
        (("purge", "--state", "queued"), "'queued' is not one of"),
    ],
)
def test_what_cannot_be_meant_is_said_and_changes_nothing(
    run: Run, store: Store, arguments: tuple[str, ...], words: str
) -> None:
    ended = run(*arguments)
    assert (ended.code, ended.out) == (2, "")
    assert words in ended.err


def at_a_terminal(environment: dict[str, str], answer: bytes, *arguments: str) -> tuple[int, str]:
    """A command with a person in front of it, who answers its question."""
    ours, theirs = pty.openpty()
    command = [sys.executable, "-m", "tontine", *arguments]
    mine = {**os.environ, **environment, "PYTHONPATH": str(ROOT)}
    with subprocess.Popen(command, env=mine, stdin=theirs, stdout=theirs, stderr=theirs) as process:
        os.close(theirs)
        seen = b""
        with suppress(OSError), os.fdopen(ours, "r+b", buffering=0) as terminal:
            while part := terminal.read(4096):
                seen += part
                if answer and b"[y/N]" in seen:
                    terminal.write(answer)
                    answer = b""
        return process.wait(), seen.decode()


def test_a_person_is_asked(environment: dict[str, str], store: Store) -> None:
    (done,) = add(store, 1, "done")
    add(store, 2, "failed")
    code, seen = at_a_terminal(environment, b"n\n", "retry", "--all", "--done")
    assert (code, number(store, state="queued")) == (1, 0)
    assert (
        "3 done or failed jobs: those that are done would run again; put them back? [y/N]" in seen
    )
    assert "nothing was changed" in seen
    code, seen = at_a_terminal(environment, b"", "retry", "--state", "done", "--yes")
    assert (code, "give --done, too" in seen) == (2, True)
    code, seen = at_a_terminal(environment, b"y\n", "retry", str(done))
    assert (code, number(store, state="queued")) == (0, 1)
    assert f"job {done} is done: run it again? [y/N]" in seen


def test_ctrl_c_ends_it_after_a_batch_and_says_how_many_were_done(
    environment: dict[str, str], store: Store, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(many, "BATCH", 10)
    add(store, 25)
    reach = Meter.reach

    def press(meter: Meter, done: float, remark: str = "") -> None:
        reach(meter, done, remark)
        if done == 10:
            signal.raise_signal(signal.SIGINT)

    monkeypatch.setattr(Meter, "reach", press)
    before = signal.getsignal(signal.SIGINT)
    ended = CliRunner().invoke(tontine, ["cancel", "--all", "--yes"], env=environment)
    assert "stopped: 10 jobs cancelled; the others are as they were" in ended.stderr
    assert number(store, state="cancelled") == 10
    assert signal.getsignal(signal.SIGINT) is before
