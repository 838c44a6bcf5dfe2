"""(3) Claim: of many that reach for a job one gets it, and looking for jobs costs what is found."""

from __future__ import annotations

from concurrent.futures import ThreadPoolExecutor
from datetime import UTC, datetime, timedelta
from typing import Any

import bson
import pytest
from bson import Int64

from tontine.records.roster import Roster
from tontine.records.share import Part, Share
from tontine.store import claim, fresh, insert, postponed, read
from tontine.store.call import Call, Operation, Store
from tontine.store.insert import Wish

ALL = Share(1, 0, 1)
TASKS = ["t.a", "t.b"]


def add(store: Store, count: int, task: str = "t.a", **wish: Any) -> list[int]:
    jobs = store.run(insert.submit_many(Wish(task, **wish), [None] * count))
    return [job.seq or 0 for job in jobs]


def change(store: Store, seqs: list[int], **values: Any) -> None:
    store.database.jobs.update_many({"seq": {"$in": seqs}}, {"$set": values})


def job(store: Store, seq: int) -> dict[str, Any]:
    found: dict[str, Any] = store.database.jobs.find_one({"seq": seq})
    return found


def seqs(found: Any) -> list[int]:
    return [int(one["seq"]) for one in found]


def examined(store: Store, steps: Operation[Any]) -> int:
    """The index keys that the server looks at for an operation's first call, which must be a
    read."""
    call: Call = next(steps)
    names = {"projection": "projection", "hint": "hint", "limit": "limit"}
    command = {"find": call.collection, "filter": call.args[0]}
    command |= {names[name]: value for name, value in call.options.items() if name in names}
    command["sort"] = dict(call.options["sort"])
    command.setdefault("limit", 1)
    plan = store.database.command({"explain": command, "verbosity": "executionStats"})
    return int(plan["executionStats"]["totalKeysExamined"])


def test_a_claim_takes_the_job_and_counts_the_attempt(store: Store) -> None:
    before = job(store, add(store, 1)[0])
    assert store.run(claim.claim("x", [1], 0)) == {1}
    assert job(store, 1) == before | {"state": "working", "node": "x", "attempt": 1}


def test_each_job_is_won_by_exactly_one_of_many_claimers(store: Store) -> None:
    wanted = add(store, 50)
    nodes = [f"node-{number}" for number in range(8)]
    with ThreadPoolExecutor(len(nodes)) as pool:
        won = dict(
            zip(
                nodes,
                pool.map(lambda node: store.run(claim.claim(node, wanted, 0)), nodes),
                strict=True,
            )
        )
    assert sorted(seq for mine in won.values() for seq in mine) == wanted
    for node, mine in won.items():
        assert set(seqs(store.database.jobs.find({"node": node}))) == mine
    assert {one["attempt"] for one in store.database.jobs.find()} == {1}


def test_a_claim_from_an_old_read_takes_nothing_not_even_a_job_that_waits_for_its_retry_time(
    store: Store,
) -> None:
    add(store, 2)
    store.run(claim.claim("y", [1], 0))
    change(store, [1], state="queued", run_at=store.run(read.now()) + timedelta(hours=1))
    change(store, [2], state="done")
    before = list(store.database.jobs.find())
    assert store.run(claim.claim("x", [1, 2], 0)) == set()
    assert list(store.database.jobs.find()) == before


def test_of_a_batch_only_what_could_be_taken_is_held(store: Store) -> None:
    add(store, 4)
    store.run(claim.claim("y", [2], 0))
    change(store, [3], state="cancelled")
    assert store.run(claim.claim("x", [1, 2, 3, 4, 99], 0)) == {1, 4}
    assert store.run(claim.held("x", [1, 2, 3, 4], 1)) == {1, 4}
    assert store.run(claim.held("y", [1, 2, 3, 4], 1)) == {2}
    assert store.run(claim.held("x", [1, 4], 2)) == set(), "another attempt is another claim"


