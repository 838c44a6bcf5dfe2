"""An eager queue decides as a node would, without MongoDB."""

from __future__ import annotations

import asyncio
import threading
from datetime import UTC, datetime, timedelta
from decimal import Decimal
from typing import Any

import pytest
from bson import ObjectId
from tenacity import wait_fixed

from tontine import Client, Job, Module, Reject, Retry, current_job
from tontine.errors import (
    ConfigError,
    JobNotFinished,
    TontineError,
    TooLarge,
    UnknownJob,
    Unstorable,
)
from tontine.testing import AsyncEagerQueue, EagerQueue

NOON = datetime(2030, 1, 1, 12, tzinfo=UTC)

shop = Module("shop")


@shop.task
def resize(image: str, width: int = 800) -> dict[str, Any]:
    current_job().progress(0.5, "resizing")
    return {"image": image, "width": width}


@shop.task
async def mail(to: str) -> str:
    await asyncio.sleep(0)
    return f"to {to}, at attempt {current_job().attempt}"


@shop.task
def echo(value: Any = None) -> Any:
    return value


@shop.task(max_attempts=3, backoff=wait_fixed(60))
def flaky(until: int) -> str:
    if current_job().attempt < until:
        raise ConnectionError(f"attempt {current_job().attempt}")
    return "at last"


@shop.task(max_attempts=9)
def picky(amount: int) -> int:
    if amount < 0:
        raise Reject("below zero")
    if current_job().attempt == 1:
        raise Retry("closed", in_=30)
    return amount


@shop.task
def spoil(many: list[int]) -> list[int]:
    many.append(1)
    raise ValueError(len(many))


@shop.task
def odd() -> Any:
    return {1, 2}


@shop.task
def leave() -> None:
    raise SystemExit(3)


@pytest.fixture
def queue() -> EagerQueue:
    return EagerQueue(shop, now=NOON)


def test_a_job_is_returned_as_it_was_submitted_and_has_ended(queue: EagerQueue) -> None:
    job = queue.submit("shop.resize", {"image": "a.png"})
    assert (job.seq, job.state, job.result, job.created_at) == (1, "queued", None, NOON)
    ended = queue.wait(job, timeout=1)
    assert (ended.state, ended.attempt, ended.result) == (
        "done",
        1,
        {"image": "a.png", "width": 800},
    )
    assert ended.progress is not None
    assert (ended.progress.value, ended.progress.note) == (0.5, "resizing")
    assert (ended.started_at, ended.finished_at) == (NOON, NOON)


def test_it_takes_the_place_of_a_client(queue: EagerQueue) -> None:
    def place_order(client: Client) -> Job:
        with client:
            return client.submit("shop.mail", {"to": "ada"})

    assert queue.get(place_order(queue)).result == "to ada, at attempt 1"


def test_what_it_cannot_do_without_mongodb_it_says(queue: EagerQueue) -> None:
    with pytest.raises(ConfigError, match="tontine_queue"):
        queue._store.run(iter_nothing())
    with pytest.raises(ConfigError, match="tontine_queue"):
        _ = queue._store.database


def test_an_application_may_make_it_ready_and_ring(queue: EagerQueue) -> None:
    queue.prepare()
    queue.ring()


def iter_nothing() -> Any:
    yield


def test_values_come_back_as_from_mongodb(queue: EagerQueue) -> None:
    moment = datetime(2030, 1, 1, 1, 1, 1, 123456, tzinfo=UTC)
    job = queue.submit(
        "shop.echo", {"value": {"pair": (1, 2), "at": moment, "id": (one := ObjectId())}}
    )
    expected = {"pair": [1, 2], "at": moment.replace(microsecond=123000), "id": one}
    assert queue.wait(job).result == expected
    assert queue.submitted()[0].args == {"value": expected}


@pytest.mark.parametrize("value", [Decimal("1.5"), {1, 2}, object(), 2**64])
def test_what_mongodb_cannot_store_is_refused_as_by_a_client(queue: EagerQueue, value: Any) -> None:
    with pytest.raises(Unstorable):
        queue.submit("shop.echo", {"value": value})
    assert queue.submitted() == []


def test_what_a_client_refuses_is_refused(queue: EagerQueue) -> None:
    with pytest.raises(TooLarge):
        queue.submit("shop.echo", {"value": "x" * 16_000_000})
    with pytest.raises(ConfigError, match="not both"):
        queue.submit("shop.echo", delay=1, run_at=NOON)
    with pytest.raises(ConfigError, match="max_attempts"):
        queue.submit("shop.echo", max_attempts=0)


