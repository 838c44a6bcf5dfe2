"""Plans on a real store: what is released when, with which arguments, and how it ends."""

from __future__ import annotations

from collections.abc import Generator, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest

from tests.support.planned import Broken, Crew, done_item
from tontine.errors import ConfigError
from tontine.filter import Filter
from tontine.records.plan import JobFact, PlanPlace
from tontine.records.states import JobState
from tontine.rules.plan_questions import UnendedItem
from tontine.store import control as jobs_control
from tontine.store import counter, insert, many, number, retention
from tontine.store.call import AsyncStore, Call, Causal, Store, find
from tontine.store.insert import Wish
from tontine.store.plans import accept, control, read, release
from tontine.store.plans.advance import Advancer
from tontine.store.plans.facts import Asked, PlanMemory
from tontine.store.plans.licence import licences_of
from tontine.store.plans.status import read_status
from tontine.store.plans.values import read_page
from tontine.store.retention import FOR_EVER, Retention
from tontine.streamed import BYTES_AT_ONCE


def fails(**_: Any) -> None:
    raise Broken("it broke")


def echo(**args: Any) -> dict[str, Any]:
    return args


@pytest.fixture
def crew(store: Store) -> Crew:
    return Crew(
        store,
        {
            "echo": echo,
            "fails": fails,
            "urls": lambda: {"urls": ["a", "b", "c"], "title": "Summer"},
            "upper": lambda text: text.upper(),
            "join": lambda parts: "".join(part or "-" for part in parts),
            "sum": sum,
            "none": lambda **_: None,
            "empty": list,
            "odd": lambda text: fails() if text == "b" else text,
        },
    )


def test_a_chain_hands_results_on(crew: Crew) -> None:
    plan = crew.insert(
        {
            "steps": {
                "get": {"task": "t.echo", "args": {"n": 1}},
                "put": {"task": "t.echo", "args": {"m": 2}, "take": {"got": "get", "n": "get.n"}},
            }
        }
    )
    crew.run()
    assert crew.state(plan) == "done"
    assert crew.results(plan)["put"] == {"m": 2, "got": {"n": 1}, "n": 1}
    assert [name.rsplit("/")[-1] for name, _ in crew.ran] == ["get", "put"]


def test_a_diamond_waits_for_both_sides(crew: Crew) -> None:
    plan = crew.insert(
        {
            "steps": {
                "top": {"task": "t.echo"},
                "left": {"task": "t.echo", "args": {"x": 1}, "after": ["top"]},
                "right": {"task": "t.echo", "args": {"x": 2}, "after": ["top"]},
                "end": {"task": "t.echo", "take": {"both": ["left.x", "right.x"]}},
            }
        }
    )
    crew.run()
    assert crew.results(plan)["end"] == {"both": [1, 2]}
    assert len(crew.ran) == 4


def test_a_map_over_a_result_and_a_map_over_that_come_together_again(crew: Crew) -> None:
    plan = crew.insert(
        {
            "steps": {
                "open": {"task": "t.urls"},
                "up": {"task": "t.upper", "map": "open.urls", "as": "text"},
                "again": {"task": "t.upper", "map": "up", "as": "text"},
                "join": {"task": "t.join", "take": {"parts": "again"}},
            }
        }
    )
    crew.run()
    assert crew.state(plan) == "done"
    assert crew.results(plan)["join"] == "ABC"
    assert crew.plan(plan).widths == {"up": 3, "again": 3}


def test_items_that_may_fail_count_as_null(crew: Crew) -> None:
    plan = crew.insert(
        {
            "steps": {
                "up": {"task": "t.odd", "map": ["a", "b", "c"], "as": "text", "may_fail": True},
                "join": {"task": "t.join", "take": {"parts": "up"}},
            }
        }
    )
    crew.run()
    assert crew.results(plan)["join"] == "a-c"


def test_a_map_over_nothing_has_ended(crew: Crew) -> None:
    plan = crew.insert(
        {
            "steps": {
                "list": {"task": "t.empty"},
                "up": {"task": "t.upper", "map": "list", "as": "text"},
                "join": {"task": "t.join", "take": {"parts": "up"}},
            }
        }
    )
    crew.run()
    assert crew.results(plan)["join"] == ""