def test_an_announced_job_is_claimed_by_its_number_and_told_as_it_was(store: Store) -> None:
    (seq,) = add(store, 1, max_attempts=7)
    before = job(store, seq)
    claimed = store.run(claim.claim_announced("x", seq, TASKS))
    assert claimed is not None
    assert {
        name: claimed[name] for name in ("seq", "task", "attempt", "fails", "lost", "max_attempts")
    } == {
        "seq": seq,
        "task": "t.a",
        "attempt": 0,
        "fails": 0,
        "lost": 0,
        "max_attempts": 7,
    }
    told: dict[str, Any] = bson.decode(claimed.raw, bson.CodecOptions(tz_aware=True))
    assert told == {name: value for name, value in before.items() if name in told}
    assert {"_id", "seq", "task", "args"} <= set(told), "a worker gets all that it needs"
    assert job(store, seq) == before | {"state": "working", "node": "x", "attempt": 1}


@pytest.mark.parametrize(
    "values",
    [
        {"state": "working", "node": "y", "attempt": 1},
        {"state": "queued", "attempt": 1},
        {"state": "done", "attempt": 0},
        {"state": "cancelled"},
        {"run_at": datetime(2020, 1, 1, tzinfo=UTC)},
        {"run_at": datetime(2999, 1, 1, tzinfo=UTC)},
        {"priority": 1},
        {"priority": -1},
        {"task": "t.unknown"},
    ],
    ids=str,
)
def test_an_announced_job_that_is_not_fresh_queued_and_of_the_nodes_tasks_stays_as_it_is(
    store: Store, values: dict[str, Any]
) -> None:
    (seq,) = add(store, 1)
    change(store, [seq], **values)
    before = job(store, seq)
    assert store.run(claim.claim_announced("x", seq, TASKS)) is None
    assert job(store, seq) == before


def test_an_announced_job_that_is_not_there_is_nobodys(store: Store) -> None:
    add(store, 1)
    assert store.run(claim.claim_announced("x", 2, TASKS)) is None
    assert store.database.jobs.count_documents({}) == 1


def test_an_announced_job_is_won_by_one_of_many(store: Store) -> None:
    (seq,) = add(store, 1)
    nodes = [f"node-{number}" for number in range(8)]
    with ThreadPoolExecutor(len(nodes)) as pool:
        answers = list(
            pool.map(lambda node: store.run(claim.claim_announced(node, seq, TASKS)), nodes)
        )
    (winner,) = [node for node, answer in zip(nodes, answers, strict=True) if answer is not None]
    assert (job(store, seq)["node"], job(store, seq)["attempt"]) == (winner, 1)


def test_only_fresh_jobs_of_the_nodes_tasks_are_found(store: Store) -> None:
    add(store, 5)
    add(store, 1, "t.unknown")
    add(store, 1, delay=0.0)
    change(store, [2], state="working", node="y")
    change(store, [3], state="done")
    found = store.run(fresh.find_fresh([1, 2, 3, 4, 6, 7, 99], TASKS))
    assert sorted(seqs(found)) == [1, 4]
    assert {"task", "args", "attempt", "fails", "lost"} <= set(found[0])


def test_the_lowest_fresh_job_is_found_behind_a_million_holes_in_one_step(store: Store) -> None:
    add(store, 500)
    change(store, list(range(1, 501)), state="done")
    add(store, 3, "t.unknown")
    store.database.cluster.update_one({"_id": "counter"}, {"$inc": {"seq": Int64(1_000_000)}})
    add(store, 100, "t.b")
    add(store, 100, "t.a")
    assert store.run(fresh.lowest_fresh(TASKS, 1)) == 1_000_504
    assert store.run(fresh.lowest_fresh(TASKS, 1_000_510)) == 1_000_510
    assert examined(store, fresh.lowest_fresh(TASKS, 1)) <= 2 * len(TASKS) + 1
    assert store.run(fresh.lowest_fresh(["t.none"], 1)) is None


def test_more_tasks_than_the_server_merges_are_asked_for_in_parts(store: Store) -> None:
    many = [f"t.task{number:03}" for number in range(450)]
    add(store, 1, many[430])
    add(store, 1, many[0])
    assert store.run(fresh.lowest_fresh(many, 1)) == 1
    assert store.run(fresh.find_behind(ALL, many, 99, 10)) == [1, 2]
    assert sorted(seqs(store.run(fresh.find_left(many, -1.0, 10)))) == [1, 2]


