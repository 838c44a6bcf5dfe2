"""Asks the store what `tontine doctor` judges. Everything about the queue is bounded and on
indexes; anything about the server may be refused for want of a right, which is an answer, too."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Iterable, Iterator, Mapping, Sequence
from dataclasses import replace
from datetime import datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

from bson import ObjectId, Timestamp
from bson.son import SON

from ...errors import NotPermitted
from ...legible import legible
from ...offers import Offers
from ...records.change import seconds
from ...records.node import Sighting
from ...records.plan import all_of
from ...records.schedule import Broken, Schedule
from ...records.states import FINAL, OPEN, JobState, NodeState, PlanState
from ...rules.complaint import Outcomes
from ...rules.health import (
    LATELY,
    LATEST_JOBS,
    QUIET_PLAN_AFTER,
    Queue,
    known_tasks,
    working_members,
)
from ...store import schema, window
from ...store.call import (
    Call,
    Operation,
    command,
    count_documents,
    delete_one,
    find,
    find_one,
    insert_one,
)
from ...store.claim import overview
from ...store.inbox import is_open, is_strict, read_options
from ...store.indexes import (
    DUE_INDEX,
    HELD,
    NEW_PLANS,
    NUMBERED,
    OPEN_JOBS,
    OPEN_PLANS,
    RANKED_INDEX,
    on_index,
)
from ...store.names import CLUSTER, INBOX, JOBS, NODES, PLANS, SETTINGS
from ...store.read import (
    IS_DUE,
    count_held,
    find_unnumbered,
    now,
    read_cluster,
    read_namesakes,
    read_nodes,
)
from ...store.retention import read_retention
from ...store.roles import EVERY, NODE, ROLES, covers, lacking
from ...store.schedules import read_slim
from .backlog import Kept, Recent, Unclaimable, Unnumbered, Version, Waits
from .nodes import NodesSeen
from .plans import PlanQuiet, PlansSeen
from .schedules import Survey
from .server import INBOX_COUNTED, Inbox, Oplog, Rights

NEWEST = 10_000
COUNTED_AT_MOST = 1_000_000
TASKS_AT_MOST = 200
RAW_AT_MOST = 1000
SCHEDULES_AT_MOST = 10_000
PLANS_AT_MOST = 100


def hello() -> Operation[dict[str, Any]]:
    answer: dict[str, Any] = yield command({"hello": 1})
    return answer


def member_health() -> Operation[list[dict[str, Any]]]:
    """The replica set's members; asked of `admin`."""
    answer = yield command({"replSetGetStatus": 1})
    return list(answer["members"])


def version() -> Operation[str]:
    answer = yield command({"buildInfo": 1})
    return str(answer["version"])


def compatibility() -> Operation[str]:
    """The feature compatibility version; asked of `admin`."""
    answer = yield command(SON([("getParameter", 1), ("featureCompatibilityVersion", 1)]))
    return str(answer["featureCompatibilityVersion"]["version"])


def default_write_concern() -> Operation[dict[str, Any]]:
    """What writes wait for that do not say; asked of `admin`."""
    answer = yield command({"getDefaultRWConcern": 1})
    return dict(answer.get("defaultWriteConcern") or {"w": 1})


def rights(database: str) -> Operation[Rights | None]:
    """What this user may be, and what it lacks or has too much; None without access control."""
    privileges = yield from _privileges()
    if privileges is None:
        return None
    lacks = {role.word: lacking(role.needs, privileges, database) for role in ROLES}
    return Rights(
        tuple(word for word, missing in lacks.items() if not missing),
        lacks[NODE.word],
        lacking(NODE.making, privileges, database),
        tuple(_excesses(privileges, database)),
    )


def may_change(database: str, collection: str) -> Operation[bool]:
    """Whether this user may update a collection; True without access control."""
    privileges = yield from _privileges()
    return privileges is None or not lacking({collection: ("update",)}, privileges, database)


def _privileges() -> Operation[list[dict[str, Any]] | None]:
    """This user's; None without access control."""
    answer = yield command(SON([("connectionStatus", 1), ("showPrivileges", True)]))
    info = answer["authInfo"]
    if info["authenticatedUsers"]:
        return list(info.get("authenticatedUserPrivileges", ()))
    try:
        yield find_one(CLUSTER, {}, projection={"_id": 1})
    except NotPermitted:
        return []
    return None