def test_chunks_are_lists_and_at_once_limits_what_is_released(crew: Crew) -> None:
    plan = crew.insert(
        {
            "steps": {
                "add": {
                    "task": "t.join",
                    "map": list("abcdefg"),
                    "as": "parts",
                    "chunk": 2,
                    "at_once": 2,
                }
            }
        }
    )
    crew.accept()
    assert len(crew.jobs(plan)) == 2
    crew.run()
    assert [job["result"] for job in crew.jobs(plan).values()] == ["ab", "cd", "ef", "g"]
    assert crew.state(plan) == "done"


def test_a_failure_stops_the_plan_and_a_retry_runs_only_what_did_not_succeed(crew: Crew) -> None:
    plan = crew.insert(
        {
            "steps": {
                "a": {"task": "t.echo"},
                "b": {"task": "t.flaky", "after": ["a"]},
                "c": {"task": "t.echo", "after": ["b"]},
            }
        }
    )
    crew.tasks["t.flaky"] = fails
    crew.run()
    found = crew.plan(plan)
    assert found.state == "failed"
    assert found.error is not None
    assert (found.error.step, found.error.type, found.error.message) == ("b", "Broken", "it broke")
    assert found.seq is not None
    crew.tasks["t.flaky"] = echo
    crew.store.run(control.retry(found.seq))
    crew.run()
    assert crew.state(plan) == "done"
    assert [name.rsplit("/")[-1] for name, _ in crew.ran] == ["a", "b", "b", "c"]
    with pytest.raises(ConfigError, match="is done: there is nothing to run again"):
        crew.store.run(control.retry(found.seq))


def test_who_sees_a_retry_first_releases_what_was_ready_before_it(crew: Crew) -> None:
    """Its step ended well while the plan was stopping, and nothing of it is run again: whoever
    goes on with the plan sees it, though nobody heard of the retry."""
    plan = crew.insert(
        {
            "steps": {
                "a": {"task": "t.flaky"},
                "b": {"task": "t.echo"},
                "c": {"task": "t.echo", "after": ["b"]},
            }
        }
    )
    crew.tasks["t.flaky"] = fails
    crew.accept()
    for job in crew.claim():
        crew.work(job)
    assert crew.state(plan) == "failed"
    assert len(crew.jobs(plan)) == 2
    crew.tasks["t.flaky"] = echo
    crew.store.run(control.retry(crew.plan(plan).seq or 0))
    crew.run()
    assert crew.state(plan) == "done"


def test_three_of_many_items_are_run_again_and_no_others(crew: Crew) -> None:
    broken = {3, 20, 39}
    crew.tasks["t.some"] = lambda n: fails() if n in broken else n
    plan = crew.insert({"steps": {"all": {"task": "t.some", "map": list(range(40)), "as": "n"}}})
    crew.run()
    assert crew.state(plan) == "failed"
    done = {job["args"]["n"] for job in crew.jobs(plan).values() if job["state"] == "done"}
    crew.ran.clear()
    broken.clear()
    crew.store.run(control.retry(crew.plan(plan).seq or 0))
    crew.run()
    assert crew.state(plan) == "done"
    assert {args["n"] for _, args in crew.ran} == set(range(40)) - done


SAGA = {
    "a": {"task": "t.echo", "undo": {"task": "t.echo", "take": {"what": "a"}}},
    "b": {"task": "t.echo", "args": {"n": 7}, "after": ["a"]},
    "c": {"task": "t.last", "take": {"n": "b.n"}},
}
SAGA["b"]["undo"] = {"task": "t.echo", "args": {"x": 1}, "take": {"n": "b.n"}}


def test_a_saga_undoes_what_was_done_in_reverse_order(crew: Crew) -> None:
    plan = crew.insert({"steps": SAGA, "finally": {"task": "t.echo"}})
    crew.tasks["t.last"] = fails
    crew.run()
    assert crew.state(plan) == "undone"
    names = [name.split("/", 2)[2] for name, _ in crew.ran]
    assert names == ["a", "b", "c", "b~", "a~", "~finally/0"]
    assert crew.results(plan)["b~"] == {"x": 1, "n": 7}


