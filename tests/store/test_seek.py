"""Every term of the observer's filter, asked of a real store: it counts what MongoDB counts, and
what the screen would keep of the same jobs."""

from __future__ import annotations

import random
from collections.abc import Mapping, Sequence
from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tests.screens.still import picture
from tontine.records.kind import Kind
from tontine.records.offer import ModuleOffer, Offer
from tontine.store import read, seek
from tontine.store.call import Store
from tontine_observer.draw.style import Look
from tontine_observer.draw.themes import DARK
from tontine_observer.query.filters import parse
from tontine_observer.query.searching import Around, sought
from tontine_observer.records.clean import Cleaner
from tontine_observer.records.job import JobList
from tontine_observer.records.rows import job_row
from tontine_observer.records.timeline import Epoch
from tontine_observer.stage.panes import jobs
from tontine_observer.stage.panes.scene import Scene
from tontine_observer.stage.panes.view import View

Lanes = Sequence[tuple[Sequence[int], Sequence[str]]]

JOBS = 600
NAMES = {"ada-11111111": "ada", "bea-22222222": "bea"}
ERRORS = [("TimeoutError", "upstream 7 did not answer"), ("ValueError", "order 12 has no price")]


def fill(store: Store, now: datetime) -> list[dict[str, Any]]:
    rnd = random.Random(18)
    documents = []
    for seq in range(1, JOBS + 1):
        state = rnd.choice(["done", "done", "failed", "cancelled", "queued", "working"])
        created = now - timedelta(seconds=(JOBS - seq) * 10)
        one: dict[str, Any] = {"seq": seq, "task": rnd.choice(["shop.Mail", "shop.resize", "x.y"])}
        one |= {"state": state, "created_at": created, "node": None, "attempt": rnd.randrange(4)}
        one |= {"fails": 0, "lost": 0}
        one["args"] = {"user": rnd.randrange(9), "name": rnd.choice(["Ada", "bea"]), "vip": seq % 2}
        if rnd.random() < 0.3:
            one["key"] = f"order-{seq}"
        if rnd.random() < 0.2:
            one["priority"] = rnd.randrange(5)
        if state != "queued":
            one["node"] = rnd.choice([*NAMES, "cyd-33333333"])
            one["started_at"] = created + timedelta(seconds=1)
        if state in ("done", "failed", "cancelled"):
            one["finished_at"] = created + timedelta(seconds=1 + rnd.randrange(60))
        if state == "failed":
            kind, message = rnd.choice(ERRORS)
            one["error"] = {"type": kind, "message": message}
            one["fails"] = rnd.randrange(3)
        documents.append(one)
    store.database.jobs.insert_many(documents)
    return documents


FILTERS: list[tuple[str, Mapping[str, Any] | None]] = [
    ("state:failed", {"state": "failed"}),
    ("state:fail,canc", {"state": {"$in": ["failed", "cancelled"]}}),
    ("state:e", {"state": {"$in": ["done", "failed", "cancelled", "queued"]}}),
    ("!state:done", {"state": {"$ne": "done"}}),
    ("state:failed err~timeout", {"state": "failed", "error.type": "TimeoutError"}),
    ("err:price", {"error.message": {"$regex": "price"}}),
    ('err:"TimeoutError: up"', {"error.type": "TimeoutError"}),
    ("!err~timeout state:failed", {"state": "failed", "error.type": {"$ne": "TimeoutError"}}),
    ("task:mail", {"task": "shop.Mail"}),
    ("task:mail,x.y", {"task": {"$in": ["shop.Mail", "x.y"]}}),
    ("!task:shop", {"task": "x.y"}),
    ("node:ada", {"node": "ada-11111111"}),
    ("node:333", {"node": "cyd-33333333"}),
    ("!node:ada", {"node": {"$ne": "ada-11111111"}}),
    ("seq:100..200", {"seq": {"$gte": 100, "$lte": 200}}),
    ("seq:#17,18,5000", {"seq": {"$in": [17, 18]}}),
    ("seq:1..5,9", {"seq": {"$in": [1, 2, 3, 4, 5, 9]}}),
    ("seq:1..5,10..12", {"seq": {"$in": [1, 2, 3, 4, 5, 10, 11, 12]}}),
    ("!seq:1..5,9..", {"seq": {"$in": [6, 7, 8]}}),
    ("seq>590", {"seq": {"$gt": 590}}),
    ("seq:100..200 state:done", {"seq": {"$gte": 100, "$lte": 200}, "state": "done"}),
    ("!seq:100..", {"seq": {"$lt": 100}}),
    ("key:order-1", {"key": {"$regex": "order-1"}}),
    ("!key:order", {"key": None}),
    ("attempt:2", {"attempt": 2}),
    ("fails>0", {"fails": {"$gt": 0}}),
    ("fails:0", {"fails": 0}),
    ("priority:1..3", {"priority": {"$gte": 1, "$lte": 3}}),
    ("rank:1", {"seq": {"$mod": [3, 1]}}),
    ("ran>30s", None),
    ("ran<5", None),
    ("since:30m", None),
    ("since:30m state:failed", None),
    ("until:1h !state:done", None),
    ("age>20m age<40m", None),
    ("mail", {"task": "shop.Mail"}),
    ("timeout", {"error.type": "TimeoutError"}),
    ("!timeout", {"error.type": {"$ne": "TimeoutError"}}),
    ("599", {"seq": 599}),
    ("ada", {"node": "ada-11111111"}),
    ("state:zzz", {"state": "zzz"}),
]
OF_THE_STORE: list[tuple[str, Mapping[str, Any]]] = [
    ("args.user:7", {"args.user": 7}),
    ("args.user>6", {"args.user": {"$gt": 6}}),
    ("args.name:ada", {"args.name": "Ada"}),
    ("!args.name:ada state:failed", {"args.name": "bea", "state": "failed"}),
]


