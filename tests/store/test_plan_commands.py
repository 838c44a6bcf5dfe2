"""The commands for plans, on a store without nodes: a crew of the test carries them on."""

from __future__ import annotations

import json
from collections.abc import Callable
from pathlib import Path
from types import SimpleNamespace
from typing import Any

import pytest
from click.testing import CliRunner, Result

from tests.support.planned import Broken, Crew
from tontine.cli import plan as cli_plan
from tontine.cli import tontine
from tontine.cli.plan import read_both
from tontine.errors import ConfigError, UnknownPlan
from tontine.records.plan import PlanRecord
from tontine.store.call import Store
from tontine.store.plans import status

Run = Callable[..., Result]


def fails(**_: Any) -> None:
    raise Broken("it broke")


@pytest.fixture
def crew(store: Store) -> Crew:
    return Crew(store, {"echo": lambda **args: args, "fails": fails})


@pytest.fixture
def run(mongo_uri: str, store: Store) -> Run:
    def run(*arguments: str) -> Result:
        place = ["--uri", mongo_uri, "--database", store.database.name]
        return CliRunner().invoke(tontine, [*arguments, *place])

    return run


def submit(run: Run, path: Path, steps: dict[str, Any], *options: str) -> int:
    file = path / "plan.json"
    file.write_text(json.dumps({"name": "album", "steps": steps}))
    ended = run("submit", "--plan", str(file), "--json", *options)
    assert ended.exit_code == 0, ended.output
    return int(json.loads(ended.stdout)["seq"])


CHAIN: dict[str, Any] = {
    "get": {"task": "t.echo", "args": {"n": 1}},
    "put": {"task": "t.echo", "take": {"got": "get"}},
}


def test_a_plan_is_submitted_listed_drawn_and_explained(
    run: Run, crew: Crew, tmp_path: Path
) -> None:
    seq = submit(run, tmp_path, CHAIN, "--key", "k")
    file = tmp_path / "plan.json"
    told = run("submit", "--plan", str(file), "--key", "k").stderr
    assert "no live node has the task t.echo: its jobs will wait for one that does" in told
    assert "No node has accepted it yet" in run("why", str(seq)).output
    crew.accept()
    assert "Step put waits for get (queued)." in run("why", str(seq)).output
    job = run("why", f"plan/{seq}/get").output
    assert f"It is step get of plan {seq}." in job
    assert "In the plan, put waits for it." in job
    crew.run()
    drawn = run("plan", str(seq), "--jobs").output
    assert "✓ done" in drawn
    assert f"plan/{seq}/put" in drawn
    assert "album" in run("plans", "--state", "done").output
    found = json.loads(run("plan", str(seq), "--json").stdout)
    assert found["result"] == {"got": {"n": 1}}
    assert found["steps"]["put"]["state"] == "done"
    assert '"get" -> "put";' in run("plan", str(seq), "--dot").output
    followed = run("plan", str(seq), "--follow")
    assert "put: done" in followed.stderr


def test_a_field_that_means_nothing_is_told_by_who_submits_and_by_why(
    run: Run, crew: Crew, tmp_path: Path
) -> None:
    told = "step get: its field `mayFail` means nothing and changes nothing: `may_fail` was meant"
    file = tmp_path / "plan.json"
    file.write_text('{"steps": {"get": {"task": "t.echo", "mayFail": true}}}')
    assert told in run("submit", "--plan", str(file)).stderr
    seq = crew.insert({"steps": {"get": {"task": "t.echo", "mayFail": True}}, "onFailure": "x"})
    crew.accept()
    said = run("why", str(crew.plan(seq).seq)).output
    assert told.capitalize()[:20] in said
    assert "Its field `onFailure` means nothing" in said


def test_where_nobody_can_see_it_the_way_back_is_told_in_lines(run: Run, crew: Crew) -> None:
    undo = {"task": "t.echo", "args": {"x": 1}}
    get = {"task": "t.echo", "args": {"x": 1}, "undo": undo}
    put = {"task": "t.fails", "after": ["get"]}
    plan = crew.insert({"steps": {"get": get, "put": put}, "finally": undo})
    crew.run()
    told = run("plan", str(crew.plan(plan).seq), "--follow").stderr
    lines = told.splitlines()
    assert lines[-5:-1] == ["get: done", "get: undone", "put: failed", "finally: done"]
    assert lines[-1].endswith("undone")