def test_an_undo_that_fails_leaves_it_stuck_until_a_retry(crew: Crew) -> None:
    steps = {**SAGA, "b": {**SAGA["b"], "undo": {"task": "t.flaky"}}}
    crew.tasks |= {"t.last": fails, "t.flaky": fails}
    plan = crew.insert({"steps": steps})
    crew.run()
    assert crew.state(plan) == "stuck"
    assert "a~" not in crew.jobs(plan)
    crew.tasks["t.flaky"] = echo
    crew.store.run(control.retry(crew.plan(plan).seq or 0))
    crew.run()
    assert crew.state(plan) == "undone"


def test_items_that_were_done_are_undone_one_by_one(crew: Crew) -> None:
    step = {"task": "t.odd", "map": ["a", "b", "c"], "as": "text"}
    undo = {"task": "t.echo", "take": {"text": "up"}}
    plan = crew.insert({"steps": {"up": {**step, "undo": undo}}})
    crew.accept()
    for job in crew.claim():
        crew.work(job)
    crew.run()
    assert crew.state(plan) == "undone"
    undone = {n: job["result"] for n, job in crew.jobs(plan).items() if n.startswith("up~")}
    assert undone == {"up~/00000000": {"text": "a"}, "up~/00000002": {"text": "c"}}


@pytest.mark.parametrize("undo", [True, False])
def test_a_cancelled_plan_starts_nothing_more(crew: Crew, undo: bool) -> None:
    plan = crew.insert({"steps": SAGA})
    crew.accept()
    for job in crew.claim():
        crew.work(job)
    (held,) = crew.claim()
    seq = crew.plan(plan).seq or 0
    found, is_mine = crew.store.run(control.cancel(seq, undo=undo))
    assert (found.state, is_mine) == ("stopping", True)
    crew.look(seq)
    assert crew.jobs(plan)["b"]["cancel"]
    crew.work(held)
    crew.run()
    assert crew.state(plan) == ("undone" if undo else "cancelled")
    assert "c" not in crew.jobs(plan)
    again, is_mine = crew.store.run(control.cancel(seq))
    assert not is_mine
    assert again.state == crew.state(plan)


def test_a_job_that_was_released_before_a_stop_gets_no_licence(crew: Crew) -> None:
    plan = crew.insert({"steps": {"a": {"task": "t.echo"}}})
    crew.accept()
    crew.store.run(control.cancel(crew.plan(plan).seq or 0))
    assert not crew.claim()
    job = crew.jobs(plan)["a"]
    assert (job["state"], job["stopped"], job["refused"]) == ("cancelled", True, 1)
    assert crew.state(plan) == "cancelled"


def test_a_plan_can_be_cancelled_before_it_is_accepted(crew: Crew) -> None:
    found, existed = crew.store.run(control.submit({"steps": {"a": {"task": "t.echo"}}}))
    assert not existed
    crew.store.run(control.cancel(found.seq or 0))
    assert crew.state(found.id) == "cancelled"
    assert not crew.accept()


def test_a_key_belongs_to_one_unfinished_plan(crew: Crew) -> None:
    document = {"steps": {"a": {"task": "t.echo"}}, "key": "album-7"}
    first, _ = crew.store.run(control.submit(document))
    again, existed = crew.store.run(control.submit(document))
    assert existed
    assert again.id == first.id
    crew.accept()
    other = crew.insert(document)
    crew.accept()
    error = crew.plan(other).error
    assert error is not None
    assert "an unfinished plan has its key 'album-7' already" in error.message


def test_a_retry_takes_no_key_from_a_plan_that_waits_to_be_accepted(crew: Crew) -> None:
    document = {"steps": {"a": {"task": "t.fails"}}, "key": "album-7"}
    first = crew.insert(document)
    crew.run()
    other = crew.insert(document)
    with pytest.raises(ConfigError, match="an unfinished plan has its key 'album-7' by now"):
        crew.store.run(control.retry(crew.plan(first).seq or 0))
    assert len(crew.accept()) == 1
    assert crew.state(other) == "running"