def test_what_the_cursor_passed_is_found_again_in_the_own_share_only(store: Store) -> None:
    add(store, 20)
    change(store, [4], state="working", node="y")
    assert store.run(fresh.find_behind(Share(1, 0, 2), TASKS, 11, 99)) == [2, 6, 8, 10]
    assert store.run(fresh.find_behind(Share(1, 0, 2), TASKS, 11, 2)) == [2, 6]


def test_postponed_jobs_are_due_when_their_time_has_come_oldest_first(store: Store) -> None:
    now = store.run(read.now())
    add(store, 1)
    for ago in (-3600, 10, 30, 20):
        add(store, 1, run_at=now - timedelta(seconds=ago))
    add(store, 1, "t.unknown", run_at=now - timedelta(seconds=99))
    assert seqs(store.run(postponed.find_due([Part(tuple(TASKS), ALL)], 0.0, 10))) == [4, 5, 3]
    assert seqs(store.run(postponed.find_due([Part(tuple(TASKS), ALL)], 0.0, 2))) == [4, 5]
    assert seqs(store.run(postponed.find_due([Part(tuple(TASKS), Share(1, 0, 2))], 0.0, 10))) == [4]
    *_, soon = store.run(postponed.find_due([Part(tuple(TASKS), ALL)], 3601.0, 10))
    assert soon["seq"] == 2
    assert 3_500_000 < soon["wait"] <= 3_600_000


def test_jobs_of_the_future_cost_nothing_today(store: Store) -> None:
    now = store.run(read.now())
    add(store, 300, run_at=now + timedelta(days=1))
    add(store, 2, run_at=now - timedelta(seconds=1))
    assert examined(store, postponed.find_due([Part(tuple(TASKS), ALL)], 1.0, 10)) <= 3
    assert examined(store, postponed.find_overdue(TASKS, 0.5, 10)) <= 3


def test_only_what_has_been_due_for_a_while_is_left_to_helpers(store: Store) -> None:
    now = store.run(read.now())
    add(store, 1)
    late = add(store, 2)
    change(store, late, created_at=now - timedelta(seconds=60))
    add(store, 1, run_at=now - timedelta(seconds=1))
    long_due = add(store, 1, run_at=now - timedelta(seconds=60))
    future = add(store, 1, run_at=now + timedelta(seconds=60))
    change(store, future, created_at=now - timedelta(seconds=60))
    unknown = add(store, 1, "t.unknown") + add(
        store, 1, "t.unknown", run_at=now - timedelta(seconds=60)
    )
    change(store, unknown, created_at=now - timedelta(seconds=60))
    assert seqs(store.run(fresh.find_left(TASKS, 30.0, 99))) == late
    assert seqs(store.run(postponed.find_overdue(TASKS, 30.0, 99))) == long_due


def test_jobs_with_a_priority_are_found_highest_first_and_not_among_the_fresh(store: Store) -> None:
    now = store.run(read.now())
    for priority in (1, 9, -5, 0, 9):
        add(store, 1, priority=priority)
    add(store, 1, priority=99, run_at=now + timedelta(hours=1))
    assert seqs(store.run(postponed.find_ranked([Part(tuple(TASKS), ALL)], 10))) == [2, 5, 1]
    assert seqs(store.run(postponed.find_ranked([Part(tuple(TASKS), ALL)], 10, low=True))) == [
        2,
        5,
        1,
        3,
    ]
    assert seqs(store.run(postponed.find_ranked([Part(tuple(TASKS), Share(1, 0, 2))], 10))) == [2]
    assert seqs(store.run(postponed.find_ranked([Part(tuple(TASKS))], 10, age=60.0))) == []
    assert seqs(store.run(fresh.find_fresh(range(1, 10), TASKS))) == [4]
    assert store.run(fresh.lowest_fresh(TASKS, 1)) == 4


def test_what_all_nodes_share_comes_in_one_read(store: Store) -> None:
    empty = store.run(claim.overview())
    assert (empty.roster, empty.counter) == (Roster(), 0)
    add(store, 7)
    store.database.cluster.insert_one({"_id": "roster", "epoch": 3, "members": ["x"]})
    around = store.run(claim.overview())
    assert (around.roster, around.counter) == (Roster(3, ("x",)), 7)