def test_a_result_that_cannot_be_stored_fails_the_job(queue: EagerQueue) -> None:
    job = queue.wait(queue.submit("shop.odd"))
    assert (job.state, job.fails) == ("failed", 0)
    assert job.error is not None
    assert job.error.type == "UnstorableResult"


def test_an_unknown_task_and_odd_arguments_are_refused_as_by_a_worker(queue: EagerQueue) -> None:
    unknown = queue.wait(queue.submit("shop.rezise"))
    assert unknown.error is not None
    assert (unknown.state, unknown.error.type) == ("failed", "UnknownTask")
    other = queue.wait(queue.submit("shop.echo", version=">=9"))
    assert other.error is not None
    assert "'shop.echo' in a version inside >=9" in other.error.message
    odd = queue.wait(queue.submit("shop.resize", {"picture": "a.png"}))
    assert odd.error is not None
    assert (odd.state, odd.fails, odd.error.type) == ("failed", 0, "InvalidArguments")
    assert "arguments do not fit shop.resize(" in odd.error.message


def test_a_task_that_raises_is_tried_again_when_it_is_due(queue: EagerQueue) -> None:
    job = queue.get(queue.submit("shop.flaky", {"until": 3}))
    assert (job.state, job.fails, job.run_at) == ("queued", 1, NOON + timedelta(minutes=1))
    assert queue.advance("59s") == []
    (again,) = queue.advance("1s")
    assert (again.fails, again.attempt, [error.message for error in again.errors]) == (
        2,
        2,
        ["attempt 1"],
    )
    (ended,) = queue.advance("10m")
    assert (ended.state, ended.result, ended.fails, len(ended.errors)) == ("done", "at last", 2, 2)
    assert ended.finished_at == NOON + timedelta(minutes=2)
    assert queue.now == NOON + timedelta(minutes=11)


def test_waiting_moves_the_clock_as_far_as_it_may(queue: EagerQueue) -> None:
    job = queue.submit("shop.flaky", {"until": 3})
    with pytest.raises(
        JobNotFinished, match=r"job 1 \(shop.flaky\) is queued until 2030-01-01 12:02:00 UTC"
    ):
        queue.wait(job, timeout=90)
    assert queue.wait(job).result == "at last"


def test_the_last_failed_attempt_fails_the_job(queue: EagerQueue) -> None:
    job = queue.wait(queue.submit("shop.flaky", {"until": 9}))
    assert (job.state, job.fails, len(job.errors)) == ("failed", 3, 2)
    once = queue.wait(queue.submit("shop.flaky", {"until": 9}, max_attempts=1))
    assert (once.state, once.fails) == ("failed", 1)
    assert once.error is not None
    assert "ConnectionError: attempt 1" in once.error.traceback


def test_retry_and_reject_mean_what_they_mean_to_a_node(queue: EagerQueue) -> None:
    assert queue.wait(queue.submit("shop.picky", {"amount": -1})).attempt == 1
    job = queue.get(queue.submit("shop.picky", {"amount": 5}))
    assert job.run_at == NOON + timedelta(seconds=30)
    assert queue.wait(job).result == 5


def test_each_attempt_gets_the_arguments_that_were_submitted(queue: EagerQueue) -> None:
    job = queue.wait(queue.submit("shop.spoil", {"many": []}, max_attempts=3))
    assert [error.message for error in (*job.errors, job.error) if error] == ["1", "1", "1"]


def test_leaving_fails_the_job_and_not_the_test(queue: EagerQueue) -> None:
    job = queue.wait(queue.submit("shop.leave"))
    assert job.error is not None
    assert (job.state, job.error.type) == ("failed", "SystemExit")


def test_what_ends_a_test_is_not_taken_for_the_job() -> None:
    module = Module("outer")

    @module.task
    def check() -> None:
        pytest.fail("seen in a task")

    with pytest.raises(pytest.fail.Exception, match="seen in a task"):
        EagerQueue(module).submit("outer.check")


def test_a_delayed_job_runs_at_its_time_and_in_its_turn(queue: EagerQueue) -> None:
    later = queue.submit("shop.echo", {"value": "later"}, delay="2h")
    sooner = queue.submit("shop.echo", {"value": "sooner"}, run_at=NOON + timedelta(hours=1))
    assert queue.run() == []
    assert [job.result for job in queue.advance("1d")] == ["sooner", "later"]
    assert queue.get(later).started_at == NOON + timedelta(hours=2)
    assert queue.get(sooner).started_at == NOON + timedelta(hours=1)