def test_a_document_without_room_for_why_it_is_refused_fails_all_the_same(crew: Crew) -> None:
    document = {"_id": 1, "steps": {"a": {"task": "t.echo"}}, "note": ""}
    room = 16 * 1024 * 1024 - len(bson.encode(document))
    crew.insert({**document, "note": "x" * room})
    crew.accept()
    found = crew.plan(1)
    assert found.state == "failed"
    assert found.error is not None
    assert "it has 16,777,216 bytes, and a plan may have 1,048,576" in found.error.message
    assert not found.steps


@pytest.mark.parametrize(
    ("fields", "sentence"),
    [
        ({"steps": {}}, "it has no `steps`"),
        ({"seq": 99}, "its `seq` 99 is above the last number given, which is"),
        ({"seq": 1}, "its `seq` 1 is a job's"),
        ({"seq": "x"}, "`seq` must be a whole number from 1 on"),
        ({"name": "x" * 2_000_000}, "it has 2,000,0"),
    ],
)
def test_what_cannot_be_a_plan_fails_at_once_with_the_reason(
    crew: Crew, fields: dict[str, Any], sentence: str
) -> None:
    crew.store.run(insert.submit(Wish("x.y"), None))
    plan = crew.insert({"steps": {"a": {"task": "t.echo"}}, **fields})
    crew.accept()
    found = crew.plan(plan)
    assert (found.state, found.try_) == ("failed", None)
    assert found.error is not None
    assert found.error.message.startswith(f"this document cannot be a plan: {sentence}")
    with pytest.raises(ConfigError, match="was refused, and cannot be run at all"):
        crew.store.run(control.retry(found.seq or 0))


def test_a_raw_job_with_a_plan_is_refused(store: Store) -> None:
    store.database.jobs.insert_one({"_id": 1, "task": "t.t", "plan": {"seq": 1}})
    store.run(number.give_numbers(store.run(number.find_raw())))
    job = store.database.jobs.find_one({"_id": 1})
    assert job["state"] == "failed"
    assert "`plan` is given by nodes: insert the plan instead" in job["error"]["message"]


@pytest.mark.parametrize(
    ("step", "sentence"),
    [
        ({"map": "get", "as": "x"}, "it maps over get, which must be an array, and is object"),
        ({"map": "get.no", "as": "x"}, "it maps over get.no, which must be an array, and is miss"),
        ({"take": {"x": "get.no"}}, "it takes get.no, but the result of get has no field 'no'"),
        ({"take": {"x": "many"}}, "it takes the results of many, which has 1,001 items, and 1,000"),
    ],
)
def test_what_cannot_be_released_stops_the_plan_and_says_why(
    crew: Crew, step: dict[str, Any], sentence: str
) -> None:
    many = {"task": "t.none", "map": [0] * 1001, "as": "x"}
    steps = {"get": {"task": "t.echo"}, "put": {"task": "t.echo", "may_fail": True, **step}}
    if "many" in str(step):
        steps["many"] = many
    plan = crew.insert({"steps": steps})
    crew.accept()
    crew.store.database.jobs.update_many({"plan.step": "many"}, {"$set": {"state": "done"}})
    crew.run()
    crew.look(crew.plan(plan).seq or 0)
    found = crew.plan(plan)
    assert found.state == "failed"
    assert found.error is not None
    assert (found.error.step, found.error.type) == ("put", "InvalidStep")
    assert found.error.message.startswith(sentence)


@pytest.mark.parametrize("odd", [2**63 - 1, {"after": ["get"]}, {"task": "put"}])
def test_a_step_that_somebody_made_none_stops_the_plan(crew: Crew, odd: Any) -> None:
    put = {"task": "t.echo", "after": ["get"]}
    plan = crew.insert({"steps": {"get": {"task": "t.echo"}, "put": put}})
    crew.accept()
    crew.store.database.plans.update_one({"_id": plan}, {"$set": {"steps.put": odd, "rev": 7}})
    crew.run()
    crew.look(crew.plan(plan).seq or 0)
    found = crew.plan(plan)
    assert (found.state, found.error and found.error.type) == ("failed", "InvalidStep")
    assert "put" not in crew.jobs(plan)


