"""What a node says of its modules and contexts, versions across nodes, and the stages of a job."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.screens.still import NOW, job, node
from tontine.diagnose.why import Evidence
from tontine.records.job import Job
from tontine.records.node import Sighting
from tontine.records.stage import StageDone
from tontine_observer.feed.jobstages import told_stages
from tontine_observer.picture.modules import is_offered, version_rows
from tontine_observer.picture.nodes import _note, faults_of
from tontine_observer.records.clean import Cleaner
from tontine_observer.records.ledger import Wanted
from tontine_observer.records.loaded import ModuleRow
from tontine_observer.records.node import NodeFact, NodeRow

AT = datetime(2030, 1, 1, tzinfo=UTC)


def record(**more: Any) -> dict[str, Any]:
    """A node whose clock is 100 s ahead of the server's."""
    clock = {"clock": AT + timedelta(seconds=100)}
    beat = {"lease": 20.0, "lease_until": AT + timedelta(seconds=20), "metrics": clock}
    return {"_id": "ada-1", "name": "ada", "state": "waiting", **beat, **more}


def fact(**more: Any) -> NodeFact:
    return NodeFact.from_document(record(**more), Cleaner())


def test_contexts_are_read_and_their_next_try_is_told_by_the_servers_clock() -> None:
    failing = {"name": "mail", "state": "failing", "processes": 2, "error": "x\x1b", "tries": 3}
    contexts = [
        {"name": "default", "state": "ready", "processes": 1, "ready": 1},
        {**failing, "next_at": AT + timedelta(seconds=107)},
        {"state": "ready"},
        "odd",
    ]
    found = fact(contexts=contexts)
    default, mail = found.contexts
    assert (default.name, default.ready, default.next_at) == ("default", 1, None)
    assert (mail.state, mail.processes, mail.ready, mail.tries) == ("failing", 2, 0, 3)
    assert mail.error == "x\\e"
    assert mail.next_at == pytest.approx(AT.timestamp() + 7)
    assert faults_of(found, AT.timestamp()) == ("context mail",)
    assert faults_of(found, AT.timestamp() + 15) == (), "of a silent node nobody knows"


@pytest.mark.parametrize(
    ("state", "is_served"),
    [
        ("serving", True),
        ("broken", True),
        ("loading", False),
        ("draining", False),
        ("refused", False),
        (None, True),
    ],
)
def test_a_node_serves_what_it_offers(state: str | None, is_served: bool) -> None:
    told = {} if state is None else {"state": state}
    found = fact(modules=[{"name": "t", "version": "1.2", "tasks": ["t.a"], **told}])
    assert found.serves("t.a@>=1") is is_served
    assert list(found.tasks) == (["t.a"] if is_served else [])
    assert not found.serves("t.a@>=2")


def test_a_context_whose_workers_cannot_be_started_is_told_once() -> None:
    failing = {"name": "mail", "state": "failing", "error": "x"}
    trouble = {"what": "workers of mail", "why": "x", "since": AT, "times": 3}
    assert note(contexts=[failing]) == "in trouble: context mail"
    assert note(contexts=[failing], troubles=[trouble]) == "in trouble: workers of mail"
    module = {"name": "etl", "state": "broken", "error": "x"}
    assert note(modules=[module], troubles=[trouble]) == "in trouble: workers of mail, module etl"


def note(**more: Any) -> str:
    return _note(fact(**more), AT.timestamp())


def having(number: int, *modules: ModuleRow, **more: Any) -> NodeRow:
    return replace(node(number, "waiting"), modules=modules, **more)


def shop(version: str, digest: str = "", state: str = "serving", error: str = "") -> ModuleRow:
    return ModuleRow("shop", version, ("shop.a",), state, digest=digest, error=error)


def test_versions_are_told_across_nodes() -> None:
    nodes = (
        having(0, shop("1.2", "aaaaaaaa")),
        having(1, shop("1.2", "bbbbbbbb"), shop("1.1", "cc", "draining")),
        having(2, shop("1.2", "aaaaaaaa", "broken", "no colon")),
        replace(having(3, shop("0.9")), state="dead"),
    )
    old, new = version_rows(nodes, {})
    assert (old.version, old.state, old.nodes, old.digests) == (
        "1.1",
        "draining",
        ("node-01",),
        ("cc",),
    )
    assert (new.version, new.state, new.others) == ("1.2", "broken", ("2 serving",))
    assert new.nodes == ("node-00", "node-01", "node-02")
    assert new.note == (
        "different files: aaaaaa node-00, node-02; bbbbbb node-01; node-02: no colon"
    )


def test_a_range_is_wanted_until_a_member_offers_it() -> None:
    wanted = {"shop.a@>=1.2": Wanted(1), "shop.b@>=1": Wanted(7), "shop.a": Wanted(3)}
    outside = having(0, shop("1.2"), rank=None)
    loading = having(1, shop("1.2", state="loading"))
    member = having(2, shop("1.1"))

    def told(*nodes: NodeRow) -> list[str]:
        return [row.note for row in version_rows(nodes, wanted) if row.wanted]

    lacking = "7 jobs wait for shop.b; no node has the task"
    assert told(outside, loading, member) == [lacking, "1 job waits for shop.a; there is 1.1, 1.2"]
    assert told(replace(outside, rank=0), member) == [lacking]
    assert is_offered("shop.a@>=1.2", [replace(outside, rank=0)])
    assert not is_offered("shop.a@>=1.2", [replace(outside, rank=0, state="dead")])


DONE = (StageDone("fetch", 1, "1.3", 4000, 120, 0, "ada-1"),)


def stages(state: str, done: tuple[StageDone, ...] = DONE) -> list[tuple[str, str]]:
    names = ["fetch", "clean", "store"]
    announced = {"name": "t", "tasks": ["t.s"], "stages": [{"task": "t.s", "names": names}]}
    asked = Job.from_document({"_id": 1, "seq": 1, "task": "t.s@>=1"})
    live = Sighting.from_document(record(modules=[announced]))
    row = job(0)._replace(state=state)
    found = told_stages(done, row, Evidence(NOW, asked, nodes=(live,)), {"ada-1": "ada"}, Cleaner())
    return [(one.name, one.state or one.node) for one in found]


@pytest.mark.parametrize("state", ["queued", "working", "failed", "cancelled"])
def test_the_stage_after_those_that_are_done_is_where_the_job_is(state: str) -> None:
    assert stages(state) == [("fetch", "done"), ("clean", state), ("store", "")]


def test_all_stages_of_a_done_job_are_done() -> None:
    assert {state for _, state in stages("done")} == {"done"}


def test_stages_that_the_code_no_longer_has_are_told_alone() -> None:
    assert stages("queued", (replace(DONE[0], name="get"),)) == [("get", "done")]