def test_jobs_wait_for_run_if_they_shall_and_the_higher_comes_first() -> None:
    queue = EagerQueue(shop, at_once=False)
    queue.submit("shop.echo", {"value": "low"})
    queue.submit("shop.echo", {"value": "high"}, priority=5)
    assert [job.state for job in queue.submitted()] == ["queued", "queued"]
    assert [job.result for job in queue.run()] == ["high", "low"]


def test_a_key_names_one_unfinished_job(queue: EagerQueue) -> None:
    first = queue.submit("shop.echo", key="welcome", delay=60)
    second = queue.submit("shop.echo", key="welcome")
    assert (second.seq, second.existed) == (first.seq, True)
    assert queue.get(key="welcome").seq == first.seq
    queue.advance(60)
    assert queue.get(key="welcome").state == "done"
    third = queue.submit("shop.echo", key="welcome", delay=60)
    assert not third.existed
    assert queue.cancel(key="welcome").seq == third.seq
    third = queue.submit("shop.echo", key="welcome", delay=60)
    with pytest.raises(ConfigError, match="its key 'welcome'"):
        queue.retry(first)


def test_cancelling_and_running_again(queue: EagerQueue) -> None:
    job = queue.submit("shop.flaky", {"until": 2}, max_attempts=1, delay=60)
    assert queue.cancel(job).state == "cancelled"
    assert queue.advance(3600) == []
    assert queue.get(queue.retry(job)).state == "failed"
    assert queue.wait(queue.retry(job)).result == "at last"
    assert queue.cancel(job).state == "done"


def test_a_task_sees_that_it_is_cancelled() -> None:
    module, queues = Module("self"), list[EagerQueue]()

    @module.task
    def stop() -> str:
        queues[0].cancel(current_job().seq)
        return "ended" if current_job().cancelled else "went on"

    queues.append(EagerQueue(module))
    job = queues[0].wait(queues[0].submit("self.stop"))
    assert (job.state, job.result, job.cancel) == ("cancelled", None, True)


def test_what_a_task_submits_runs_after_it() -> None:
    module, queues, order = Module("tree"), list[EagerQueue](), list[str]()

    @module.task
    def parent(deep: int) -> None:
        if deep:
            queues[0].submit("tree.parent", {"deep": deep - 1})
        order.append(f"end of {deep}")

    queues.append(EagerQueue(module))
    queues[0].submit("tree.parent", {"deep": 2000})
    assert (len(order), order[0]) == (2001, "end of 2000")


def test_a_task_can_wait_for_another_but_not_for_itself() -> None:
    module, queues = Module("tree"), list[EagerQueue]()

    @module.task
    def parent() -> Any:
        return queues[0].wait(queues[0].submit("tree.child")).result

    @module.task
    def child() -> str:
        return "the child's"

    @module.task
    def itself() -> None:
        queues[0].wait(queues[0].get(current_job().seq))

    queues.append(EagerQueue(module))
    assert queues[0].wait(queues[0].submit("tree.parent")).result == "the child's"
    job = queues[0].wait(queues[0].submit("tree.itself"))
    assert job.error is not None
    assert job.error.type == "JobNotFinished"


def test_a_task_that_submits_itself_for_ever_is_told() -> None:
    module, queues = Module("loop"), list[EagerQueue]()

    @module.task
    def again() -> None:
        queues[0].submit("loop.again")

    queues.append(EagerQueue(module))
    with pytest.raises(TontineError, match=r"does one of loop\.again submit itself"):
        queues[0].submit("loop.again")


def test_what_was_submitted_is_known_by_task(queue: EagerQueue) -> None:
    seen: list[int] = []
    batch = queue.submit_many("shop.mail", [{"to": "ada"}, {"to": "bob"}], progress=seen.append)
    queue.submit("shop.echo")
    assert [job.args["to"] for job in queue.submitted("shop.mail")] == ["ada", "bob"]
    assert [job.task for job in queue.submitted()] == ["shop.mail", "shop.mail", "shop.echo"]
    assert [job.result for job in queue.wait(batch)] == [
        "to ada, at attempt 1",
        "to bob, at attempt 1",
    ]
    assert seen == [2]