def _excesses(privileges: Sequence[Mapping[str, Any]], database: str) -> Iterator[str]:
    """What nobody needs for a queue, if this user has it."""
    here = {
        action
        for one in privileges
        if covers(one["resource"], database)
        for action in one["actions"]
    }
    everywhere = {
        action for one in privileges if covers(one["resource"], "") for action in one["actions"]
    }
    server = {
        action for one in privileges if one["resource"].get("cluster") for action in one["actions"]
    }
    if here & {"createUser", "createRole", "grantRole", "changePassword"}:
        yield "change users and roles"
    if "dropDatabase" in here:
        yield f"drop {database} whole"
    if everywhere & {"insert", "update", "remove"}:
        yield "write to every database"
    if server & {"shutdown", "replSetConfigure", "setParameter"}:
        yield "manage the server"


def open_stream(database: str) -> Operation[bool | None]:
    """Whether a change stream over the database opens; it is closed at once.

    None is a user who may not, and does not need to: only whoever may read the whole queue can
    observe it.
    """
    pipeline = [{"$changeStream": {}}, {"$match": {"operationType": "none"}}]
    try:
        answer = yield command(SON([("aggregate", 1), ("pipeline", pipeline), ("cursor", {})]))
    except NotPermitted:
        privileges = yield from _privileges()
        return (
            False if privileges and not lacking({EVERY: ("find",)}, privileges, database) else None
        )
    cursor = answer["cursor"]
    yield command(
        SON([("killCursors", cursor["ns"].partition(".")[2]), ("cursors", [cursor["id"]])])
    )
    return True


def round_trip() -> Operation[float]:
    """Seconds that a majority write takes; what it wrote is removed."""
    probe = {"_id": f"doctor-{uuid4().hex}"}
    yield delete_one(CLUSTER, probe, repeats=True)  # who may not remove it must not insert it
    began = time.monotonic()
    try:
        yield insert_one(CLUSTER, dict(probe))
        return time.monotonic() - began
    finally:
        yield delete_one(CLUSTER, probe, repeats=True)


def clock_ahead() -> Operation[float]:
    """How far this machine's clock is ahead of the server's, in seconds, to within half a round
    trip."""
    yield command({"hello": 1})  # the first call may have to connect
    before = time.time()
    server = yield from now()
    return (before + time.time()) / 2 - server.timestamp()


def oplog() -> Operation[Oplog]:
    """How far back the oplog reaches; asked of `local`."""
    ends: list[int] = []
    for direction in (1, -1):
        entry = yield find_one("oplog.rs", {}, sort=[("$natural", direction)], projection={"ts": 1})
        ends.append(entry["ts"].time if entry and isinstance(entry["ts"], Timestamp) else 0)
    stats = yield command({"collStats": "oplog.rs"})
    return Oplog(float(ends[1] - ends[0]), int(stats.get("size", 0)), int(stats.get("maxSize", 0)))


def inbox() -> Operation[Inbox | None]:
    """The state of the inbox; None in a deployment that has none."""
    settings = yield find_one(CLUSTER, {"_id": SETTINGS})
    options = yield from read_options()
    if options is None:
        return Inbox() if is_open(settings) else None
    plain = {"$type": "objectId"}
    waiting = yield _count_in_inbox({"_id": plain})
    foreign = yield _count_in_inbox({"_id": {"$not": plain}})
    return Inbox(True, is_open(settings), is_strict(options), int(waiting), int(foreign))


def _count_in_inbox(which: Mapping[str, Any]) -> Call:
    return count_documents(INBOX, which, limit=INBOX_COUNTED)


def validator_faults() -> Operation[list[str]]:
    """Collections whose validator is missing or not the one it should be."""
    return [
        fault
        for fault in (yield from schema.collection_faults())
        if fault.endswith("another validator")
    ]


def schema_version() -> Operation[Version]:
    """The schema's version, and the one that this software knows."""
    return Version((yield from schema.read_version()), schema.VERSION)


def kept() -> Operation[Kept]:
    """Retention, and about how many jobs have ended: all but those that an index says are open."""
    retention = yield from read_retention()
    total: int = yield Call(JOBS, "estimated_document_count", repeats=True)
    open_jobs = 0
    for index, where in OPEN_JOBS.items():
        open_jobs += yield from on_index(index, partial(_counting, where))
    return Kept(retention.done, retention.failed, max(0, total - open_jobs))


