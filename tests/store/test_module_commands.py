"""`tontine module` on records as nodes write them: what is asked, what is refused and in which
words."""

from __future__ import annotations

from collections.abc import Callable
from dataclasses import dataclass
from datetime import UTC, datetime
from typing import Any

import orjson
import pytest
from click.testing import CliRunner

from tontine.cli import tontine
from tontine.errors import TontineError
from tontine.records.node import Sighting
from tontine.records.offer import Offer
from tontine.records.roster import Roster
from tontine.records.want import Want, read_wants
from tontine.store import insert, members, modules
from tontine.store.call import Store
from tontine.store.insert import Wish


@dataclass(frozen=True, slots=True)
class Ran:
    code: int
    out: str
    err: str

    @property
    def rows(self) -> list[Any]:
        return [orjson.loads(line) for line in self.out.splitlines()]


Run = Callable[..., Ran]


@pytest.fixture
def run(mongo_uri: str, database: str) -> Run:
    def run(*arguments: str) -> Ran:
        environment = {"TONTINE_URI": mongo_uri, "TONTINE_DATABASE": database}
        ended = CliRunner().invoke(tontine, arguments, env=environment)
        if isinstance(ended.exception, TontineError):
            return Ran(2, ended.stdout, str(ended.exception))
        assert ended.exception is None or isinstance(ended.exception, SystemExit), ended.exception
        return Ran(ended.exit_code, ended.stdout, ended.stderr)

    return run


def serving(name: str, source: str, **more: Any) -> dict[str, Any]:
    module = {"name": name, "version": "1.0", "tasks": [f"{name}.work"], "state": "serving"}
    return module | {"context": "default", "source": source, "digest": "d1" * 32} | more


def add_node(store: Store, name: str, *loaded: dict[str, Any], **more: Any) -> str:
    sources = sorted({one["source"] for one in loaded})
    record = {
        "name": name,
        "modules": list(loaded),
        "wants": [{"source": source} for source in sources],
        "started_with": sources,
        "available": ["etl.tasks"],
        "contexts": [{"name": "default", "state": "ready", "processes": 1, "ready": 1}],
    }
    store.run(members.register(f"{name}-1", record | more, 20.0))
    return f"{name}-1"


@pytest.fixture
def web(store: Store) -> str:
    return add_node(store, "web-1", serving("shop", "shop.tasks"))


def wanted(store: Store, node: str) -> list[str]:
    record = store.database.nodes.find_one({"_id": node}) or {}
    return [want.source for want in read_wants(record["wants"]) or ()]


def test_what_is_available_is_added_once(store: Store, web: str, run: Run) -> None:
    asked = run("module", "add", "web-1", "etl.tasks")
    assert (asked.code, asked.out) == (0, "asked web-1 to load etl.tasks\n")
    assert run("module", "add", "--all", "etl.tasks", "--context", "default").code == 0
    assert wanted(store, web) == ["shop.tasks", "etl.tasks"]


def test_what_is_not_is_refused_with_what_could_be(store: Store, web: str, run: Run) -> None:
    refused = run("module", "add", "web-1", "./x.py")
    assert (refused.code, refused.err) == (
        2,
        (
            "web-1 may not load './x.py': it was started with shop.tasks, and 'available' lists "
            "etl.tasks"
        ),
    )
    other = run("module", "add", "web-1", "etl.tasks", "--context", "mail")
    assert (other.code, other.err) == (2, "web-1 has no context 'mail': it has default")
    assert wanted(store, web) == ["shop.tasks"]


@pytest.mark.parametrize(
    ("source", "want"),
    [
        ("shop.tasks", {"source": "shop.tasks"}),  # as its worker has it
        ("etl.tasks", {"source": "etl.tasks", "context": "batch"}),
        ("etl.tasks", {"source": "etl.tasks"}),  # the first, and no worker has it yet
    ],
)
def test_what_another_context_has_already_is_refused_with_that(
    store: Store, run: Run, source: str, want: dict[str, str]
) -> None:
    contexts = [{"name": name, "state": "ready"} for name in ("batch", "mail")]
    shop = serving("shop", "shop.tasks", context="batch")
    add_node(store, "web-1", shop, wants=[want], contexts=contexts)
    refused = run("module", "add", "web-1", source, "--context", "mail")
    assert refused.code == 2
    assert refused.err.startswith(f"web-1 has {source!r} in its context batch already")
    assert run("module", "add", "web-1", source, "--context", "batch").code == 0
    assert run("module", "add", "web-1", source).code == 0