def test_without_modules_it_only_remembers() -> None:
    queue = EagerQueue()
    job = queue.submit("mails.send", {"to": "ada"})
    assert [one.args for one in queue.submitted("mails.send")] == [{"to": "ada"}]
    assert queue.advance("1d") == []
    with pytest.raises(JobNotFinished, match="made without modules"):
        queue.wait(job, timeout=60)


@pytest.mark.usefixtures("own_tasks")
def test_modules_can_be_named_as_for_a_node() -> None:
    queue = EagerQueue("examples/hello/tasks.py")
    assert (
        queue.wait(queue.submit("hello.greet", {"name": "Ada"})).result
        == "Hello, Ada! This is job 1."
    )


def test_a_schedule_fires_as_the_clock_moves(queue: EagerQueue) -> None:
    queue.schedule("tidy", "shop.echo", {"value": 1}, every="10m")
    jobs = queue.advance("30m")
    assert [job.finished_at for job in jobs] == [
        NOON + timedelta(minutes=minutes) for minutes in (10, 20, 30)
    ]
    assert jobs[0].id == "tidy@2030-01-01T12:10:00+00:00"
    queue.schedule("night", "shop.echo", cron="0 3 * * *", timezone="Europe/Paris")
    assert queue.unschedule("tidy")
    assert not queue.unschedule("tidy")
    assert [job.started_at for job in queue.advance("2d")] == [
        datetime(2030, 1, day, 2, tzinfo=UTC) for day in (2, 3)
    ]
    with pytest.raises(ConfigError, match="either a cron expression or an interval"):
        queue.schedule("never", "shop.echo")


def test_there_is_no_such_job(queue: EagerQueue) -> None:
    for which in (7, "7", "seven", ObjectId()):
        with pytest.raises(UnknownJob, match=str(which)):
            queue.get(which)
    with pytest.raises(UnknownJob, match="has the key 'seven'"):
        queue.get(key="seven")


def test_a_job_is_known_by_its_record_its_number_and_its_id(queue: EagerQueue) -> None:
    job = queue.submit("shop.echo")
    for which in (job, job.seq, str(job.seq), job.id):
        assert queue.get(which).id == job.id


def test_an_option_that_no_client_has_is_refused(queue: EagerQueue) -> None:
    with pytest.raises(TypeError, match="dely"):
        queue.submit("shop.echo", dely=5)
    with pytest.raises(ConfigError, match="transaction"):
        queue.submit("shop.echo", session=object())


def test_the_clock_does_not_go_back(queue: EagerQueue) -> None:
    with pytest.raises(ConfigError, match="not back by 5 s"):
        queue.advance(-5)


async def test_a_sync_queue_works_where_a_loop_runs(queue: EagerQueue) -> None:
    assert queue.wait(queue.submit("shop.mail", {"to": "ada"})).result == "to ada, at attempt 1"
    assert queue.wait(queue.submit("shop.echo", {"value": 1})).result == 1


async def test_the_async_queue_is_the_same_in_the_callers_loop(queue: EagerQueue) -> None:
    module, loops, threads = Module("own"), list[Any](), list[int]()

    @module.task
    async def where() -> None:
        loops.append(asyncio.get_running_loop())

    @module.task
    def beside() -> None:
        threads.append(threading.get_ident())
        asyncio.run(asyncio.sleep(0))

    @module.task
    async def ends() -> None:
        raise asyncio.CancelledError

    async with AsyncEagerQueue(module, shop, now=NOON) as own:
        await own.wait(await own.submit("own.where"))
        assert loops == [asyncio.get_running_loop()]
        assert (await own.wait(await own.submit("own.beside"))).state == "done"
        assert threads != [threading.get_ident()]
        assert (await own.wait(await own.submit("own.ends"))).state == "failed"
        assert (await own.wait(await own.submit("shop.leave"))).state == "failed"
        batch = await own.submit_many("shop.flaky", [{"until": 2}] * 2)
        assert [job.state for job in await own.advance("1m")] == ["done", "done"]
        assert [job.fails for job in await own.wait(batch)] == [1, 1]
        job = await own.submit("shop.echo", delay=60)
        assert (await own.cancel(job)).state == "cancelled"
        assert (await own.get(await own.retry(job))).state == "done"
        assert len(own.submitted("shop.flaky")) == 2
        assert await own.run() == []
        await own.schedule("tidy", "shop.echo", every=60)
        assert len(await own.advance("2m")) == 2
        assert await own.unschedule("tidy")
        await own.prepare()
        await own.ring()
        with pytest.raises(ConfigError, match="tontine_queue"):
            await own._run(iter_nothing())

    shared = queue.as_async()
    await shared.submit("shop.echo", {"value": 5})
    assert [job.result for job in queue.submitted("shop.echo")] == [5]


