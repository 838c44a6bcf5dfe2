"""Stages: how they are declared, what each is called with, and that what is done is not done
again."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pytest

from tontine import ConfigError, Module, current_job
from tontine.module import Stages
from tontine.records.stage import StageDone, misfit, saved_in, stages_in
from tontine.stages import Staged
from tontine.testing import EagerQueue, arun_task, run_task


def a_module() -> tuple[Module, Stages]:
    shop = Module("shop", version="1.2")
    return shop, shop.stages("orders", max_attempts=3, backoff=lambda _: 0.0)


def declared(ran: list[str], fail: Callable[[], bool] = lambda: False) -> Module:
    """Three stages, the second of which may fail."""
    shop, orders = a_module()

    @orders.extract
    def fetch(day: str, *, count: int = 2) -> tuple[str, ...]:
        ran.append("fetch")
        return (day,) * count

    @orders.transform(timeout=60)
    async def clean(rows: list[str], currency: str = "EUR") -> list[str]:
        ran.append("clean")
        if fail():
            raise ValueError("not yet")
        return [f"{row} {currency}" for row in rows]

    @orders.load
    def store(rows: list[str], /, day: str) -> dict[str, Any]:
        ran.append("store")
        return {"day": day, "rows": rows}

    return shop


def test_each_gets_the_output_before_and_the_arguments_that_it_names() -> None:
    ran: list[str] = []
    queue = EagerQueue(declared(ran))
    job = queue.wait(queue.submit("shop.orders", {"day": "mon", "currency": "CHF"}))
    assert job.result == {"day": "mon", "rows": ["mon CHF", "mon CHF"]}
    assert [stage.name for stage in job.stages] == ["fetch", "clean"]
    assert ran == ["fetch", "clean", "store"]


def test_arguments_are_those_that_any_stage_names() -> None:
    queue = EagerQueue(declared([]))
    for args in ({}, {"day": "mon", "dya": 1}, {"day": "mon", "rows": []}):
        job = queue.wait(queue.submit("shop.orders", args))
        assert job.error is not None
        assert job.error.type == "InvalidArguments"
        assert "shop.orders(*, day: 'str', count: 'int' = 2, currency: 'str' = 'EUR')" in (
            job.error.message
        )


def test_an_attempt_begins_at_the_first_stage_that_is_not_done() -> None:
    ran: list[str] = []
    queue = EagerQueue(declared(ran, lambda: ran.count("clean") < 3))
    job = queue.wait(queue.submit("shop.orders", {"day": "mon"}))
    assert (job.state, job.attempt) == ("done", 3)
    assert ran == ["fetch", "clean", "clean", "clean", "store"]
    queue.retry(job)
    assert ran[5:] == ["fetch", "clean", "store"]


def test_code_with_other_stages_refuses_what_the_job_has_done() -> None:
    ran: list[str] = []
    queue = EagerQueue(declared(ran, lambda: True))
    job = queue.wait(queue.submit("shop.orders", {"day": "mon"}))
    assert job.state == "failed"
    other, orders = a_module()
    orders.stage(name="get")(lambda day: day)
    orders.stage(name="put")(lambda rows: rows)
    queue._memory.library.modules[0].tasks["shop.orders"] = other.tasks["shop.orders"]
    job = queue.retry(job)
    job = queue.wait(job)
    assert job.error is not None
    assert job.error.type == "StagesDiffer"
    assert "has done fetch, and the code has get, put" in job.error.message
    assert job.fails == 0


def test_an_output_that_cannot_be_stored_fails_the_job_with_the_reason() -> None:
    shop = Module("shop")
    odd, large = shop.stages("odd"), shop.stages("large", output_limit=100)
    odd.stage(name="make")(lambda: {1})
    odd.stage(name="use")(lambda it: it)
    large.stage(name="make")(lambda: "x" * 100)
    large.stage(name="use")(lambda it: it)
    queue = EagerQueue(shop)
    first, second = (queue.wait(queue.submit(name)) for name in ("shop.odd", "shop.large"))
    assert first.error is not None
    assert second.error is not None
    assert (first.error.type, second.error.type) == ("UnstorableOutput", "OutputTooLarge")
    assert "stage make" in first.error.message
    assert "keep it elsewhere and return where" in second.error.message


def test_stages_can_be_called_as_they_were_and_all_together_in_tests() -> None:
    _, orders = a_module()

    @orders.stage
    def first(x: int) -> tuple[int, ...]:
        current_job().count("seen")
        return (x, x)

    @orders.stage
    async def second(pair: list[int]) -> int:
        return sum(pair)

    run = run_task(orders, x=3)
    assert (run.result, run.counts) == (6, {"seen": 1})
    assert run_task(first, x=3).result == (3, 3)


async def test_async_stages_run_in_the_loop() -> None:
    shop, orders = a_module()

    @orders.stage
    async def first(x: int) -> int:
        return x

    @orders.stage
    async def second(x: int) -> int:
        return x + 1

    assert shop.tasks["shop.orders"].is_async
    assert (await arun_task(shop.tasks["shop.orders"].function, x=3)).result == 4
    queue = EagerQueue(shop).as_async()
    assert (await queue.wait(await queue.submit("shop.orders", {"x": 3}))).result == 4


def refused(declare: Callable[[Module, Stages], Any]) -> str:
    with pytest.raises(ConfigError) as error:
        declare(*a_module())
    return str(error.value)


def in_order(orders: Stages, *kinds: str) -> None:
    for place, kind in enumerate(kinds):
        getattr(orders, kind)(name=f"n{place}")(lambda x: x)


def test_what_cannot_be_a_stage_is_refused_where_it_is_declared() -> None:
    def twice(_: Module, orders: Stages) -> None:
        for _place in range(2):
            orders.stage(name="same")(lambda x: x)

    def without_input(_: Module, orders: Stages) -> None:
        in_order(orders, "stage")
        orders.stage(name="second")(lambda: None)

    assert "defined twice" in refused(twice)
    assert "gets the output of n0 as its first" in refused(without_input)
    assert "the order is extract, transform, load" in refused(
        lambda _, orders: in_order(orders, "load", "transform")
    )
    assert "32 stages" in refused(lambda _, orders: in_order(orders, *["stage"] * 33))
    assert "defined twice" in refused(lambda shop, _: shop.stages("orders"))
    assert "cannot name a task" in refused(lambda shop, _: shop.stages("or ders"))
    assert "cannot name a stage" in refused(lambda _, one: one.stage(name="a b")(lambda x: x))
    assert "timeout" in refused(lambda _, orders: orders.stage(timeout=0))
    assert "output_limit" in refused(lambda shop, _: shop.stages("x", output_limit=0))
    assert "has no stage" in refused(lambda shop, _: shop.describe())
    assert "only by place" in refused(lambda _, one: one.stage(name="n")(_by_place))
    in_order(a_module()[1], "extract", "stage", "extract", "transform", "stage", "load", "load")


def _by_place(x: int, /) -> int:
    return x


def test_a_module_announces_its_stages() -> None:
    assert declared([]).describe()["stages"] == [
        {"task": "shop.orders", "names": ["fetch", "clean", "store"]}
    ]
    assert "stages" not in Module("plain").describe()


def test_what_a_task_saves_is_there_at_its_next_attempt() -> None:
    shop = Module("shop")
    seen: list[Any] = []

    @shop.task(saves=True, max_attempts=3, backoff=lambda _: 0.0)
    def count() -> None:
        job = current_job()
        seen.append(job.saved)
        job.save({"at": (job.saved or {"at": 0})["at"] + 1})
        if len(seen) < 3:
            raise ValueError

    queue = EagerQueue(shop)
    job = queue.wait(queue.submit("shop.count"))
    assert seen == [None, {"at": 1}, {"at": 2}]
    assert job.saved == {"at": 3}
    assert run_task(count).saved == {"at": 1}


def test_a_task_that_does_not_say_that_it_saves_cannot() -> None:
    shop = Module("shop")

    @shop.task
    def count() -> None:
        current_job().save(1)

    queue = EagerQueue(shop)
    job = queue.wait(queue.submit("shop.count"))
    assert job.error is not None
    assert "saves=True" in job.error.message


@pytest.mark.parametrize("value", [{1}, "x" * 70_000])
def test_what_cannot_be_saved_is_refused_at_the_call(value: Any) -> None:
    with pytest.raises(ConfigError, match=r"save\(\)"):
        run_task(lambda: current_job().save(value))


ODD: list[Any] = [None, 7, "x", {}, [], [None], [{"name": "a"}], [{"name": 1, "state": "done"}]]


@pytest.mark.parametrize("stored", ODD, ids=str)
def test_odd_stages_are_none_and_never_gone_on_from(stored: Any) -> None:
    assert stages_in(stored) == ()
    assert (misfit(stored, ["a", "b"]) is None) == (stored in (None, []))


def test_names_are_compared_as_a_prefix() -> None:
    done = [{"name": "a", "state": "done", "attempt": -1, "ms": "x"}]
    assert stages_in([*done, 7]) == (StageDone("a"),)
    assert misfit(done, ["a", "b"]) is None
    assert misfit(done, ["b", "a"]) == "the job has done a, and the code has b, a"
    assert misfit(done, ["a"]) == "the job has done a, and the code has a"
    assert [saved_in(one) for one in (None, 7, {}, {"value": 3})] == [None, None, None, 3]
    assert Staged("x", (), 1).names == []
