"""What an operator asks through the observer, on a real MongoDB: it is done, or said why not; never
blindly."""

from __future__ import annotations

from collections.abc import AsyncIterator
from pathlib import Path
from typing import Any

import pytest
from pymongo import MongoClient

from tests.store.test_feed import finish, register, submit
from tests.support.feeding import until
from tests.support.mongod import with_users
from tontine.config import StoreConfig
from tontine.errors import ConfigError
from tontine.records.states import NodeState
from tontine.store import claim, members, read, schema
from tontine.store.call import Store
from tontine_observer.feed.live import LiveSource
from tontine_observer.feed.polls import Polls
from tontine_observer.picture.board import Board
from tontine_observer.query.filters import parse
from tontine_observer.records.change import ChangeKind
from tontine_observer.records.link import Mode
from tontine_observer.records.request import MOST, Phase, Request, RequestProgress


@pytest.fixture
async def source(mongo_uri: str, store: Store) -> AsyncIterator[LiveSource]:
    board = Board(store.database.name)
    live = LiveSource(StoreConfig(mongo_uri, store.database.name), board)
    await live.start()
    await until(lambda: board.link.mode is Mode.LIVE)
    yield live
    await live.stop()


async def asked(source: LiveSource, wish: Request) -> list[RequestProgress]:
    return [progress async for progress in source.ask(wish)]


def phases(told: list[RequestProgress]) -> list[Phase]:
    return [progress.phase for progress in told]


def desired(store: Store, node: str) -> Any:
    return store.database.nodes.find_one({"_id": node})["desired"]


async def test_a_node_is_asked_and_followed_until_it_has_done_it(
    source: LiveSource, store: Store
) -> None:
    register(store, "ada")
    store.run(members.move("ada", NodeState.WAITING))
    await until(lambda: source.board.known.lives.fact("ada"))
    told: list[RequestProgress] = []
    async for progress in source.ask(Request("pause", ("ada",), {"ada": "working"}, "deploy")):
        told.append(progress)
        if progress.phase is Phase.REQUESTED:
            assert desired(store, "ada") == "paused"
            for _ in range(2):
                store.run(members.heartbeat("ada", {"running": 1}, 20.0, 3.0))
        if progress.phase is Phase.ACCEPTED:
            assert "finishes 1 job" in progress.text
            store.run(members.move("ada", NodeState.PAUSED))
    assert phases(told) == [Phase.REQUESTED, Phase.ACCEPTED, Phase.DONE]
    event = store.database.events.find_one({"kind": "request"})
    assert event is not None
    assert (event["verb"], event["subject"], event["why"]) == ("pause", "ada", "deploy")
    assert event["actor"]
    assert event["host"]
    await until(
        lambda: any('"deploy"' in one.text for one in source.board.changes({ChangeKind.REQUEST}))
    )


async def test_a_node_that_changed_meanwhile_is_left_alone(
    source: LiveSource, store: Store
) -> None:
    register(store, "ada")
    store.run(members.move("ada", NodeState.WAITING))
    told = await asked(source, Request("resume", ("ada",), {"ada": "paused"}))
    assert phases(told) == [Phase.CHANGED]
    assert desired(store, "ada") == "running"
    assert store.database.events.count_documents({"kind": "request"}) == 0


async def test_jobs_are_retried_and_cancelled_if_they_are_as_they_were_seen(
    source: LiveSource, store: Store
) -> None:
    register(store, "ada")
    done, queued, taken = submit(store, 3)
    finish(store, "ada", [done])
    store.run(claim.claim("ada", [taken], 0))
    told = await asked(source, Request("retry", (done,), {done: "done"}))
    assert phases(told) == [Phase.REQUESTED, Phase.DONE]
    told = await asked(
        source, Request("retry", (done,), {done: "done"})
    )  # a stale screen asks again
    assert phases(told)[-1] is Phase.CHANGED
    told = await asked(
        source, Request("cancel", (queued, taken), {queued: "queued", taken: "queued"})
    )
    assert (told[-1].phase, told[-1].done, told[-1].failed) == (Phase.CHANGED, 1, 1)
    states = {job["seq"]: (job["state"], job.get("cancel")) for job in store.database.jobs.find()}
    assert states == {done: ("queued", None), queued: ("cancelled", True), taken: ("working", None)}


async def test_a_running_job_is_cancelled_by_its_node(source: LiveSource, store: Store) -> None:
    (seq,) = submit(store, 1)
    store.run(claim.claim("ada", [seq], 0))
    told: list[RequestProgress] = []
    async for progress in source.ask(Request("cancel", (seq,), {seq: "working"})):
        told.append(progress)
        if progress.phase is Phase.ACCEPTED:
            assert store.database.jobs.find_one({"seq": seq})["cancel"] is True
            store.database.jobs.update_one({"seq": seq}, {"$set": {"state": "cancelled"}})
    assert phases(told) == [Phase.REQUESTED, Phase.ACCEPTED, Phase.DONE]


async def test_what_is_not_there_or_too_much_is_refused(source: LiveSource, store: Store) -> None:
    assert phases(await asked(source, Request("retry", (99,), {99: "failed"})))[-1] is Phase.CHANGED
    with pytest.raises(ConfigError, match="too many"):
        await asked(source, Request("cancel", tuple(range(MOST + 1))))