@pytest.mark.parametrize("is_mapped", [False, True])
def test_a_field_of_nothing_is_not_there_unless_the_step_was_allowed_to_fail(
    crew: Crew, is_mapped: bool
) -> None:
    over = {"map": [1], "as": "x"} if is_mapped else {}
    for task, end in (("t.none", "failed"), ("t.fails", "done")):
        get = {"task": task, "may_fail": True, **over}
        plan = crew.insert(
            {"steps": {"get": get, "put": {"task": "t.echo", "take": {"it": "get.no"}}}}
        )
        crew.run()
        found = crew.plan(plan)
        assert found.state == end
    assert crew.results(plan)["put"] == {"it": [None] if is_mapped else None}


def test_a_foreign_job_under_the_name_of_a_step_stops_the_plan(crew: Crew) -> None:
    plan = crew.insert(
        {"steps": {"a": {"task": "t.echo"}, "b": {"task": "t.echo", "after": ["a"]}}}
    )
    crew.accept()
    seq = crew.plan(plan).seq
    crew.store.database.jobs.insert_one({"_id": f"plan/{seq}/b", "task": "x.y"})
    for job in crew.claim():
        crew.work(job)
    found = crew.plan(plan)
    assert found.state == "failed"
    assert found.error is not None
    assert "another job has the _id" in found.error.message


def test_numbers_under_which_jobs_lie_are_not_given_to_a_plan(crew: Crew) -> None:
    following = crew.store.run(counter.take(1)).first + 1
    crew.store.database.jobs.insert_one({"_id": f"plan/{following}/a", "task": "x.y"})
    plan = crew.insert({"steps": {"a": {"task": "t.echo"}}})
    crew.accept()
    assert crew.plan(plan).seq == following + 1


def test_a_counter_that_was_lost_goes_on_behind_the_last_plan(store: Store) -> None:
    found, _ = store.run(control.submit({"steps": {"a": {"task": "t.echo"}}}))
    store.database.cluster.delete_one({"_id": "counter"})
    assert store.run(counter.take(1)).first > (found.seq or 0)


def test_nothing_is_accepted_while_a_node_knows_nothing_of_plans(store: Store) -> None:
    assert store.run(accept.all_know_plans())
    store.database.nodes.insert_one({"_id": "old", "state": "paused", "beat": 0})
    assert not store.run(accept.all_know_plans())
    store.database.nodes.update_one({"_id": "old"}, {"$set": {"state": "dead"}})
    assert store.run(accept.all_know_plans())


def test_a_step_that_did_not_end_holds_its_plan_and_others_go_on(crew: Crew) -> None:
    """A look finds what the one who should have advanced it left undone."""
    plan = crew.insert(
        {"steps": {"a": {"task": "t.echo"}, "b": {"task": "t.echo", "after": ["a"]}}}
    )
    crew.accept()
    (job,) = crew.claim()
    crew.store.database.jobs.update_one({"_id": job["_id"]}, {"$set": {"state": "done"}})
    assert "b" not in crew.jobs(plan)
    crew.look(crew.plan(plan).seq or 0)
    assert "b" in crew.jobs(plan)


def test_jobs_of_a_plan_do_not_expire_before_it(crew: Crew) -> None:
    crew.store.run(retention.keep(Retention(60, 60)))
    plan = crew.insert({"steps": {"a": {"task": "t.echo"}}})
    crew.run()
    crew.store.run(retention.keep(Retention(90, 90)))
    assert "expire_at" not in crew.jobs(plan)["a"]
    found = crew.plan(plan)
    assert found.expire_at is not None
    assert found.finished_at is not None
    assert found.expire_at - found.finished_at == timedelta(seconds=90)


def test_a_plan_whose_time_is_over_goes_with_all_of_its_jobs(crew: Crew) -> None:
    plan = crew.insert({"steps": {"a": {"task": "t.echo"}, "b": {"task": "t.echo"}}})
    other = crew.insert({"steps": {"a": {"task": "t.echo"}}})
    crew.run()
    seq = crew.plan(plan).seq
    past = datetime.now(UTC) - timedelta(hours=1)
    crew.store.database.plans.update_one({"_id": plan}, {"$set": {"expire_at": past}})
    assert crew.remove() == 1
    assert crew.store.database.plans.count_documents({}) == 1
    assert crew.store.database.jobs.count_documents({"plan.seq": seq}) == 0
    assert len(crew.jobs(other)) == 1


