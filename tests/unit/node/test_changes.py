"""What a node is asked to load and to drop: each look takes the next step towards it."""

from __future__ import annotations

import asyncio
from typing import Any, cast

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine.clock import SystemClock
from tontine.records.want import Want
from tontine_node.claims import Claims, Entry
from tontine_node.config import ContextConfig, NodeConfig
from tontine_node.kept import Kept
from tontine_node.running.changes import Changes
from tontine_node.running.contexts import Contexts
from tontine_node.running.described import describe_contexts, describe_modules, serving
from tontine_node.running.dispatch import Dispatcher
from tontine_node.running.pipe import BrokenModules, Hello, Reports, TaskFacts
from tontine_node.running.pool import Child
from tontine_node.telling.troubles import Troubles

CONFIG = NodeConfig(
    name="n",
    contexts=(ContextConfig("default", ("a", "b")), ContextConfig("mail", ("m",))),
    available=("c",),
)
BEGIN = (Want("a"), Want("b"), Want("m"))


class Silent:
    """A worker's process, and the line to it; neither does anything."""

    pid = 1
    returncode = None

    def kill(self) -> None: ...

    def is_closing(self) -> bool:
        return True


class Bench:
    """A node's contexts without processes: workers say what the test makes them say."""

    def __init__(self) -> None:
        self.claims = Claims()
        self.contexts = Contexts(CONFIG, SystemClock(), self.claims, lambda _: None, Troubles())
        self.changes = Changes(CONFIG, self.contexts, self.claims, Kept.of(CONFIG).wants)
        self.default, self.mail = self.contexts.dispatchers

    def worker(self, dispatcher: Dispatcher, *names: str) -> Child:
        """A worker of the wanted generation gets ready, with what its sources have."""
        child = Child(0, cast("Any", Silent()), cast("Any", None), cast("Any", Silent()))
        child.number = dispatcher.pool.generations.wanted
        dispatcher.pool.children = {0: child}
        dispatcher.workloads.clear()
        dispatcher.started(child)
        modules = [
            {"name": name, "version": "1", "tasks": [f"{name}.t"], "source": name}
            for name in names or dispatcher.pool.context.modules
        ]
        tasks = {task: TaskFacts() for module in modules for task in module["tasks"]}
        dispatcher.pool.take(child, Reports(hello=[Hello(modules, tasks)]))
        return child

    def states(self) -> dict[str, str]:
        return {one["name"]: one["state"] for one in describe_modules(self.contexts, self.changes)}


@pytest.fixture
async def bench() -> Any:
    bench = Bench()
    for dispatcher in bench.contexts:
        bench.worker(dispatcher)
    yield bench
    bench.contexts.close()


async def test_what_is_available_is_loaded_and_offered_when_a_worker_has_it(bench: Bench) -> None:
    bench.changes.follow((*BEGIN, Want("c")), 0)
    assert bench.default.pool.context.modules == ("a", "b", "c")
    assert bench.states()["c"] == "loading"
    assert set(bench.default.tasks) == {"a.t", "b.t"}
    bench.worker(bench.default)
    assert bench.states()["c"] == "serving"
    assert [one.name for one in serving(bench.default).modules] == ["a", "b", "c"]


async def test_what_is_not_is_refused_and_so_is_a_context_that_is_none(bench: Bench) -> None:
    bench.changes.follow((*BEGIN, Want("x"), Want("c", "nowhere")), 0)
    assert bench.default.pool.context.modules == ("a", "b")
    assert bench.states()["x"] == "refused"
    assert set(bench.changes.refused) == {Want("x"), Want("c", "nowhere")}


async def test_a_drop_goes_through_its_steps(bench: Bench) -> None:
    offered = {"a", "b", "m"}
    bench.changes.is_offered = offered.__contains__
    bench.claims.enter(Entry(1, 1, 0.0, "b.t"))
    wants = (Want("a"), Want("m"))
    bench.changes.follow(wants, 0)
    assert set(bench.default.tasks) == {"a.t"}, "nothing of it is claimed, before all else"
    assert bench.states()["b"] == "draining"
    assert bench.changes.dropped == {"b"}
    assert bench.default.pool.context.modules == ("a", "b"), "it is still in the offer"
    offered.discard("b")
    bench.changes.follow(wants, 0)
    assert bench.default.pool.context.modules == ("a", "b"), "and a job of it is in the table"
    bench.claims.drop(1)
    bench.changes.follow(wants, 0)
    assert bench.default.pool.context.modules == tuple("a")
    bench.changes.follow(wants, 0)
    assert set(bench.default.tasks) == {"a.t"}, "also while the old workers are still there"
    bench.worker(bench.default)
    assert "b" not in bench.states()
    bench.changes.follow(wants, 0)
    assert bench.changes.dropped == frozenset()


async def test_one_that_is_wanted_again_meanwhile_stays(bench: Bench) -> None:
    bench.changes.is_offered = lambda _: True
    before = bench.default.pool.generations.wanted
    bench.changes.follow((Want("a"), Want("m")), 0)
    bench.changes.follow(BEGIN, 0)
    assert set(bench.default.tasks) == {"a.t", "b.t"}
    assert bench.default.pool.generations.wanted == before, "nobody had to be replaced"


async def test_a_job_that_was_claimed_by_its_number_may_be_of_what_is_dropped(bench: Bench) -> None:
    bench.claims.enter(Entry(1, 1, 0.0))
    bench.changes.follow((Want("a"), Want("m")), 0)
    assert bench.default.pool.context.modules == ("a", "b")