async def test_read_only_asks_nothing_by_flag_by_right_and_by_refusal(tmp_path: Path) -> None:
    with (
        with_users(tmp_path) as (root, host),
        MongoClient[dict[str, Any]](root, tz_aware=True) as client,
    ):
        store = Store(client["db"])
        store.run(schema.init())
        register(store, "ada")
        client["db"].command("createUser", "eve", pwd="hunter2", roles=["read"])
        uri = f"mongodb://eve:hunter2@{host}/db?replicaSet=rs"
        board = Board("db")
        live = LiveSource(
            StoreConfig(root, "db"),
            board,
            polls=Polls(board.known, read_only="started with --read-only"),
        )
        await live.start()
        await until(lambda: board.link.mode is Mode.LIVE)
        assert phases(await asked(live, Request("pause", ("ada",)))) == [Phase.REFUSED]
        await live.stop()
        board = Board("db")
        live = LiveSource(StoreConfig(uri, "db"), board)
        await live.start()
        await until(lambda: board.link.mode is Mode.LIVE)
        from dataclasses import replace

        board.known.link = replace(
            board.link, read_only=""
        )  # as if the privileges had not been told
        told = await asked(live, Request("pause", ("ada",), {"ada": "initializing"}))
        assert phases(told) == [Phase.REFUSED]
        assert board.link.read_only
        assert "hunter2" not in live.hide(f"{uri} and hunter2")
        await live.stop()
        assert store.database.nodes.find_one({"_id": "ada"})["desired"] == "running"


async def test_a_page_tells_everything_about_a_job_and_hides_its_secrets(
    source: LiveSource, store: Store
) -> None:
    (seq,) = submit(store, 1, password="hunter2", image="a.png")
    evil = "\x1b[2J\u202e"
    store.database.jobs.update_one(
        {"seq": seq},
        {
            "$set": {
                "state": "failed",
                "attempt": 2,
                "error": {
                    "type": "E",
                    "message": f"token=abc {evil}",
                    "traceback": f"line 1\nline 2{evil}",
                },
                "errors": [{"type": "First", "message": "x", "traceback": ""}],
                "progress": {"value": 0.4, "note": "half"},
                "moon": {"phase": "full"},
            }
        },
    )
    store.database.logs.insert_one(
        {"seq": seq, "attempt": 2, "lines": [{"at": look_now(store), "text": f"hi{evil}"}]}
    )
    page = await source.page(seq)
    assert page is not None
    assert "\x1b" not in repr(page)
    assert "hunter2" not in repr(page)
    assert '"image": "a.png"' in page.args
    assert [attempt.number for attempt in page.attempts] == [1, 2]
    assert page.attempts[1].error.startswith("E: token=***")
    assert "line 1\nline 2" in page.attempts[1].traceback
    assert page.row.progress == 0.4
    assert ("moon", '{"phase":"full"}') in page.facts
    assert [(attempt, text[:2]) for _, attempt, text in page.logs] == [(2, "hi")]
    assert page.why
    assert await source.page(12345) is None


@pytest.mark.parametrize(("attempt", "numbers"), [(3, [1, 2, 3]), (4, [0, 0, 4])])
async def test_errors_have_the_numbers_of_their_attempts_where_these_are_known(
    source: LiveSource, store: Store, attempt: int, numbers: list[int]
) -> None:
    (seq,) = submit(store, 1)
    errors = [{"type": "E", "message": text, "traceback": ""} for text in "ab"]
    ended = {"state": "done", "attempt": attempt, "errors": errors, "finished_at": look_now(store)}
    store.database.jobs.update_one({"seq": seq}, {"$set": ended})
    page = await source.page(seq)
    assert page is not None
    assert [attempt.number for attempt in page.attempts] == numbers


def look_now(store: Store) -> Any:
    return store.run(read.now())


async def test_a_search_finds_what_the_window_does_not_hold(
    source: LiveSource, store: Store
) -> None:
    seqs = submit(store, 3)
    await until(lambda: len(source.board.jobs().rows) == 3)
    store.database.jobs.update_one({"seq": seqs[0]}, {"$set": {"state": "failed"}})
    await until(lambda: any(row.state == "failed" for row in source.board.jobs().rows))
    source.board.known.jobs.forget(0.0)
    told = [one async for one in source.search(parse(f"state:fail seq:{seqs[0]}..{seqs[2]}"), {})]
    assert (told[-1].found, told[-1].listed, told[-1].is_over) == (1, 1, True)
    assert [row.seq for row in source.board.jobs().rows] == [seqs[0]]
    source.forget_found()
    assert source.board.jobs().rows == ()
    told = [one async for one in source.search(parse("anything"), {})]
    assert (told[-1].found, told[-1].looked, told[-1].total) == (0, 3, 3)


async def test_what_was_found_is_followed_and_makes_room_for_nothing_else(
    source: LiveSource, store: Store
) -> None:
    seqs = submit(store, 3)
    await until(lambda: len(source.board.jobs().rows) == 3)
    store.database.jobs.update_many({}, {"$set": {"state": "failed", "args.user": 7}})
    await until(lambda: all(row.state == "failed" for row in source.board.jobs().rows))
    table = source.board.known.jobs
    table.forget(0.0)
    async for _ in source.search(parse("args.user:7"), {}):
        pass
    assert set(source.board.jobs().found) == {row.id for row in source.board.jobs().rows}
    store.database.jobs.update_one({"seq": seqs[1]}, {"$set": {"state": "queued"}})
    await until(lambda: any(row.state == "queued" for row in source.board.jobs().rows))
    listed = source.board.jobs()
    changed = next(row for row in listed.rows if row.seq == seqs[1])
    assert listed.found[changed.id] is not changed
    table.forget(0.0)
    assert len(source.board.jobs().rows) == 3, "a look at everything forgets what was found"
    source.forget_found()
    assert not any(row.state == "failed" for row in source.board.jobs().rows)