def test_a_job_whose_plan_is_gone_is_refused_and_goes_away(crew: Crew) -> None:
    plan = crew.insert({"steps": {"a": {"task": "t.echo"}}})
    crew.accept()
    crew.store.database.plans.delete_one({"_id": plan})
    assert not crew.claim()
    job = crew.store.database.jobs.find_one()
    assert job["state"] == "cancelled"
    assert job["expire_at"] > datetime.now(UTC) + timedelta(minutes=50)


def test_a_job_of_a_plan_is_not_retried_by_its_own_number(crew: Crew) -> None:
    plan = crew.insert({"steps": {"a": {"task": "t.fails"}}})
    crew.run()
    seq = crew.plan(plan).seq
    with pytest.raises(ConfigError, match=f"it is a job of plan {seq}, which is retried as a"):
        crew.store.run(jobs_control.retry(int(crew.jobs(plan)["a"]["seq"])))


def test_a_job_cancelled_by_its_number_stops_its_plan(crew: Crew) -> None:
    plan = crew.insert({"steps": {"a": {"task": "t.echo"}}})
    crew.accept()
    crew.store.run(jobs_control.cancel(int(crew.jobs(plan)["a"]["seq"])))
    assert crew.plan(plan).state == "stopping", "its owner may be too busy to hear of it"
    crew.look(crew.plan(plan).seq or 0)
    found = crew.plan(plan)
    assert (found.state, found.cause) == ("failed", "failed")
    assert found.error is not None
    assert found.error.type == "Cancelled"


def test_many_jobs_that_are_cancelled_stop_their_plans_and_no_others(crew: Crew) -> None:
    stopped = [crew.insert({"steps": {"a": {"task": "t.echo"}}}) for _ in range(2)]
    optional = crew.insert({"steps": {"a": {"task": "t.echo", "may_fail": True}}})
    other = crew.insert({"steps": {"a": {"task": "t.urls"}}})
    crew.accept()
    crew.store.run(many.cancel_many(Filter(task="t.echo")))
    assert [crew.plan(one).state for one in stopped] == ["stopping"] * 2
    assert [crew.plan(one).state for one in (optional, other)] == ["running"] * 2


def test_added_steps_come_before_what_comes_after_their_step(crew: Crew) -> None:
    plan = crew.insert(
        {"steps": {"a": {"task": "t.echo"}, "z": {"task": "t.echo", "after": ["a"]}}}
    )
    crew.accept()
    (job,) = crew.claim()
    more = {"b": {"task": "t.echo"}, "c": {"task": "t.echo", "take": {"x": "b"}}}
    crew.store.database.jobs.update_one({"_id": job["_id"]}, {"$set": {"more": more}})
    crew.work(job)
    crew.look(crew.plan(plan).seq or 0)
    crew.run()
    assert crew.state(plan) == "done"
    assert [name.split("/", 2)[2] for name, _ in crew.ran] == ["a", "a:b", "a:c", "z"]


def test_a_delay_and_a_priority_go_on_to_the_jobs(crew: Crew) -> None:
    plan = crew.insert({"steps": {"a": {"task": "t.echo", "delay": 60}}, "priority": 3})
    crew.accept()
    job = crew.jobs(plan)["a"]
    assert job["priority"] == 3
    assert job["run_at"] - job["created_at"] == timedelta(seconds=60)


async def test_a_causal_operation_sees_as_far_as_the_one_before(
    store: Store, async_store: AsyncStore
) -> None:
    """Both colours: the time of one is where the next begins, also when they end out of order."""
    found, _ = store.run(control.submit({"steps": {"a": {"task": "t.echo"}}}), causal=True)
    seen = Causal()
    store.run(read.read_plan(found.seq or 0), causal=seen)
    first = seen.operation_time
    assert first is not None
    await async_store.run(control.cancel(found.seq or 0), causal=seen)
    assert seen.operation_time > first
    earlier = Causal(first, seen.cluster_time)
    await async_store.run(read.read_plan(found.seq or 0), causal=earlier)
    assert earlier.operation_time >= first


