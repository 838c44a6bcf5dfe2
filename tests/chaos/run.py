"""One chaos run: servers, nodes and producers start, faults come and go, calm returns, and
everything is audited."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from dataclasses import dataclass, field, replace
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any

from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.chaos import leftovers
from tests.chaos.crew import Crew
from tests.chaos.injector import Injector
from tests.chaos.load import Load
from tests.chaos.plan import KINDS, Fault, Plan
from tests.chaos.vandal import TICK, Vandal
from tests.chaos.verdict import Verdict, judge, members_of
from tests.chaos.watch import Scales, Stall, Witness
from tests.support.eventually import eventually
from tests.support.replica_set import ReplicaSet
from tontine.errors import StoreUnavailable, TontineError
from tontine.records.states import UNFINISHED_PLAN
from tontine.store import read, schema
from tontine.store.call import Store

DATABASE = "chaos"
ELECTION = 2.0
STEP = 0.1
STOP_WITHIN, END_WITHIN = 60.0, 20.0
HEALED_WITHIN = 6
"""Leases after which nothing that was written into roster or counter may show: servers may be down
meanwhile."""
TELL_EVERY = 10.0
TOLD = ("data", "modules")
FATAL = ("kill", "kill-master", "stop")
HARMLESS = ("pause", "kill-worker", "freeze-worker")
"""What befalls a node and gives nobody a reason to bury it."""

Say = Callable[[str], None]


@dataclass(frozen=True, slots=True)
class Hurt:
    """When something was done to a node, and until when that may show; None: the process did not
    survive it."""

    at: datetime
    until: datetime | None

    def explains(self, started_at: datetime, died_at: datetime) -> bool:
        """Whether it can be why an incarnation was buried."""
        if self.until is None:
            return started_at <= self.at <= died_at
        return self.at <= died_at <= self.until


@dataclass(slots=True)
class Scene:
    """Everything that takes part in a run."""

    servers: ReplicaSet
    crew: Crew
    store: Store
    load: Load
    witness: Witness
    injector: Injector
    vandal: Vandal
    lease: float
    scales: Scales
    stall: Stall = field(default_factory=Stall)
    troubles: list[str] = field(default_factory=list)
    hurts: dict[str, list[Hurt]] = field(default_factory=dict)
    """What was done to which node."""

    def note_hurt(self, name: str, kind: str, lasts: float) -> None:
        now = datetime.now(UTC)
        end = None if kind in FATAL else now + timedelta(seconds=lasts + 3 * self.lease)
        self.hurts.setdefault(name, []).append(Hurt(now, end))


def run(plan: Plan, seed: int, seconds: float, lease: float, directory: Path, say: Say) -> Verdict:
    """The verdict on one run."""
    with ReplicaSet(directory, election=ELECTION) as servers:
        client: MongoClient[dict[str, Any]] = MongoClient(
            servers.uri,
            tz_aware=True,
            unicode_decode_error_handler="replace",
            datetime_conversion="DATETIME_AUTO",
        )
        crew = Crew(servers, DATABASE, directory, lease)
        try:
            scene = _start(plan, seed, lease, servers, crew, Store(client[DATABASE]))
            say(
                f"{len(crew.hands)} nodes, {len(servers.servers)} servers: faults for "
                f"{seconds:.0f} s"
            )
            try:
                _suffer(scene, plan, seconds, say)
            finally:
                scene.load.stop()
            _calm_down(scene, say)
            scene.witness.stop()
            verdict = judge(scene)
            say("all nodes are asked to stop")
            return replace(verdict, violations=(*verdict.violations, *_ends(crew)))
        finally:
            crew.close()
            leftovers.end(crew.runs)
            client.close()


def _ends(crew: Crew) -> Iterator[str]:
    """What is wrong with how the nodes end, and with what is left of them."""
    yield from crew.stop_all(STOP_WITHIN)
    crew.look()
    yield from crew.deserters
    try:
        eventually(lambda: not leftovers.survivors(crew.runs, crew.killed), END_WITHIN)
    except AssertionError:
        yield from leftovers.survivors(crew.runs, crew.killed)


def _start(
    plan: Plan, seed: int, lease: float, servers: ReplicaSet, crew: Crew, store: Store
) -> Scene:
    store.run(schema.init())
    witness = Witness(servers.uri, DATABASE)
    witness.start()
    for place, clock in enumerate(plan.clocks):
        crew.hire(f"node{place}", clock)
    eventually(
        lambda: len(store.run(read.read_cluster())[0].members) == len(plan.clocks),
        90,
        "all nodes joined",
    )
    producer = crew.proxy()
    load = Load(servers.uri_of(producer.address), DATABASE, seed)
    vandal = Vandal(store, healed_within=HEALED_WITHIN * lease)
    vandal.set_up()
    injector = Injector(crew, servers, store, producer, load, vandal)
    load.start()
    return Scene(servers, crew, store, load, witness, injector, vandal, lease, Scales(crew))


def _suffer(scene: Scene, plan: Plan, seconds: float, say: Say) -> None:
    began, waiting, told = time.monotonic(), list(plan.faults), 0.0
    while (now := time.monotonic() - began) < seconds:
        scene.injector.undo(now)
        while waiting and waiting[0].at <= now:
            fault = waiting.pop(0)
            whom = scene.crew.hands[fault.target].name
            if scene.injector.inject(fault, now):
                _note_hurts(scene, fault, whom)
                details = f": {scene.vandal.told}" if KINDS[fault.kind].befalls in TOLD else ""
                say(f"{now:6.1f} s  {fault}{details}")
            else:
                say(f"{now:6.1f} s  {fault}  (missed)")
        _look_around(scene)
        if now - told >= TELL_EVERY:
            told = now
            scene.scales.weigh()
            say(
                f"{now:6.1f} s  {len(scene.load.sure):,} jobs taken, "
                f"{scene.witness.history.changes:,} changes seen"
            )


def _note_hurts(scene: Scene, fault: Fault, whom: str) -> None:
    if KINDS[fault.kind].befalls == "node" and fault.kind not in HARMLESS:
        scene.note_hurt(whom, fault.kind, fault.lasts)
    elif fault.kind in ("scribble", "spoil") and scene.vandal.hurt_node:
        scene.note_hurt(scene.vandal.hurt_node, fault.kind, fault.lasts)


def _look_around(scene: Scene) -> None:
    if scene.stall.sleep(STEP) > scene.lease / 4:
        for hand in scene.crew.hands:
            scene.note_hurt(hand.name, "stall", 0.0)
    scene.crew.look()
    for hand in list(scene.crew.hands):
        if hand.name.startswith("extra") and hand.node is None:
            scene.crew.dismiss(hand)
        elif hand.is_leaving and not scene.hurts.get(hand.name):
            scene.note_hurt(hand.name, "stop", 0.0)


def _calm_down(scene: Scene, say: Say) -> None:
    """End every fault, let extra nodes leave, and wait until every job and plan has ended."""
    scene.injector.end_all()
    say("calm: no more faults, no more jobs")
    for hand in scene.crew.hands:
        if hand.name.startswith("extra"):
            scene.crew.ask_to_stop(hand)
        elif not hand.is_up:
            scene.crew.start(hand)
    _see_a_schedule_fire(scene)
    until = time.monotonic() + 12 * scene.lease + 60
    while time.monotonic() < until and not (_is_done(scene) and _is_complete(scene)):
        _look_around(scene)
        scene.vandal.put_back()
        scene.injector.ask_again()


def _see_a_schedule_fire(scene: Scene) -> None:
    """The one that nobody touched still does; then there are no more schedules."""
    jobs = scene.store.database.jobs
    try:
        eventually(lambda: _set_up(scene), 30, "schedules can be added")
        known = jobs.count_documents({"schedule": TICK})
        eventually(lambda: jobs.count_documents({"schedule": TICK}) > known, 60, "it fires")
    except AssertionError as error:
        scene.troubles.append(f"the schedule {TICK!r} does not fire any more: {error}")
    scene.vandal.take_down()


def _set_up(scene: Scene) -> bool:
    try:
        scene.vandal.set_up()
    except TontineError:
        return False
    return True


def _is_done(scene: Scene) -> bool:
    """Whether every job and every plan has ended, but plans that somebody scribbled on."""
    try:
        unfinished = {"state": {"$in": [None, *sorted(UNFINISHED_PLAN)]}}
        plans = list(scene.store.database.plans.find(unfinished, {"_id": 1}))
        if any(repr(plan["_id"]) not in scene.vandal.plans for plan in plans):
            return False
        counts = scene.store.run(read.count_states())
        return not (
            counts.get("queued")
            or counts.get("working")
            or scene.store.run(read.find_unnumbered(1))
        )
    except (StoreUnavailable, PyMongoError):
        return False


def _is_complete(scene: Scene) -> bool:
    """Whether the roster holds every place's node, and nobody else."""
    try:
        roster = scene.store.database.cluster.find_one({"_id": "roster"}) or {}
        nodes = list(scene.store.database.nodes.find({"state": {"$ne": "dead"}}, {"name": 1}))
    except PyMongoError:
        return False
    names = sorted(hand.name for hand in scene.crew.hands)
    has_guests = any(name.startswith("extra") for name in names)
    is_agreed = sorted(members_of(roster)) == sorted(str(node["_id"]) for node in nodes)
    return not has_guests and is_agreed and sorted(str(node.get("name")) for node in nodes) == names


def faults_of(plan: Plan) -> Iterator[str]:
    """The plan, for people."""
    for place, minutes in enumerate(plan.clocks):
        if minutes:
            yield f"         node {place}'s clock is {minutes:+.1f} min wrong"
    for fault in plan.faults:
        yield f"{fault.at:6.1f} s  {fault}"