def _counting(where: Mapping[str, Any], index: str) -> Call:
    return count_documents(JOBS, where, hint=index, limit=COUNTED_AT_MOST, within=30)


def unclaimable() -> Operation[Unclaimable]:
    """Jobs that are due, of tasks that no live node has."""
    nodes = [Sighting.from_document(one) for one in (yield from read_nodes(dead=False))]
    known = known_tasks(nodes)
    waiting = yield from _fresh_but(known)
    for index in (DUE_INDEX, RANKED_INDEX):
        found = yield from on_index(index, partial(_waiting, OPEN_JOBS[index]))
        tasks = [str(job.get("task")) for job in found]
        waiting.update(task for task in tasks if task not in known)
    unserved = {key: number for key, number in waiting.items() if not _is_served(key, nodes)}
    return Unclaimable(unserved, known, NEWEST)


def _is_served(key: str, nodes: Iterable[Sighting]) -> bool:
    """Whether a live node has the task of a key, in a version inside its range."""
    return any(node.serves(key) for node in nodes if not node.is_dead)


def _waiting(where: Mapping[str, Any], index: str) -> Call:
    shown = {"_id": 0, "task": 1}
    return find(JOBS, {**where, **IS_DUE}, hint=index, limit=NEWEST, projection=shown)


def _fresh_but(known: frozenset[str]) -> Operation[Counter[str]]:
    """Walks from task to task in the index, however many jobs are queued of each."""
    waiting: Counter[str] = Counter()
    fresh, last = OPEN_JOBS["fresh"], ""
    for _ in range(TASKS_AT_MOST):
        where = {**fresh, "task": {"$gt": last}}
        found = yield find_one(
            JOBS, where, sort=[("task", 1)], hint="fresh", projection={"task": 1}
        )
        if found is None:
            break
        last = str(found["task"])
        if last not in known:
            options: dict[str, Any] = {"hint": "fresh", "limit": NEWEST + 1}
            waiting[last] = yield count_documents(JOBS, {**fresh, "task": last}, **options)
    return waiting


def recent() -> Operation[Recent]:
    """How the jobs ended that ended lately; those that failed and wait for another attempt have not
    ended, but that went wrong."""
    moment = yield from now()
    newest = yield from _newest()
    tasks: dict[str, Outcomes] = {}
    for one in (*filter(_failed_once, newest), *(yield from _ended(newest))):
        finished_at, task = one.get("finished_at"), legible(one.get("task"), 100)
        known = tasks.get(task, Outcomes(task))
        if _failed_once(one):
            ago = 0.0
        elif isinstance(finished_at, datetime):
            ago = (moment - finished_at).total_seconds()
        else:
            continue
        if ago < LATELY and known.ended < LATEST_JOBS:
            tasks[task] = _counted(known, one, ago)
    return Recent(tuple(tasks.values()))


def _failed_once(job: Mapping[str, Any]) -> bool:
    return bool(job.get("fails")) and job.get("state") == JobState.QUEUED


_OUTCOME = {
    "_id": 0,
    "seq": 1,
    "state": 1,
    "task": 1,
    "finished_at": 1,
    "fails": 1,
    "error.type": 1,
    "error.message": 1,
}


def _newest() -> Operation[list[dict[str, Any]]]:
    options: dict[str, Any] = {"limit": NEWEST, "hint": "seq", "projection": _OUTCOME}
    found: list[dict[str, Any]] = yield find(
        JOBS, {"seq": {"$gte": 0}}, sort=[("seq", -1)], **options
    )
    return found


def _ended(newest: Sequence[dict[str, Any]]) -> Operation[list[dict[str, Any]]]:
    """Those of the newest jobs that have ended; where the newest all wait, those before the first
    that does."""
    ended = [one for one in newest if str(one.get("state")) in FINAL]
    if newest and not ended:
        first = yield from oldest_fresh()
        seqs = [int(one["seq"]) for one in first.values()]
        ended = yield from window.read_passed(seqs, _OUTCOME)
    return ended


def _counted(known: Outcomes, job: Mapping[str, Any], ago: float) -> Outcomes:
    if job.get("state") == JobState.DONE:
        return replace(known, done=known.done + 1)
    if job.get("state") != JobState.FAILED and not _failed_once(job):
        return known
    error, text = job.get("error"), ""
    if isinstance(error, Mapping):
        text = legible(f"{error.get('type')}: {error.get('message')}", 200)
    return known.with_failure(text, ago)