def test_items_that_also_take_or_stream_all_of_what_they_map_over_wait_for_all_of_it(
    crew: Crew,
) -> None:
    mapped: dict[str, Any] = {"task": "t.upper", "map": ["a", "b"], "as": "text"}
    over: dict[str, Any] = {"task": "t.echo", "map": "m", "as": "one"}
    steps = {
        "m": mapped,
        "takes": {**over, "take": {"all": "m"}},
        "streams": {**over, "stream": {"all": "m"}},
        "after": {**over, "after": ["m"]},
        "early": over,
    }
    plan = crew.insert({"steps": steps})
    crew.accept()
    first, second = crew.claim()
    crew.work(first)
    released = {"early/00000000", "m/00000000", "m/00000001"}
    assert set(crew.jobs(plan)) == released
    crew.work(second)
    crew.run()
    jobs = crew.jobs(plan)
    assert crew.state(plan) == "done"
    assert jobs["takes/00000000"]["args"] == {"all": ["A", "B"], "one": "A"}
    assert jobs["streams/00000001"]["args"] == {"one": "B"}
    assert jobs["streams/00000001"]["plan"]["stream"] == {"all": {"step": "m", "total": 2}}


def test_all_jobs_of_a_plan_are_read_a_page_at_a_time(
    crew: Crew, monkeypatch: pytest.MonkeyPatch
) -> None:
    step = {"task": "t.echo", "map": [1, 2, 3, 4, 5], "as": "x"}
    plan = crew.insert({"steps": {"a": step, "b": {"task": "t.echo", "after": ["a"]}}})
    crew.run()
    seq = crew.plan(plan).seq or 0
    monkeypatch.setattr(read, "_PAGE", 2)
    pages: list[Any] = []

    def page(*asked: Any, **options: Any) -> Any:
        pages.append(asked)
        return find(*asked, **options)

    monkeypatch.setattr(read, "find", page)
    facts, _ = crew.store.run(read.read_jobs(seq))
    assert len(pages) == 4
    items = [f"plan/{seq}/a/{item:08d}" for item in range(5)]
    assert [fact.place.id for fact in facts] == [*items, f"plan/{seq}/b"]