def test_a_list_of_plans_reads_none_of_their_results(
    run: Run, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    crew.insert({"steps": CHAIN})
    crew.run()

    def refuse(plan: PlanRecord) -> None:
        raise AssertionError(f"the result of plan {plan.seq}, which may have 16 MB, was read")

    monkeypatch.setattr(status, "_result", refuse)
    assert "✓ done" in run("plans").stdout


def test_the_last_picture_of_a_plan_is_of_its_end(crew: Crew) -> None:
    added = crew.insert({"steps": CHAIN})
    crew.accept()

    class Ending(Store):
        """On which the plan ends as soon as anything of it was read."""

        def run(self, operation: Any, *, causal: Any = False) -> Any:
            answer = super().run(operation, causal=causal)
            crew.run()
            return answer

    store = Ending(crew.store.database)
    looks = [read_both(store, crew.plan(added).seq or 0) for _ in range(2)]
    assert [(plan.state, status.is_final) for plan, status in looks] == [
        ("done", False),
        ("done", True),
    ]


def test_a_copy_of_a_plan_that_has_ended_runs(run: Run, crew: Crew, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"steps": CHAIN, "state": "done", "try": 1, "widths": {"get": 3}}))
    seq = json.loads(run("submit", "--plan", str(file), "--json").stdout)["seq"]
    assert "No node has accepted it yet" in run("why", str(seq)).output
    crew.run()
    assert len(crew.ran) == 2


def test_a_plan_that_nobody_has_accepted_is_followed_once_it_has_a_number(
    run: Run, crew: Crew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    added = crew.insert({"steps": CHAIN, "key": "k"})
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"steps": CHAIN}))
    same = ("submit", "--plan", str(file), "--key", "k")
    assert "a plan without a number yet was there already" in run(*same).stdout
    assert json.loads(run(*same, "--json").stdout)["seq"] is None
    monkeypatch.setattr(cli_plan, "time", SimpleNamespace(sleep=lambda _: crew.run()))
    ended = run(*same, "--wait")
    assert ended.exit_code == 0, ended.output
    assert json.loads(ended.stdout) == {"got": {"n": 1}}
    assert f"plan {crew.plan(added).seq}: done" in ended.stderr


def test_a_plan_waits_for_a_node_where_there_is_none(run: Run, crew: Crew, tmp_path: Path) -> None:
    seq = submit(run, tmp_path, CHAIN)
    told = run("why", str(seq)).output
    assert "No node is alive." in told
    assert "No node has accepted it yet." in told
    crew.accept()
    assert "No node is alive." in run("why", str(seq)).output
    crew.run()
    assert "No node is alive." not in run("why", str(seq)).output


def test_new_plans_are_listed_by_their_names(run: Run, crew: Crew) -> None:
    crew.insert({"steps": CHAIN, "name": "album"})
    crew.insert({"steps": CHAIN, "name": "trip"})
    listed = run("plans", "--state", "new", "--name", "trip", "--json").stdout.splitlines()
    assert [json.loads(line)["name"] for line in listed] == ["trip"]


def test_people_are_shown_some_of_many_jobs_and_programs_all(
    run: Run, crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(cli_plan, "JOBS_SHOWN", 1)
    added = crew.insert({"steps": CHAIN})
    crew.run()
    seq = str(crew.plan(added).seq)
    drawn = run("plan", seq, "--jobs")
    assert "put" not in drawn.stdout.partition(f"plan/{seq}/")[2]
    assert "... and 1 job more" in drawn.stderr
    lines = run("plan", seq, "--jobs", "--json").stdout.splitlines()
    jobs = [json.loads(line)["_id"] for line in lines[1:]]
    assert jobs == [f"plan/{seq}/get", f"plan/{seq}/put"]


def test_programs_are_told_of_a_finally_too(run: Run, crew: Crew) -> None:
    added = crew.insert({"steps": CHAIN, "finally": {"task": "t.fails"}})
    crew.run()
    found = json.loads(run("plan", str(crew.plan(added).seq), "--json").stdout)
    assert (found["finally"]["task"], found["finally"]["state"]) == ("t.fails", "failed")


def test_a_plan_is_cancelled_and_retried_by_its_number(
    run: Run, crew: Crew, tmp_path: Path
) -> None:
    seq = submit(run, tmp_path, CHAIN)
    crew.accept()
    assert f"plan {seq} has not ended" in run("retry", str(seq)).output
    assert run("cancel", str(seq)).exit_code == 0
    again = run("cancel", str(seq))
    assert again.exit_code == 1
    assert "stops already" in again.output
    crew.run()
    assert "It ended because it was cancelled" in run("why", str(seq)).output
    assert run("retry", str(seq)).exit_code == 0
    crew.run()
    ended = run("retry", str(seq))
    assert ended.exit_code == 1
    assert f"plan {seq} is done: there is nothing to run again" in ended.output


def test_a_plan_that_was_cancelled_before_it_was_accepted_is_not_retried(
    run: Run, crew: Crew, tmp_path: Path
) -> None:
    seq = submit(run, tmp_path, CHAIN)
    # Or a copy of one that has run: what nodes have said of that is not true of this one.
    of_another = {"try": 0, "rev": 1, "widths": {"get": 3}, "added": ["get"]}
    crew.store.database.plans.update_one({"seq": seq}, {"$set": of_another})
    assert run("cancel", str(seq)).exit_code == 0
    why = run("why", str(seq)).output
    assert "It was cancelled before any node had accepted it." in why
    assert "tontine retry" not in why
    ended = run("retry", str(seq))
    assert ended.exit_code == 1
    assert f"plan {seq} was cancelled before any node had accepted it" in ended.output


def test_it_says_why_a_claimed_step_was_not_started(run: Run, crew: Crew, tmp_path: Path) -> None:
    seq = submit(run, tmp_path, CHAIN)
    crew.accept()
    run("cancel", str(seq))
    assert not crew.claim()
    why = run("why", f"plan/{seq}/get").output
    assert "When a node had claimed it, its plan had stopped: it was not started." in why
    assert f"`tontine retry {seq}` goes on with its plan" in why
    crew.store.database.plans.delete_one({"seq": seq})
    why = run("why", f"plan/{seq}/get").output
    assert f"It is step get of plan {seq}, which is gone." in why
    assert "When a node had claimed it, its plan was gone: it was not started." in why


def test_a_plan_waits_for_nodes_that_know_nothing_of_plans(
    run: Run, crew: Crew, tmp_path: Path
) -> None:
    crew.store.database.nodes.insert_one({"_id": "old", "state": "waiting", "beat": 0})
    seq = submit(run, tmp_path, CHAIN)
    assert "runs a release that knows nothing of plans" in run("why", str(seq)).output


def test_a_number_that_is_a_jobs_and_a_plans_is_refused(
    run: Run, crew: Crew, tmp_path: Path
) -> None:
    seq = submit(run, tmp_path, CHAIN)
    crew.store.database.jobs.insert_one(
        {"seq": seq, "task": "t.t", "state": "failed", "attempt": 0, "fails": 0, "lost": 0}
    )
    ended = run("cancel", str(seq))
    assert ended.exit_code == 2
    assert f"{seq} is the number of a job and of a plan" in ended.output


def test_an_option_that_would_mean_nothing_to_a_plan_is_refused(
    run: Run, store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"steps": CHAIN}))
    ended = run("submit", "--plan", str(file), "--delay", "5m")
    assert isinstance(ended.exception, ConfigError)
    assert "--delay goes with a TASK" in str(ended.exception)
    assert store.database.plans.count_documents({}) == 0