async def test_coroutines_may_submit_and_wait_at_once() -> None:
    own = AsyncEagerQueue(shop)

    async def one(name: str) -> Any:
        return (await own.wait(await own.submit("shop.mail", {"to": name}), timeout=5)).result

    assert await asyncio.gather(*map(one, "abc")) == [f"to {name}, at attempt 1" for name in "abc"]


async def test_a_test_that_is_cancelled_ends() -> None:
    module = Module("slow")

    @module.task
    async def sleep() -> None:
        await asyncio.sleep(3600)

    own = AsyncEagerQueue(module)
    running = asyncio.create_task(own.submit("slow.sleep"))
    await asyncio.sleep(0.01)
    running.cancel()
    with pytest.raises(asyncio.CancelledError):
        await running


def test_what_a_task_submits_through_its_job_runs_after_it_and_once() -> None:
    module = Module("tree")

    @module.task(max_attempts=2, backoff=wait_fixed(1))
    def parent() -> list[int]:
        jobs = [current_job().submit("tree.child", {"n": n}) for n in (1, 2)]
        if current_job().attempt == 1:
            raise ConnectionError
        return [job.seq for job in jobs if job.existed]

    @module.task(max_attempts=2, backoff=wait_fixed(1))
    async def aparent() -> int:
        job = await current_job().submit_async("tree.child", {"n": 3}, name="third")
        return job.seq

    @module.task
    def child(n: int) -> int:
        return n

    queue = EagerQueue(module)
    job = queue.submit("tree.parent")
    assert [(one.id, one.parent, one.result) for one in queue.submitted("tree.child")] == [
        ("1/1", 1, 1),
        ("1/2", 1, 2),
    ]
    assert queue.wait(job).result == [2, 3]
    assert len(queue.submitted("tree.child")) == 2
    assert queue.wait(queue.submit("tree.aparent")).result == 5
    assert queue.get("4/third").result == 3


def test_a_child_that_differs_in_a_second_run_is_refused() -> None:
    module = Module("tree")

    @module.task(max_attempts=2, backoff=wait_fixed(1))
    def parent() -> None:
        current_job().submit("tree.child", {"n": current_job().attempt})
        raise ConnectionError

    queue = EagerQueue(module)
    job = queue.wait(queue.submit("tree.parent"))
    assert job.error is not None
    assert job.error.type == "ChildDiffers"


def test_a_task_sees_what_its_job_has(queue: EagerQueue) -> None:
    module = Module("own")

    @module.task(max_attempts=2, backoff=wait_fixed(1), give_up_on=KeyError)
    def look() -> Any:
        job = current_job()
        if not job.is_last_attempt:
            raise ValueError
        return [job.meta, job.key, job.max_attempts, job.created_at]

    @module.task(max_attempts=9, give_up_on=KeyError)
    def give_up() -> None:
        raise KeyError

    own = EagerQueue(module, now=NOON)
    job = own.wait(own.submit("own.look", key="k", meta={"tenant": 7}), raises=True)
    assert job.result == [{"tenant": 7}, "k", 2, NOON]
    assert job.meta == {"tenant": 7}
    with pytest.raises(TontineError, match="KeyError"):
        own.wait(own.submit("own.give_up"), raises=True)


def test_a_job_that_is_not_started_in_time_is_cancelled() -> None:
    queue = EagerQueue(shop, at_once=False, now=NOON)
    late, soon = queue.submit("shop.echo", max_age="1m"), queue.submit("shop.echo", max_age="1m")
    queue._memory.now += timedelta(minutes=2)
    job = queue.wait(late)
    assert (job.state, job.attempt) == ("cancelled", 0)
    assert job.error is not None
    assert "it was not started by 2030-01-01T12:01:00" in job.error.message
    assert queue.wait(queue.retry(soon)).state == "done"


def test_a_key_can_outlast_its_job(queue: EagerQueue) -> None:
    first = queue.submit("shop.echo", key="once", unique_for="1h")
    again = queue.submit("shop.echo", key="once", unique_for="1h")
    assert (again.seq, again.existed) == (first.seq, True)
    assert not queue.submit("shop.echo", key="once").existed
    queue.advance("2h")
    assert not queue.submit("shop.echo", key="once", unique_for="1h").existed