def searched(
    store: Store, text: str, now: datetime, piece: int, lanes: Lanes = ()
) -> tuple[seek.Seek, list[int]]:
    chosen = parse(text, jobs.FIELDS)
    assert not chosen.problem
    asked = sought(chosen, Around(now, NAMES, 3, lanes))
    going = store.run(seek.begin(asked.where, asked.meant, asked.numbers))
    going.piece = piece
    listed: list[int] = []
    before = -1
    while not going.is_over:
        assert going.looked > before, "it does not get on"
        before = going.looked
        listed += [one["seq"] for one in store.run(seek.go_on(going, 10_000))]
    return going, listed


def test_every_term_counts_what_mongodb_and_the_screen_count(store: Store) -> None:
    now = store.run(read.now())
    documents = fill(store, now)
    rows = tuple(job_row(one["_id"], one, Cleaner()) for one in documents)
    shown = picture(3, at=now)
    scene = Scene(
        replace(shown, status=replace(shown.status, members=3)),
        JobList(rows),
        (),
        None,
        View(),
        Look(DARK, is_ascii=False),
        names=NAMES,
    )
    for text, own in FILTERS:
        going, listed = searched(store, text, now, 150)
        chosen = parse(text, jobs.FIELDS)
        kept = [row.seq for row in rows if chosen.matches(jobs.JobFacts(row, scene))]
        assert listed == kept[::-1], text
        assert going.found == len(kept), text
        assert (going.looked, going.total) == (JOBS, JOBS), text
        if own is not None:
            assert going.found == store.database.jobs.count_documents(own), text
    for text, own in OF_THE_STORE:
        going, listed = searched(store, text, now, 150)
        assert going.found == len(listed) == store.database.jobs.count_documents(own), text


def test_a_rank_is_that_of_the_owner_where_members_offer_different_tasks(store: Store) -> None:
    now = store.run(read.now())
    documents = fill(store, now)
    offers = {"ada": ["shop"], "bea": ["shop"], "cyd": ["shop", "x"]}
    tasks = {"shop": ["Mail"], "x": ["y"]}  # nobody offers shop.resize
    kinds = tuple(
        Kind.made(Offer.of(ModuleOffer(name, "1", tuple(tasks[name])) for name in names), [node])
        for node, names in offers.items()
    )
    epoch = Epoch(0.0, 1, tuple(offers), kinds=kinds)
    for rank in range(3):
        _, listed = searched(store, f"rank:{rank}", now, 150, epoch.lanes_of(()))
        owned = [one["seq"] for one in documents if epoch.rank_of(one["seq"], one["task"]) == rank]
        assert listed == owned[::-1]
    assert {one["task"] for one in documents if epoch.rank_of(one["seq"], one["task"]) == 0} == {
        "shop.Mail"
    }


@pytest.mark.parametrize(
    ("text", "index"),
    [
        ("state:failed", "unsuccessful"),
        ("state:failed since:10m err~x", "unsuccessful"),
        ("state:queued,working", "held"),
        ("seq:5", "seq"),
    ],
)
def test_what_an_index_holds_is_found_on_it(store: Store, text: str, index: str) -> None:
    now = store.run(read.now())
    fill(store, now)
    asked = sought(parse(text), Around(now))
    going = store.run(seek.begin(asked.where, asked.meant, asked.numbers))
    assert going.routes[0].index == index


def test_a_piece_is_bounded_and_tells_how_far_it_has_looked(store: Store) -> None:
    now = datetime.now(UTC)
    fill(store, now)
    asked = sought(parse("task:x.y"), Around(now))
    going = store.run(seek.begin(asked.where, asked.meant))
    going.piece = 100
    assert not going.routes
    first = store.run(seek.go_on(going, 5))
    assert len(first) == 5
    assert min(one["seq"] for one in first) > JOBS - 100
    assert (going.looked, going.is_over) == (100, False)
    newest = {"task": "x.y", "seq": {"$gt": JOBS - 100}}
    assert going.found == store.database.jobs.count_documents(newest)
    assert store.run(seek.go_on(going, 0)) == []
    assert going.looked == 200
