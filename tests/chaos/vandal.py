"""Writes odd values past every check, removes what nodes need, and remembers what it touched: only
that is excused."""

from __future__ import annotations

from collections.abc import Callable, Sequence
from contextlib import suppress
from datetime import UTC, datetime, timedelta
from functools import partial
from random import Random
from typing import Any

import pymongo
from pymongo.database import Database
from pymongo.errors import PyMongoError

from tests.support import odd
from tontine.diagnose.audit.invariant import Finding
from tontine.diagnose.audit.plan_changes import plan_of
from tontine.errors import TontineError
from tontine.records.change import Delta
from tontine.records.schedule import Schedule
from tontine.store import schedules
from tontine.store.call import Store
from tontine.store.names import (
    BELL,
    CLUSTER,
    COUNTER,
    EVENTS,
    JOBS,
    LOGS,
    NODES,
    OUTPUTS,
    PLANS,
    RANGES,
    ROSTER,
    SCHEDULES,
    STATES,
)
from tontine.store.states import CHANGES

TICK = "tick"
"""The schedule that nobody touches: it must fire whatever becomes of the others."""

_STATE = "chaos/prices"
_ODD = ("odd-0", "odd-1", "odd-2")
_WITHIN = 2.0
_JOB_FIELDS = (
    *(
        "attempt",
        "attempt",
        "fails",
        "lost",
        "timeout",
        "priority",
        "node",
        "node",
        "max_attempts",
        "cancel",
    ),
    *("created_at", "started_at", "progress", "errors", "error", "result"),
    *("plan", "stopped", "refused", "more"),
)
_NODE_FIELDS = (
    *(
        "beat",
        "lease",
        "state",
        "desired",
        "modules",
        "careful",
        "share",
        "slots",
        "running",
        "tick",
        "metrics",
    ),
    *("troubles", "lease_until"),
)
_MODULE_FIELDS = ("wants", "wants", "reload", "reload", "reloading", "contexts", "modules")
_PLAN_FIELDS = (
    *("state", "try", "rev", "steps", "widths", "marks", "added", "undo", "no_undo", "outcome"),
    *("seq", "key", "tenant", "priority", "on_failure", "finally", "cause", "error"),
    *("created_at", "finished_at", "expire_at", "steps.leg", "widths.leg"),
)
_SCHEDULE_FIELDS = ("args", "cron", "every", "timezone", "missed", "next_at")