async def test_a_context_that_is_to_load_nothing_has_no_workers(bench: Bench) -> None:
    bench.changes.follow((Want("a"), Want("b")), 0)
    assert bench.mail.pool.context.modules == ()
    assert bench.mail.tasks == {}
    assert bench.mail.pool.children[0].kill_reason
    told = {one["name"]: one["state"] for one in describe_contexts(bench.contexts, SystemClock())}
    assert told["mail"] == "ready", "nothing is wrong with it"


async def test_a_reload_is_fulfilled_when_all_contexts_have_new_workers(bench: Bench) -> None:
    bench.changes.follow(BEGIN, 1)
    bench.worker(bench.default)
    bench.changes.follow(BEGIN, 1)
    assert bench.changes.reloaded == 0
    bench.worker(bench.mail)
    bench.changes.follow(BEGIN, 1)
    assert bench.changes.reloaded == 1
    before = bench.mail.pool.generations.wanted
    bench.changes.follow(BEGIN, 1)
    assert bench.mail.pool.generations.wanted == before, "once"


async def test_a_module_belongs_to_one_context(bench: Bench) -> None:
    bench.worker(bench.mail, "m", "a")
    bench.changes.follow(BEGIN, 0)
    assert set(bench.mail.tasks) == {"m.t"}
    assert "a.t" in bench.default.tasks
    assert bench.changes.dropped == frozenset(), "the offer keeps it"
    told = [one for one in describe_modules(bench.contexts, bench.changes) if one["name"] == "a"]
    assert [(one["context"], one["state"]) for one in told] == [
        ("default", "serving"),
        ("mail", "refused"),
    ]


async def test_also_where_another_source_brings_one_of_its_name(bench: Bench) -> None:
    child = bench.mail.pool.children[0]
    module = {"name": "a", "version": "1", "tasks": ["a.t"], "source": "m"}
    bench.mail.pool.take(child, Reports(hello=[Hello([module], {"a.t": TaskFacts()})]))
    bench.changes.follow(BEGIN, 0)
    assert not bench.mail.tasks
    assert "a.t" in bench.default.tasks


async def test_the_next_incarnation_begins_with_what_was_wanted_of_the_one_before(
    bench: Bench,
) -> None:
    contexts = Contexts(CONFIG, SystemClock(), Claims(), lambda _: None, Troubles())
    Changes(CONFIG, contexts, Claims(), (Want("a"), Want("c"), Want("m")))
    assert [one.pool.context.modules for one in contexts] == [("a", "c"), ("m",)]
    contexts.close()


async def test_a_reload_is_fulfilled_without_a_context_that_has_nothing_to_load_by_then(
    bench: Bench,
) -> None:
    bench.changes.follow(BEGIN, 1)
    bench.worker(bench.default)
    bench.changes.follow((Want("a"), Want("b")), 1)
    assert (bench.changes.reloading, bench.changes.reloaded) == (1, 1)


@pytest.mark.parametrize(
    ("source", "broken"), [("c", {"c"}), ("a", {"a"}), ("", {"c"}), ("profile:mail", {"c"})]
)
async def test_the_source_that_cannot_be_loaded_is_the_broken_one(
    bench: Bench, source: str, broken: set[str]
) -> None:
    """Else what is new must be to blame."""
    bench.changes.follow((*BEGIN, Want("c")), 0)
    child = bench.default.pool.children[0]
    bench.default.pool.take(child, Reports(broken=[BrokenModules("why", source=source)]))
    assert {name for name, state in bench.states().items() if state == "broken"} == broken


async def test_what_was_broken_is_not_known_to_be_when_it_is_to_be_loaded_anew(
    bench: Bench,
) -> None:
    bench.changes.follow(BEGIN, 1)
    child = bench.default.pool.children[0]
    bench.default.pool.take(child, Reports(broken=[BrokenModules("why", source="a")]))
    assert bench.states()["a"] == "broken"
    bench.changes.follow(BEGIN, 2)
    assert bench.states()["a"] == "serving"


@pytest.mark.parametrize("is_new", [True, False])
async def test_what_keeps_a_module_from_being_loaded_is_told_of_it(
    bench: Bench, is_new: bool
) -> None:
    """Also what is tried again by itself, like a connection: the module is not broken then."""
    bench.changes.follow((*BEGIN, *([Want("c")] if is_new else [])), 0)
    bench.default.pool.tries.failed(1.0, 2.0, "nobody listens")
    if not is_new:
        bench.default.pool.children[0].is_ready = False
    told = {one["name"]: one for one in describe_modules(bench.contexts, bench.changes)}
    module = told["c" if is_new else "a"]
    assert (module["state"], module["error"]) == ("loading", "nobody listens")
    assert "error" not in told["m"]


SOURCES = st.lists(st.sampled_from("abcmx"), unique=True)


@given(st.lists(st.tuples(SOURCES, st.booleans()), max_size=8), SOURCES)
def test_whatever_was_wanted_the_last_wish_comes_true(
    history: list[tuple[list[str], bool]], last: list[str]
) -> None:
    """ML3, MI4: what is not wanted is not served at any moment, and in the end not loaded."""

    async def live() -> None:
        bench = Bench()
        try:
            for dispatcher in bench.contexts:
                bench.worker(dispatcher)
            for wanted, is_quick in [*history, *[(last, True)] * 4]:
                bench.changes.follow([Want(source) for source in wanted], 0)
                served = {task for one in bench.contexts for task in one.tasks}
                assert served <= {f"{source}.t" for source in wanted}
                for dispatcher in bench.contexts:
                    if dispatcher.is_needed and is_quick:
                        bench.worker(dispatcher)
            loaded = {s for one in bench.contexts for s in one.pool.context.modules}
            assert loaded == set(last) - {"x"}
            assert {task for one in bench.contexts for task in one.tasks} == {
                f"{source}.t" for source in set(last) - {"x"}
            }
        finally:
            bench.contexts.close()

    asyncio.run(live())