def test_a_page_holds_so_many_results_and_so_many_bytes(crew: Crew) -> None:
    sizes = [*[1] * 5, 2 * BYTES_AT_ONCE, *[1] * 4, *[BYTES_AT_ONCE // 3] * 10]
    jobs = [done_item(7, "m", item, item + 1, "x" * size) for item, size in enumerate(sizes)]
    crew.store.database.jobs.insert_many([*jobs, done_item(7, "m2", 0, 99, "x")])

    def items(first: int, count: int) -> list[int]:
        page = crew.store.run(read_page(7, "m", first, count))
        return [job["plan"]["item"] for job in bson.decode_all(page)]

    assert items(0, 4) == [0, 1, 2, 3]
    assert items(0, 10) == [0, 1, 2, 3, 4], "the next one is a page by itself"
    assert items(5, 10) == [5]
    assert items(10, 10) == [10, 11]
    assert items(19, 500) == [19]
    assert items(20, 500) == []


@pytest.mark.parametrize(("count", "size", "is_whole"), [(20, 30_000, True), (20, 900_000, False)])
def test_a_result_is_all_of_the_items_or_nothing(
    crew: Crew, count: int, size: int, is_whole: bool
) -> None:
    crew.tasks["t.long"] = lambda n: "x" * size + str(n)
    step = {"task": "t.long", "map": list(range(count)), "as": "n"}
    plan = crew.insert({"steps": {"all": step}})
    crew.run()
    found = crew.store.run(read_status(crew.plan(plan).seq or 0))
    assert found.state == "done"
    whole = ["x" * size + str(n) for n in range(count)]
    assert found.result == (whole if is_whole else None)


def step_job(step: str) -> dict[str, Any]:
    return {
        "_id": f"plan/1/{step}",
        **Wish("t.x").document({}, datetime.now(UTC)),
        "plan": PlanPlace(1, step).to_document(),
    }


def claims_all(_: Mapping[str, Any]) -> str:
    return "n"


def test_a_job_is_claimed_with_its_release(store: Store) -> None:
    numbers = store.run(release.put([step_job("a")], claim=claims_all))
    (job,) = store.database.jobs.find()
    assert numbers == [job["seq"]]
    assert (job["state"], job["node"], job["attempt"]) == ("working", "n", 1)
    ours = store.run(release.put([step_job("a"), step_job("b")], claim=claims_all))
    assert [store.database.jobs.find_one({"seq": seq}, {"_id": 1}) for seq in ours] == [
        {"_id": "plan/1/b"}
    ], "what was there already is not claimed by that"
    assert not store.run(release.put([step_job("c")], claim=lambda _: None))
    assert store.database.jobs.count_documents({"state": "queued"}) == 1


def test_a_job_whose_number_was_taken_waits(store: Store) -> None:
    store.run(insert.submit(Wish("t.x"), {}))
    store.database.cluster.update_one({"_id": "counter"}, {"$set": {"seq": bson.Int64(0)}})
    asked = []

    def claim(job: Mapping[str, Any]) -> str:
        asked.append(int(job["seq"]))
        return "n"

    assert not store.run(release.put([step_job("a")], claim=claim))
    job = store.database.jobs.find_one({"_id": "plan/1/a"}) or {}
    assert (job["state"], job["attempt"], job.get("node")) == ("queued", 0, None)
    assert asked == [1], "the number that it was claimed under"
    assert job["seq"] > 1


def test_a_fan_in_stops_where_somebody_else_has_read_meanwhile(crew: Crew) -> None:
    width = 6000
    crew.insert({"steps": {"m": {"task": "t.echo", "map": [0] * width, "as": "x"}}})
    crew.accept()
    crew.store.database.jobs.update_many({}, {"$set": {"state": "done"}})
    (plan,) = crew.store.run(read.read_whole([1])).values()
    crew.store.database.plans.update_one({}, {"$set": {"marks": {"m": 4500}}})
    asked: list[int] = []

    def counted(steps: Generator[Call, Any, Any]) -> Generator[Call, Any, Any]:
        answer = None
        while True:
            try:
                call = steps.send(answer)
            except StopIteration as end:
                return end.value
            if call.collection == "jobs":
                asked.append(len(call.args[0]["_id"]["$in"]))
            answer = yield call

    facts = Asked(plan, memory := PlanMemory())
    assert crew.store.run(counted(facts.answer(UnendedItem("m")))) is None
    assert width - 4500 <= sum(asked) < width - 3500
    asked.clear()
    assert crew.store.run(counted(Asked(plan, memory).marks())) == {"m": width}
    assert sum(asked) <= 4500, "those above are known"


def test_a_release_that_lands_after_the_end_of_its_plan_is_claimed_and_gets_no_licence(
    crew: Crew,
) -> None:
    crew.insert({"steps": {"a": {"task": "t.echo"}, "b": {"task": "t.echo", "after": ["a"]}}})
    crew.accept()
    (job,) = crew.claim()
    fact = JobFact(PlanPlace(1, "a"), JobState.DONE)
    advancer = Advancer(PlanMemory(), FOR_EVER, 0.0, claim=claims_all)
    going_on = advancer.advance({1: [fact]})
    crew.store.database.jobs.update_one({"_id": job["_id"]}, {"$set": {"state": "done"}})
    call = going_on.send(None)
    while call.method != "insert_many":
        answer = None if call.unheard else crew.store.run(one_call(call))
        call = going_on.send(answer)
    crew.store.run(control.cancel(1, undo=False))
    crew.look(1)
    plan = crew.store.database.plans.find_one() or {}
    assert plan["state"] == "cancelled"
    with pytest.raises(StopIteration) as ended:
        going_on.send(crew.store.run(one_call(call)))
    (seq,) = ended.value.value.claimed
    found = crew.store.run(licences_of([seq], {seq: PlanPlace(1, "b")}))
    assert not found.granted


def one_call(call: Call) -> Generator[Call, Any, Any]:
    return (yield call)