def oldest_fresh() -> Operation[dict[str, dict[str, Any]]]:
    """The oldest fresh job of each task: from task to task in the index, however many are
    queued."""
    found: dict[str, dict[str, Any]] = {}
    last = ""
    for _ in range(TASKS_AT_MOST):
        one = yield find_one(
            JOBS,
            {**OPEN_JOBS["fresh"], "task": {"$gt": last}},
            sort=[("task", 1), ("seq", 1)],
            hint="fresh",
            projection={"task": 1, "seq": 1, "created_at": 1},
        )
        if one is None:
            break
        last = str(one["task"])
        found[last] = one
    return found


def waits() -> Operation[Waits]:
    """What waits, for how long, and what those who could run it do."""
    moment = yield from now()
    nodes = [Sighting.from_document(one) for one in (yield from read_nodes(dead=False))]
    around = yield from overview()
    members = working_members(nodes, around.roster)
    ranged = [key for key in sorted(around.ranges.keys) if _is_served(key, nodes)]
    keys = [*sorted(known_tasks(nodes))[:TASKS_AT_MOST], *ranged[:TASKS_AT_MOST]]
    first = yield from oldest_fresh()
    due = yield from on_index(DUE_INDEX, partial(_oldest_due, keys))
    since = [one.get("created_at") for task, one in first.items() if _is_served(task, nodes)]
    since += [one.get("run_at") for one in due]
    ages = [(moment - at).total_seconds() for at in since if isinstance(at, datetime)]
    counts = yield from window.count_open()
    active = yield from _active()
    queue = Queue(
        waiting=counts[JobState.QUEUED.value] if ages else 0,
        oldest_for=max(ages, default=None),
        slots=sum(node.slots for node in members),
        busy=sum(node.running for node in members),
        quiet_for=(moment - active).total_seconds() if active else max(ages, default=None),
    )
    return Waits(queue, (yield from _scheduled()))


def _oldest_due(keys: Sequence[str], index: str) -> Call:
    """Of these task keys: the index has an order for each of them, and none for all."""
    return find(
        JOBS,
        {**OPEN_JOBS[DUE_INDEX], **IS_DUE, "task": {"$in": list(keys)}},
        sort=[("run_at", 1)],
        hint=index,
        limit=RAW_AT_MOST,
        projection={"run_at": 1},
    )


def _active() -> Operation[datetime | None]:
    """When a job last started or ended, as far as the newest tell."""
    ended = yield from _ended((yield from _newest()))
    held = yield find(
        JOBS, HELD, hint="held", limit=RAW_AT_MOST, projection={"_id": 0, "started_at": 1}
    )
    moments = [one.get("finished_at") for one in ended] + [one.get("started_at") for one in held]
    return max((at for at in moments if isinstance(at, datetime)), default=None)


def _scheduled() -> Operation[dict[str, int]]:
    """Jobs of schedules that are due and have not ended, by schedule: a node that claims ahead and
    gives back leaves few of them fresh."""
    found: Counter[str] = Counter()
    for index in ("fresh", RANKED_INDEX, DUE_INDEX, "held"):
        answer = yield from on_index(index, partial(_by_schedule, OPEN_JOBS[index]))
        for one in answer["cursor"]["firstBatch"]:
            found[legible(one["_id"], 80)] += int(one["count"])
    return dict(found)


def _by_schedule(where: Mapping[str, Any], index: str) -> Call:
    pipeline = [
        {"$match": {**where, **IS_DUE}},
        {"$limit": NEWEST},
        {"$match": {"schedule": {"$gt": ""}}},
        {"$group": {"_id": "$schedule", "count": {"$sum": 1}}},
    ]
    return command({"aggregate": JOBS, "pipeline": pipeline, "hint": index, "cursor": {}})


def look_at(name: str) -> Operation[NodesSeen]:
    """Only the nodes with that name or id, and the roster: what a probe of one node costs."""
    nodes = yield from read_namesakes(name)
    roster, _ = yield from read_cluster()
    moment = nodes[0]["now"] if nodes else (yield from now())
    return NodesSeen(
        moment, tuple(map(Sighting.from_document, nodes)), roster, {}, Unnumbered((), None, moment)
    )