def test_versions_are_rows_too_also_of_a_module_that_no_live_node_has(
    store: Store, run: Run
) -> None:
    module = {"name": "shop", "version": "1.2", "authors": ["Ada"], "tasks": ["shop.work"]}
    store.run(modules.announce({**module, "digest": "d1"}))
    (row,) = run("module", "ls", "shop", "--json").rows
    assert row.items() >= {**module, "digest": "d1"}.items()
    assert "node" not in row
    assert row["seen_at"]
    add_node(store, "web-1", serving("shop", "shop.tasks"))
    assert [row.get("node") for row in run("module", "ls", "shop", "--json").rows] == [
        "web-1",
        None,
    ]


def test_a_module_that_nobody_else_has_is_dropped_only_by_who_knows(
    store: Store, web: str, run: Run
) -> None:
    store.run(insert.submit_many(Wish("shop.work"), [{}] * 412))
    doubted = run("module", "rm", "web-1", "shop")
    assert (doubted.code, doubted.err) == (
        2,
        "412 queued jobs of shop will wait: no other node has it: give --yes to drop it",
    )
    assert wanted(store, web) == ["shop.tasks"]
    assert run("module", "rm", "web-1", "shop", "--yes").code == 0
    assert wanted(store, web) == []


def test_one_that_another_has_goes_without_a_question(store: Store, web: str, run: Run) -> None:
    add_node(store, "web-2", serving("shop", "shop.tasks"))
    assert run("module", "rm", "web-1", "shop").out == "asked web-1 to drop shop\n"
    assert wanted(store, web) == []


def test_one_that_another_is_dropping_is_no_other(store: Store, web: str, run: Run) -> None:
    add_node(store, "web-2", serving("shop", "shop.tasks", state="draining"))
    assert "no other node has it" in run("module", "rm", "web-1", "shop").err


def test_others_of_the_same_source_are_named(store: Store, run: Run) -> None:
    for name in ("a", "b"):
        add_node(store, name, serving("shop", "all.tasks"), serving("till", "all.tasks"))
    doubted = run("module", "rm", "a", "shop")
    assert doubted.code == 2
    assert "all.tasks also brought till: they go with it" in doubted.err


def test_what_is_not_there_cannot_be_dropped(web: str, run: Run) -> None:
    missed = run("module", "rm", "web-1", "shp")
    assert (missed.code, missed.err) == (2, "web-1 has no module 'shp': there is shop")
    assert run("module", "rm", "nobody", "shop").code == 2


def test_a_reload_is_a_number_that_grows(store: Store, web: str, run: Run) -> None:
    assert run("module", "reload", "web-1").out == "asked web-1 to load its modules anew\n"
    assert run("module", "reload", "--all", "--json").rows == [
        {"_id": web, "node": "web-1", "asked": "load its modules anew", "done": None}
    ]
    assert (store.database.nodes.find_one({"_id": web}) or {})["reload"] == 2
    late = run("module", "reload", "web-1", "--wait", "--within", "0.1s")
    assert (late.code, late.out) == (1, "")


@pytest.mark.parametrize(
    ("heard", "fulfilled", "is_done"), [(0, 0, None), (1, 0, False), (1, 1, True)]
)
def test_what_was_broken_before_a_reload_tells_nothing_of_it(
    store: Store, run: Run, heard: int, fulfilled: int, is_done: bool | None
) -> None:
    broken = serving("shop", "shop.tasks", state="broken", error="no such luck")
    add_node(store, "web-1", broken, reloading=heard, reloaded=fulfilled)
    asked = run("module", "reload", "web-1", "--wait", "--within", "0.1s", "--json")
    assert [row["done"] for row in asked.rows] == [is_done]
    assert asked.code == (0 if is_done else 1)


def test_the_list_says_who_has_what_and_why_not(store: Store, web: str, run: Run) -> None:
    add_node(
        store,
        "web-2",
        serving("shop", "shop.tasks", version="2.0", state="broken", error="no such luck"),
    )
    for version, authors in (("1.0", ["Ann <ann@example.org>"]), ("1.0", ["Eve"]), ("2.0", [])):
        facts = {"version": version, "authors": authors, "tasks": ["shop.work"]}
        store.run(modules.announce({"name": "shop", **facts}))
    told = [
        (row["node"], row["version"], row["state"]) for row in run("module", "ls", "--json").rows
    ]
    assert told == [("web-1", "1.0", "serving"), ("web-2", "2.0", "broken")]
    shown = run("module", "ls", "shop").out
    assert "no such luck" in shown
    assert "Ann <ann@example.org>" in shown
    assert "Eve" not in shown, "the first who announced it is kept"
    nobody = run("module", "ls", "shp")
    assert (nobody.code, nobody.err) == (2, "no node has ever announced a module 'shp'")


