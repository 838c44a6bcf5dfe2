"""Finding work costs the same however many jobs have ended, or are due another day."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from typing import Any

from bson import Int64, ObjectId

from tontine.records.share import Part, Share
from tontine.store import fresh, postponed, repair
from tontine.store.call import Call, Operation, Store

TASKS = ["story.double", "story.triple"]
SHARE = Share(1, 1, 3)


def keys_examined(store: Store, steps: Operation[Any]) -> int:
    """Index keys that the first read of an operation examines."""
    call: Call = next(steps)
    options = dict(call.options)
    find: dict[str, Any] = {"find": call.collection, "filter": call.args[0]}
    find |= {name: options[name] for name in ("projection", "hint") if name in options}
    if "sort" in options:
        find["sort"] = dict(options["sort"])
    limit = 1 if call.method == "find_one" else options.get("limit")
    if limit:
        find["limit"] = limit
    explained = store.database.command({"explain": find, "verbosity": "executionStats"})
    return int(explained["executionStats"]["totalKeysExamined"])


def fill(store: Store, first: int, count: int, **fields: Any) -> None:
    now = datetime.now(UTC)
    store.database.jobs.insert_many(
        [
            {
                "_id": ObjectId(),
                "seq": Int64(seq),
                "task": TASKS[seq % 2],
                "args": {},
                "attempt": 0,
                "fails": 0,
                "lost": 0,
                "created_at": now,
                **fields,
            }
            for seq in range(first, first + count)
        ],
        ordered=False,
    )


def costs(store: Store) -> dict[str, int]:
    return {
        "fresh": keys_examined(store, fresh.find_fresh(SHARE.seqs(1, 300, 100), TASKS)),
        "lowest": keys_examined(store, fresh.lowest_fresh(TASKS, 0)),
        "behind": keys_examined(store, fresh.find_behind(SHARE, TASKS, 300, 50)),
        "due": keys_examined(store, postponed.find_due([Part(tuple(TASKS), SHARE)], 2.0, 100)),
        "ranked": keys_examined(store, postponed.find_ranked([Part(tuple(TASKS), SHARE)], 100)),
        "left": keys_examined(store, fresh.find_left(TASKS, 0.5, 64)),
        "overdue": keys_examined(store, postponed.find_overdue(TASKS, 0.5, 64)),
    }


def test_finished_and_far_off_jobs_do_not_make_finding_work_dearer(store: Store) -> None:
    fill(store, 1, 300, state="queued")
    before = costs(store)
    fill(store, 1000, 20_000, state="done")
    fill(store, 30_000, 5_000, state="failed", run_at=datetime.now(UTC) - timedelta(days=1))
    fill(store, 40_000, 20_000, state="queued", run_at=datetime.now(UTC) + timedelta(days=1))
    after = costs(store)
    for name, keys in after.items():
        assert keys <= before[name] + 2, (name, before, after)
    assert before["fresh"] <= 2 * 100 + 1, "a look-up of 100 seqs costs at most two keys for each"


def test_looking_for_due_jobs_does_not_read_those_of_tomorrow(store: Store) -> None:
    fill(store, 1, 30, state="queued", run_at=datetime.now(UTC) - timedelta(seconds=5))
    fill(store, 1000, 20_000, state="queued", run_at=datetime.now(UTC) + timedelta(days=1))
    assert keys_examined(store, postponed.find_due([Part(tuple(TASKS), SHARE)], 2.0, 100)) <= 35


def test_looking_for_holders_reads_only_jobs_that_are_held(store: Store) -> None:
    fill(store, 1, 3000, state="done", node="gone")
    fill(store, 5000, 20, state="working", node="ada")
    for seq, odd in ((5000, 7), (5001, None), (5002, ["bea"])):
        store.database.jobs.update_one(
            {"seq": seq}, {"$set": {"node": odd}}, bypass_document_validation=True
        )
    [call] = repair.find_holders()
    key, query = call.args
    asked = {"distinct": call.collection, "key": key, "query": query}
    explained = store.database.command({"explain": asked, "verbosity": "executionStats"})
    assert explained["executionStats"]["totalDocsExamined"] == 20
    assert store.run(repair.find_holders()) == [None, 7, "ada", "bea"]