def look() -> Operation[NodesSeen]:
    """The nodes, the roster, who holds what, and the jobs without a number."""
    moment = yield from now()
    nodes = yield from read_nodes()
    roster, _ = yield from read_cluster()
    held = yield from count_held()
    raw = yield from find_unnumbered(RAW_AT_MOST)
    times = [one.generation_time for one in raw if isinstance(one, ObjectId)]
    seen = Unnumbered(tuple(map(repr, raw)), min(times, default=None), moment)
    sightings = tuple(map(Sighting.from_document, nodes))
    return NodesSeen(moment, sightings, roster, held, seen, (yield from _due()))


def _due() -> Operation[int]:
    """How many jobs wait that are due, as far as it is worth counting."""
    number = 0
    for index in ("fresh", DUE_INDEX, RANKED_INDEX, "raw"):
        number += yield from on_index(index, partial(_counting_due, OPEN_JOBS[index]))
    return number


def _counting_due(where: Mapping[str, Any], index: str) -> Call:
    later = IS_DUE if index == DUE_INDEX else {}
    return count_documents(JOBS, {**where, **later}, hint=index, limit=NEWEST)


def survey() -> Operation[Survey]:
    """The schedules without their arguments, which may be large, and what live nodes say about
    them."""
    judged = yield from read_slim(SCHEDULES_AT_MOST)
    schedules = tuple(one for one in judged if isinstance(one, Schedule))
    roster, _ = yield from read_cluster()
    nodes = yield from read_nodes(dead=False)
    offers = Offers.of(nodes)
    told = (f"{legible(one.name, 80)}: {why}" for one in schedules for why in offers.warnings(one))
    return Survey(
        now=(yield from now()),
        schedules=schedules,
        broken=tuple(one for one in judged if isinstance(one, Broken)),
        members=len(roster.members),
        warnings=tuple(told) if nodes else (),  # that there are none is told already
    )


def plans() -> Operation[PlansSeen]:
    """How plans stand: of the oldest unfinished ones each, of the newest whether an undo failed."""
    open_ones = yield count_documents(PLANS, OPEN_PLANS, limit=COUNTED_AT_MOST, hint="open")
    new = yield count_documents(PLANS, NEW_PLANS, limit=COUNTED_AT_MOST, hint="new")
    moment = yield from now()
    before = moment - timedelta(seconds=QUIET_PLAN_AFTER)
    old = yield find(
        PLANS,
        {**OPEN_PLANS, "created_at": {"$lt": before}},
        projection={"seq": 1, "created_at": 1},
        limit=PLANS_AT_MOST,
        hint="open",
    )
    quiet: list[PlanQuiet] = []
    for plan in old:
        quiet += [(yield from _quiet(int(plan["seq"]), plan["created_at"], moment))]
    stuck = yield find(
        PLANS,
        {**NUMBERED, "state": PlanState.STUCK.value},
        projection={"_id": 0, "seq": 1},
        sort=[("seq", -1)],
        limit=PLANS_AT_MOST,
        hint="seq",
    )
    older = yield find(
        NODES,
        {"state": {"$ne": NodeState.DEAD.value}, "plans": {"$ne": True}},
        projection={"name": 1},
        limit=PLANS_AT_MOST,
    )
    return PlansSeen(
        int(open_ones) + int(new),
        tuple(quiet),
        tuple(int(one["seq"]) for one in stuck),
        tuple(sorted(legible(one.get("name", one["_id"]), 80) for one in older)),
    )


def _quiet(seq: int, created_at: datetime, moment: datetime) -> Operation[PlanQuiet]:
    """What the server counts of a plan's jobs."""
    is_open = {"$in": ["$state", sorted(state.value for state in OPEN)]}
    group = {
        "_id": None,
        "open": {"$sum": {"$cond": [is_open, 1, 0]}},
        "created_at": {"$max": "$created_at"},
        "finished_at": {"$max": "$finished_at"},
    }
    pipeline = [{"$match": {"_id": all_of(seq)}}, {"$group": group}]
    answer = yield command(
        {"aggregate": JOBS, "pipeline": pipeline, "cursor": {}, "hint": "_id_"}, within=60.0
    )
    found: dict[str, Any] = next(iter(answer["cursor"]["firstBatch"]), {})
    moments = (created_at, found.get("created_at"), found.get("finished_at"))
    last = max(seconds(at) for at in moments if isinstance(at, datetime))
    return PlanQuiet(seq, int(found.get("open", 0)), moment.timestamp() - last)