def test_a_node_of_an_earlier_release_cannot_be_asked(store: Store, web: str, run: Run) -> None:
    store.database.nodes.update_one({"_id": web}, {"$unset": {"wants": ""}})
    assert "runs a release that cannot" in run("module", "reload", "web-1").err


def test_words_that_are_missing_are_named(web: str, run: Run) -> None:
    assert "give NODE SOURCE, or --all" in run("module", "add", "web-1").err
    assert "give SOURCE" in run("module", "add", "--all", "web-1", "etl.tasks").err


def test_what_is_wrong_with_modules_and_contexts_is_told_below_the_nodes(
    store: Store, run: Run
) -> None:
    contexts = [
        {"name": "default", "state": "ready", "processes": 1, "ready": 1},
        {"name": "mail", "state": "failing", "processes": 1, "error": "refused", "tries": 3},
    ]
    broken = serving("shop", "shop.tasks", state="broken", error="no such luck")
    add_node(store, "web-1", broken, contexts=contexts)
    store.run(members.heartbeat("web-1-1", {}, 20.0, 3.0))
    told = run("nodes").out
    assert "web-1 has the context mail failing after 3 tries: refused" in told
    assert "web-1 has a broken module, shop 1.0: no such luck" in told


def test_who_divides_the_jobs_of_which_module_is_told_where_not_all_are_alike(
    store: Store, run: Run
) -> None:
    shop, etl = serving("shop", "shop.tasks"), serving("etl", "etl.tasks")
    having = {"web-1": [shop], "web-2": [shop, etl], "web-3": [shop, etl]}
    roster = Roster()

    def told() -> list[str]:
        store.database.cluster.replace_one({"_id": "roster"}, roster.to_document(), upsert=True)
        ran = run("nodes")
        return [line for line in (ran.out + ran.err).splitlines() if "divided among" in line]

    for name, loaded in having.items():
        roster = roster.joined_by(add_node(store, name, *loaded), Offer.announced(loaded))
    assert told() == [
        "the jobs of etl are divided among web-2, web-3",
        "the jobs of shop are divided among web-1, web-2, web-3",
    ]
    roster = roster.without(["web-1-1"])
    assert told() == [], "all have the same"


def test_what_is_not_served_is_nobody_s_task() -> None:
    states = ("serving", "loading", "draining", "refused", "broken")
    loaded = [serving(state, "s", state=state) for state in states]
    seen = Sighting.from_document({"_id": "x", "modules": loaded, "now": datetime.now(UTC)})
    assert seen.tasks == {"serving.work", "broken.work"}


def test_what_anybody_may_write_is_read_with_care() -> None:
    odd: list[Any] = [None, 3, {}, {"source": 3}, {"source": ""}, {"source": "a", "context": 7}]
    assert read_wants([*odd, {"source": "a"}, {"source": "b", "context": "c"}]) == (
        Want("a"),
        Want("b", "c"),
    )
    assert read_wants("a") is None
    assert read_wants([1]) is None, "what cannot be read takes nothing from a node"
    assert read_wants([]) == ()


@pytest.mark.parametrize("odd", [2**63 - 1, -5, "x", [1], float("nan"), float("inf"), None])
def test_a_reload_is_heard_whatever_somebody_wrote_in_its_place(
    store: Store, web: str, odd: Any
) -> None:
    store.database.nodes.update_one({"_id": web}, {"$set": {"reload": odd, "reloading": 7}})
    beat = store.run(members.heartbeat(web, {}, 20.0, 3.0))
    assert beat.reload <= 7, "nobody asked"
    store.run(modules.ask_to_reload([web]))
    assert store.run(members.heartbeat(web, {}, 20.0, 3.0)).reload == 8


def test_the_heartbeat_tells_what_is_wanted(store: Store, web: str) -> None:
    store.run(modules.want([web], Want("etl.tasks", "batch")))
    store.run(modules.ask_to_reload([web]))
    beat = store.run(members.heartbeat(web, {}, 20.0, 3.0))
    assert beat.wants == (Want("shop.tasks"), Want("etl.tasks", "batch"))
    assert beat.reload == 1
    store.database.nodes.update_one({"_id": web}, {"$set": {"wants": 3, "reload": "x"}})
    beat = store.run(members.heartbeat(web, {}, 20.0, 3.0))
    assert (beat.wants, beat.reload) == (None, 0)