def test_what_goes_with_plans_alone_or_with_jobs_alone_changes_no_other(
    run: Run, crew: Crew, tmp_path: Path
) -> None:
    """A plan's job that is cancelled has its plan undone, whatever --no-undo says."""
    seq = submit(run, tmp_path, CHAIN)
    crew.accept()
    (job,) = crew.store.database.jobs.find({}, {"seq": 1})
    ended = run("cancel", str(job["seq"]), "--no-undo")
    assert ended.exit_code == 2
    assert f"--no-undo goes with plans, and {job['seq']} is a job" in ended.output
    ended = run("cancel", "--task", "t.echo", "--no-undo", "--yes")
    assert ended.exit_code == 2
    assert "what filters find are jobs" in ended.output
    ended = run("retry", str(seq), "--from", "clean")
    assert ended.exit_code == 2
    assert f"--from goes with jobs, and {seq} is a plan" in ended.output
    assert crew.store.database.jobs.find_one({}, {"_id": 0, "state": 1}) == {"state": "queued"}


@pytest.mark.parametrize(
    "options", [("--dot", "--jobs"), ("--dot", "--json"), ("--follow", "--jobs")]
)
def test_ways_to_show_a_plan_that_exclude_each_other_are_refused(
    run: Run, options: tuple[str, str]
) -> None:
    ended = run("plan", "17", *options)
    assert ended.exit_code == 2
    assert options[0] in ended.output


def test_who_waits_no_longer_is_told_that_the_plan_goes_on(
    run: Run, crew: Crew, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    def interrupt(_: float) -> None:
        raise KeyboardInterrupt

    monkeypatch.setattr(cli_plan, "time", SimpleNamespace(sleep=interrupt))
    file = tmp_path / "plan.json"
    file.write_text(json.dumps({"steps": CHAIN}))
    ended = run("submit", "--plan", str(file), "--wait")
    assert "no longer waiting: plan 1 goes on" in ended.stderr
    crew.run()
    assert crew.store.database.plans.find_one({}, {"_id": 0, "state": 1}) == {"state": "done"}


def test_tasks_that_nobody_has_are_told_of_undos_and_the_end_too(run: Run, tmp_path: Path) -> None:
    file = tmp_path / "plan.json"
    steps = {"get": {"task": "t.get", "undo": {"task": "t.unget"}}}
    file.write_text(json.dumps({"steps": steps, "finally": {"task": "t.close"}}))
    told = run("submit", "--plan", str(file)).stderr
    assert all(f"the task t.{name}" in told for name in ("get", "unget", "close"))


def test_what_cannot_be_a_plan_is_refused_before_it_is_inserted(
    run: Run, store: Store, tmp_path: Path
) -> None:
    file = tmp_path / "plan.json"
    file.write_text('{"steps": {"a": {"task": "t.t", "after": ["b"]}}}')
    ended = run("submit", "--plan", str(file))
    assert isinstance(ended.exception, ConfigError)
    assert "step a comes after b, which is no step" in str(ended.exception)
    assert store.database.plans.count_documents({}) == 0
    assert isinstance(run("plan", "17").exception, UnknownPlan)