def test_declared_schedules_fire_and_do_not_overlap() -> None:
    module = Module("tidy")

    @module.schedule(every="10m", overlap="skip")
    @module.task(max_attempts=3, backoff=wait_fixed(900))
    def sweep() -> None:
        if current_job().attempt == 1:
            raise ConnectionError

    queue = EagerQueue(module, now=NOON, schedules=True)
    queue.advance("30m")
    assert [job.state for job in queue.submitted("tidy.sweep")] == ["done", "queued"]
    assert [one.name for one in queue.schedules()] == ["tidy.sweep"]


async def test_declared_schedules_fire_only_where_they_are_asked_for() -> None:
    module = Module("tidy")

    @module.schedule(every="5s")
    @module.task
    def sweep() -> None: ...

    queue = EagerQueue(module)
    assert (queue.advance("1d"), queue.schedules()) == ([], [])
    assert await AsyncEagerQueue(module).advance("1d") == []
    assert len(await AsyncEagerQueue(module, schedules=True).advance("1m")) == 12


def test_jobs_are_found_by_what_is_known_of_them(queue: EagerQueue) -> None:
    queue.submit_many("shop.echo", [{"value": n} for n in range(3)])
    queue.submit("shop.leave", key="k")
    assert [job.seq for job in queue.find(task="shop.*")] == [4, 3, 2, 1]
    assert [job.seq for job in queue.find(state="done", limit=2)] == [3, 2]
    assert [job.key for job in queue.find(error="SystemExit", since="1h")] == ["k"]
    assert (queue.count(), queue.count(state="done"), queue.count(limit=1)) == (4, 3, 2)
    with pytest.raises(ConfigError, match="did you mean 'state'"):
        queue.count(stat="done")  # type: ignore[call-arg]
    with pytest.raises(ConfigError, match="limit"):
        queue.find(limit=-1)


async def test_jobs_are_found_by_async_code_too(queue: EagerQueue) -> None:
    own = queue.as_async()
    await own.submit("shop.echo")
    assert [job.seq async for job in own.find(state="done")] == [1]
    assert await own.count(task="shop.resize") == 0
    assert await own.schedules() == []


def test_a_job_is_meant_as_a_client_means_it(queue: EagerQueue) -> None:
    queue.submit("shop.echo", key="k")
    again = queue.submit("shop.echo", key="k")
    for meant in (again, 2, "2", again.id, str(again.id)):
        assert queue.get(meant).seq == 2
    assert queue.get(key="k").seq == 2
    with pytest.raises(ConfigError, match="say which job"):
        queue.get()
    with pytest.raises(ConfigError, match="say which job"):
        queue.get(1, key="k")
    for unknown, said in (
        (7, "there is no job 7"),
        ("abc", "no job has the number or _id 'abc'"),
        (True, "_id True"),
    ):
        with pytest.raises(UnknownJob, match=said):
            queue.get(unknown)


def test_schedules_are_told_with_their_last_jobs() -> None:
    module = Module("tidy")

    @module.schedule(every="10m", overlap="skip")
    @module.task(max_attempts=3, backoff=wait_fixed(900))
    def sweep() -> None:
        if current_job().attempt == 1:
            raise ConnectionError

    queue = EagerQueue(module, now=NOON, schedules=True)
    queue.schedule("again", "tidy.sweep", every="1h", max_age="5m")
    again, declared = queue.schedules()
    assert (again.name, again.last, declared.name) == ("again", None, "tidy.sweep")
    assert declared.schedule is not None
    assert declared.schedule.declared is not None
    assert declared.schedule.declared.module == "tidy"
    queue.advance("20m")
    _, declared = queue.schedules()
    assert declared.schedule is not None
    assert declared.last is not None
    assert (declared.last.seq, declared.last.state, declared.schedule.skipped) == (1, "queued", 1)
    queue.schedule("tidy.sweep", "tidy.sweep", every="1h")
    assert queue.schedules()[1].last == declared.last, (
        "who replaces a schedule leaves what became of it"
    )


def test_what_it_does_not_keep_it_refuses(queue: EagerQueue) -> None:
    job = queue.submit("shop.echo")
    for call in (
        lambda: queue.logs(job),
        lambda: queue.purge(all=True),
        lambda: queue.cancel_many(all=True),
    ):
        with pytest.raises(ConfigError, match="tontine_queue"):
            call()
    assert [one.state for one in queue.follow(job)] == ["done"]