class Vandal:
    """Has all rights. What it does is said in `told`; None means that there was nothing to do it
    to."""

    def __init__(self, store: Store, healed_within: float) -> None:
        self.told = ""
        self.hurt_node = ""
        """The name of the node whose record was touched last, if it was one."""
        self.jobs: set[str] = set()
        self.nodes: set[str] = set()
        self.schedules: set[str] = set()
        self.plans: set[str] = set()
        self.plan_seqs: set[Any] = set()
        """The numbers of plans that were touched, or one of whose jobs was."""
        self._shared: list[tuple[str, datetime]] = []
        self._wants: dict[Any, Any] = {}
        """What nodes were to have, by their ids, before somebody spoilt that."""
        self._healed_within = timedelta(seconds=healed_within)
        self._store = store
        self._database: Database[Any] = store.database

    def set_up(self) -> None:
        """Schedules to fire, and to scribble on."""
        for name in (TICK, *_ODD):
            self._store.run(schedules.add(Schedule(name, "chaos.quick", every=2.0)))

    def set_up_again(self) -> None:
        """What users made is for them to make again, once somebody has removed it."""
        with (
            suppress(PyMongoError, TontineError),
            pymongo.timeout(_WITHIN),
        ):  # when calm returns it is made sure of
            self.set_up()

    def put_back(self) -> None:
        """As an operator would: what nodes are to have. Nobody else can know."""
        for node, wants in list(self._wants.items()):
            with suppress(PyMongoError), pymongo.timeout(_WITHIN):
                self._database[NODES].update_one({"_id": node}, {"$set": {"wants": wants}})
                del self._wants[node]

    def take_down(self) -> None:
        """No more jobs from schedules."""
        self._database[SCHEDULES].delete_many({})

    @property
    def touched_counter(self) -> bool:
        return any(name == COUNTER for name, _ in self._shared)

    def excuses(self, change: Delta) -> bool:
        """Whether a change is one of a document that was touched, before it can have been put
        right."""
        if change.collection in (CLUSTER, STATES):
            at = datetime.fromtimestamp(change.at, UTC)
            second = timedelta(seconds=1)
            return any(
                name == change.id and since - second <= at <= since + self._healed_within
                for name, since in self._shared
            )
        touched = {JOBS: self.jobs, NODES: self.nodes, PLANS: self.plans}
        return repr(change.id) in touched.get(change.collection, ())

    def excuses_finding(self, finding: Finding, seqs: set[Any]) -> bool:
        """Whether a finding is about such a document; `seqs` are those of the jobs that were
        touched."""
        if finding.plan is not None:
            return finding.plan in self.plan_seqs
        if finding.seq is not None:
            return finding.seq in seqs
        if finding.node is not None:
            return repr(finding.node) in self.nodes
        # What was recorded of epochs while the roster was not what it should be stays recorded.
        return finding.invariant == "S5" and any(name == ROSTER for name, _ in self._shared)

    def scribble(self, random: Random) -> bool:
        """Odd values in one to three documents."""
        ways: dict[Callable[[Random], str], int] = {
            self._scribble_job: 6,
            self._scribble_node: 3,
            self._scribble_plan: 3,
            self._scribble_schedule: 2,
            self._scribble_roster: 1,
            self._scribble_counter: 1,
        }
        self.hurt_node = ""
        return self._try(lambda: random.choices(list(ways), list(ways.values()))[0](random))

    def spoil(self, random: Random) -> bool:
        """Something that modules rely on is not what it was."""
        ways: dict[Callable[[], str], int] = {
            partial(self._scribble_node, random, _MODULE_FIELDS): 4,
            partial(self._scribble_kinds, random): 4,
            partial(self._scribble_ranges, random): 2,
            self._drop_ranges: 2,
            self._drop_state: 1,
            self._drop_changes: 1,
            self._drop_outputs: 2,
        }
        self.hurt_node = ""
        return self._try(random.choices(list(ways), list(ways.values()))[0])

    def drop(self, random: Random) -> bool:
        """Something that nodes rely on is gone."""
        ways: dict[Callable[[], str], int] = {
            self._drop_index: 3,
            self._drop_plan_index: 2,
            self._drop_roster: 3,
            self._lower_counter: 3,
            **{partial(self._drop_collection, name): 1 for name in (BELL, SCHEDULES, EVENTS, LOGS)},
        }
        self.hurt_node = ""
        return self._try(random.choices(list(ways), list(ways.values()))[0])

    def _try(self, way: Callable[[], str]) -> bool:
        try:
            with pymongo.timeout(_WITHIN):
                self.told = way()
        except PyMongoError as error:  # no primary now: it may have happened all the same
            self.told = f"perhaps, {type(error).__name__}"
        return bool(self.told)

    def _scribble_job(self, random: Random) -> str:
        found = self._database[JOBS].aggregate(
            [
                {"$match": {"state": {"$in": ["queued", "working"]}, "seq": {"$gte": 0}}},
                {"$sample": {"size": random.randint(1, 3)}},
                {"$project": {"seq": 1, "state": 1}},
            ]
        )
        said = []
        for job in found:
            self.jobs.add(repr(job["_id"]))
            self.plan_seqs |= {plan_of(job["_id"])} - {None}
            field, value = random.choice(_JOB_FIELDS), random.choice(list(odd.VALUES))
            odd.scribble(self._database[JOBS], {"_id": job["_id"]}, field, value)
            said.append(f"{field}: {value} in {job['state']} job {job['seq']}")
        return "; ".join(said)

    def _scribble_node(self, random: Random, fields: Sequence[str] = _NODE_FIELDS) -> str:
        live = list(self._database[NODES].find({"state": {"$ne": "dead"}}, {"name": 1, "wants": 1}))
        if not live:
            return ""
        node = random.choice(sorted(live, key=lambda one: str(one["_id"])))
        self.nodes.add(repr(node["_id"]))
        self.hurt_node = str(node.get("name"))
        field, value = random.choice(fields), random.choice(list(odd.VALUES))
        if field == "wants" and value == "[]":
            value = "[1]"  # the other is an order, and nothing odd
        if field == "wants":
            self._wants.setdefault(node["_id"], node.get("wants"))
        odd.scribble(self._database[NODES], {"_id": node["_id"]}, field, value)
        return f"{field}: {value} in the record of {node['_id']}"

    def _scribble_plan(self, random: Random) -> str:
        newest = self._database[PLANS].find({"seq": {"$gte": 0}}, {"seq": 1, "state": 1})
        found = list(newest.sort("seq", -1).limit(30))
        if not found:
            return ""
        plan = random.choice(found)
        self.plans.add(repr(plan["_id"]))
        self.plan_seqs.add(plan["seq"])
        field, value = random.choice(_PLAN_FIELDS), random.choice(list(odd.VALUES))
        odd.scribble(self._database[PLANS], {"_id": plan["_id"]}, field, value)
        return f"{field}: {value} in {plan.get('state')} plan {plan['seq']}"

    def _scribble_schedule(self, random: Random) -> str:
        name, field = random.choice(_ODD), random.choice(_SCHEDULE_FIELDS)
        value = random.choice(list(odd.VALUES))
        self.schedules.add(name)
        odd.scribble(self._database[SCHEDULES], {"_id": name}, field, value)
        return f"{field}: {value} in schedule {name}"

    def _scribble_roster(self, random: Random) -> str:
        return self._scribble_shared(ROSTER, random.choice(["epoch", "members"]), random)

    def _scribble_kinds(self, random: Random) -> str:
        fields = ["kinds", "kinds.0.of", "kinds.0.modules"]
        return self._scribble_shared(ROSTER, random.choice(fields), random)

    def _scribble_ranges(self, random: Random) -> str:
        return self._scribble_shared(RANGES, random.choice(["tasks", "checked_at"]), random)

    def _scribble_counter(self, random: Random) -> str:
        return self._scribble_shared(COUNTER, "seq", random) if self._seqs_are_unique() else ""

    def _scribble_shared(self, name: str, field: str, random: Random) -> str:
        value = random.choice(list(odd.VALUES))
        self._touch(name)
        odd.scribble(self._database[CLUSTER], {"_id": name}, field, value)
        return f"{field}: {value} in the {name}"

    def _touch(self, name: str) -> None:
        self._shared.append((name, datetime.now(UTC)))

    def _drop_index(self) -> str:
        unique = [
            name
            for name, index in self._database[JOBS].index_information().items()
            if index["key"] == [("seq", 1)] and index.get("unique")
        ]
        for name in unique:
            self._database[JOBS].drop_index(name)
        return f"the index {', '.join(unique)}" if unique else ""

    def _drop_plan_index(self) -> str:
        """Any of them: plans wait until it is back."""
        names = sorted(set(self._database[PLANS].index_information()) - {"_id_"})
        if not names:
            return ""
        name = names[len(self._shared) % len(names)]
        self._database[PLANS].drop_index(name)
        return f"the index {name} of plans"

    def _drop_roster(self) -> str:
        self._touch(ROSTER)
        self._database[CLUSTER].delete_one({"_id": ROSTER})
        return "the roster"

    def _drop_ranges(self) -> str:
        """Nodes walk the queue and note them again (MV3)."""
        gone = self._database[CLUSTER].delete_one({"_id": RANGES}).deleted_count
        return "the ranges" if gone else ""

    def _drop_state(self) -> str:
        self._touch(_STATE)
        gone = self._database[STATES].delete_one({"_id": _STATE}).deleted_count
        return f"the state {_STATE}" if gone else ""

    def _drop_changes(self) -> str:
        gone = self._database[CLUSTER].delete_one({"_id": CHANGES}).deleted_count
        return "the count of changes of states" if gone else ""

    def _drop_outputs(self) -> str:
        """Of one job: the stages that made them run again (ME4)."""
        found = self._database[OUTPUTS].find_one({}, {"_id": 1}, sort=[("_id", -1)])
        if found is None:
            return ""
        seq = found["_id"]["seq"]
        job = self._database[JOBS].find_one({"seq": seq}, {"_id": 1})
        self.jobs |= {repr(job["_id"])} if job else set()
        self._database[OUTPUTS].delete_many({"_id.seq": seq})
        return f"the outputs of job {seq}"

    def _lower_counter(self) -> str:
        if not self._seqs_are_unique():
            return ""
        self._touch(COUNTER)
        lower = [{"$set": {"seq": {"$subtract": ["$seq", 500]}}}]
        counter = {"_id": COUNTER, "seq": {"$type": "number", "$gt": 600}}
        return (
            "500 numbers"
            if self._database[CLUSTER].update_one(counter, lower).modified_count
            else ""
        )

    def _seqs_are_unique(self) -> bool:
        """Without that, numbers that are given again would be those of two jobs, and nobody could
        help it."""
        return all(
            any(
                index["key"] == [("seq", 1)] and index.get("unique")
                for index in self._database[name].index_information().values()
            )
            for name in (JOBS, PLANS)
        )

    def _drop_collection(self, name: str) -> str:
        self._database.drop_collection(name)
        return name
