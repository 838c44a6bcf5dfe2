"""Whatever is in one document, all other jobs are done: odd values in every field, on nodes that
must outlive them."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping, Sequence
from datetime import UTC, datetime, timedelta
from functools import partial
from typing import Any
from uuid import uuid4

import pytest
from bson import Int64
from hypothesis import HealthCheck, Phase, given, settings
from hypothesis import strategies as st
from pymongo import MongoClient

from tests.support import odd
from tests.support.cluster import LIVE, Cluster
from tests.support.eventually import eventually
from tontine import Client
from tontine.errors import TontineError
from tontine.records.schedule import Schedule
from tontine.store import bell, names, schedules, schema
from tontine.store.call import Store
from tontine.store.counter import take

pytestmark = [pytest.mark.story, pytest.mark.long, pytest.mark.timeout(600)]

NAMES = ("a", "b")
SOON, PATIENT = 30.0, 60.0
TASK = "story.echo"
PAST, FUTURE = datetime(2020, 1, 1, tzinfo=UTC), datetime(2100, 1, 1, tzinfo=UTC)
OPEN = {"$or": [{"state": {"$in": ["queued", "working"]}}, {"seq": None}]}

JOB_FIELDS = (
    ("_id", "seq", "task", "args", "state", "run_at", "key", "created_at"),
    ("priority", "max_attempts", "timeout", "attempt", "fails", "lost", "node"),
    (
        "cancel",
        "errors",
        "error",
        "progress",
        "result",
        "started_at",
        "finished_at",
        "expire_at",
        "schedule",
        "inbox",
    ),
    ("start_by", "unique_for", "held_key", "held_until", "meta", "parent"),
    ("counts", "stages", "saved"),
)
NODE_FIELDS = (
    *(
        "_id",
        "name",
        "host",
        "pid",
        "version",
        "state",
        "desired",
        "beat",
        "tick",
        "share",
        "slots",
        "running",
        "lease",
    ),
    *("modules", "careful", "metrics", "troubles", "started_at", "lease_until", "died_at", "death"),
)
LEADING = ("state", "desired", "beat", "lease", "name")
"""What a node or its peers go by."""
BESIDE = tuple(field for field in NODE_FIELDS if field not in ("_id", *LEADING))
SCHEDULE_FIELDS = (
    *("_id", "task", "args", "cron", "every", "timezone", "missed", "next_at"),
    *("overlap", "max_age", "off", "declared", "removed", "last_job", "skipped"),
)
TOLD_ONCE = (
    *NODE_FIELDS[1:5],
    "desired",
    "slots",
    "lease",
    "modules",
    "careful",
    "started_at",
    "died_at",
    "death",
)
"""What a node says of itself when it starts, or others say of it: nobody writes it again."""
SETTINGS_FIELDS = ("keep_done", "keep_failed")

WISHES: Sequence[Mapping[str, Any]] = (
    {},
    {"delay": 0.1},
    {"priority": 5},
    {"priority": -5},
    {"key": True},
)


class Deployment:
    """Two nodes that go on from test to test, and what is asked of them."""

    def __init__(self, cluster: Cluster, client: Client) -> None:
        self.cluster, self.client = cluster, client
        self.jobs, self.nodes = cluster.database.jobs, cluster.database.nodes
        self._read = {node.log: 0 for node in cluster.nodes}

    def innocents(self, wishes: Sequence[Mapping[str, Any]] = WISHES) -> list[Any]:
        """Jobs of each kind with nothing wrong about them, by their `_id`s; a submit may have to be
        made again."""
        made = [
            eventually(partial(self._submit, wish), SOON, f"submit {wish}: {self.complaints()}")
            for wish in wishes
        ]
        raw = self.jobs.insert_one({"task": TASK, "args": {"text": "raw"}})
        return [*made, raw.inserted_id]

    def a_few(self) -> list[Any]:
        """The plainest of them, for many rounds."""
        return self.innocents([{}])

    def _submit(self, wish: Mapping[str, Any]) -> Any:
        key = {"key": uuid4().hex} if wish.get("key") else {}
        try:
            return self.client.submit(TASK, {"text": "innocent"}, **{**wish, **key}).id
        except TontineError:
            return None

    def numbers(self, many: int) -> Iterator[Int64]:
        return iter(self.cluster.store.run(take(many)))

    def must_do(
        self, innocents: list[Any], within: float, about: str, *, may_expire: bool = False
    ) -> None:
        """All of them are done in time; else what the nodes say, and what lies about."""
        lying = {"_id": {"$in": innocents}, "state": {"$ne": "done"}}
        try:
            eventually(lambda: self.jobs.count_documents(lying) == 0, within)
        except AssertionError:
            left = list(self.jobs.find(lying))
            told = [
                {
                    k: job[k]
                    for k in ("seq", "state", "node", "priority", "run_at", "error")
                    if k in job
                }
                for job in left
            ]
            pytest.fail(f"{about}: innocent jobs are not done: {told}\n{self.complaints()}")
        if not may_expire:
            assert self.jobs.count_documents({"_id": {"$in": innocents}}) == len(innocents), (
                f"{about}: some are gone"
            )

    def must_live(self, about: str) -> None:
        """Both processes are there, work, and own a share."""
        for node in self.cluster.nodes:
            assert node.process.poll() is None, f"{about}: {node.name} ended: {self.complaints()}"
        try:
            eventually(self._is_whole, PATIENT)
        except AssertionError:
            pytest.fail(
                f"{about}: both nodes should work and be the members: "
                f"{self._standing()}\n{self.complaints()}"
            )

    def must_be_well(self, about: str) -> None:
        """Neither is left with what it can neither settle nor put right: others would wait behind
        that, or will."""
        live = {"name": {"$in": list(NAMES)}, "state": {"$in": list(LIVE)}}
        ailing = live | {"troubles.what": {"$in": ["settling", "upkeep", "numbering", "times"]}}
        try:
            eventually(lambda: self.nodes.count_documents(ailing) == 0, PATIENT)
        except AssertionError:
            pytest.fail(
                f"{about}: a trouble does not go away: {self._standing()}\n{self.complaints()}"
            )

    def beats(self) -> dict[Any, Any]:
        """The newest beat of each of the two."""
        live = {"name": {"$in": list(NAMES)}, "state": {"$in": list(LIVE)}}
        return {node["_id"]: node.get("beat") for node in self.nodes.find(live, {"beat": 1})}

    def must_beat_on(self, before: Mapping[Any, Any], about: str) -> None:
        """Each has beaten since, or is there under a new id."""
        try:
            eventually(
                lambda: all(
                    _has_grown(before.get(one), beat) for one, beat in self.beats().items()
                ),
                PATIENT,
            )
        except AssertionError:
            pytest.fail(
                f"{about}: no heartbeat since {before}: {self._standing()}\n{self.complaints()}"
            )

    def _is_whole(self) -> bool:
        live = list(
            self.nodes.find(
                {"name": {"$in": list(NAMES)}, "state": {"$in": list(LIVE)}}, {"name": 1}
            )
        )
        roster = self.cluster.database.cluster.find_one({"_id": "roster"}) or {}
        members = roster.get("members")
        names = sorted(str(node["name"]) for node in live)
        return (
            names == sorted(NAMES)
            and members is not None
            and _ids(members) == _ids(node["_id"] for node in live)
        )

    def _standing(self) -> str:
        known = self.nodes.find({"state": {"$ne": "dead"}, "name": {"$in": list(NAMES)}})
        records = [
            {key: node.get(key) for key in ("_id", "state", "beat", "troubles")} for node in known
        ]
        return f"{records}, roster {self.cluster.database.cluster.find_one({'_id': 'roster'})}"

    def complaints(self) -> str:
        """The tracebacks and warnings in the nodes' logs since the last time, each once, in a
        line."""
        found: dict[str, int] = {}
        for node in self.cluster.nodes:
            text = node.text()
            new, self._read[node.log] = text[self._read.get(node.log, 0) :], len(text)
            for one in (*_tracebacks(new), *_WARNING.findall(new)):
                found[one[:400]] = found.get(one[:400], 0) + 1
        return (
            "\n".join(f"{times} x {what}" for what, times in found.items())
            or "(the logs say nothing)"
        )

    def clean_up(self) -> None:
        """What this test forged must not decide about the next one."""
        for collection in (self.jobs, self.nodes, self.cluster.database.schedules):
            collection.delete_many({"odd": {"$exists": True}})


_WARNING = re.compile(r"^[\d:]+ (?:warning|error) +(.*)$", re.MULTILINE)


def _has_grown(before: Any, beat: Any) -> bool:
    """Or it was started anew, after somebody had written something else there."""
    return isinstance(beat, int | float) and beat != before


def _ids(members: Any) -> list[str]:
    return sorted(map(str, members)) if isinstance(members, Iterable) else []


def _tracebacks(text: str) -> Iterator[str]:
    """Where and with what each traceback ended: the last lines of our own code, and the error."""
    for block in re.findall(
        r"^Traceback \(most recent call last\):\n(?:[ \t].*\n|\n)*(?:\S.*)", text, re.MULTILINE
    ):
        places = re.findall(
            r'File ".*?((?:tontine|tontine_node)/[\w/]+\.py)", line (\d+), in (\w+)', block
        )
        where = " < ".join(f"{path}:{line} {name}" for path, line, name in reversed(places[-3:]))
        yield f"{block.splitlines()[-1][:300]}  at {where}"


@pytest.fixture(scope="module")
def deployment(
    mongo_uri: str,
    mongo_client: MongoClient[dict[str, object]],
    tmp_path_factory: pytest.TempPathFactory,
) -> Iterator[Deployment]:
    name = f"test_odd_{uuid4().hex[:8]}"
    # Read back without decoding what somebody wrote: the test itself must not stumble over it.
    with MongoClient[Any](
        mongo_uri,
        tz_aware=True,
        unicode_decode_error_handler="replace",
        datetime_conversion="DATETIME_AUTO",
    ) as client:
        store = Store(client[name])
        store.run(schema.init())
        cluster = Cluster(mongo_uri, store, tmp_path_factory.mktemp("odd"))
        cluster.options = ["--lease", "3s", "--processes", "1", "--slots", "2"]
        try:
            cluster.begin_all(*NAMES)
            with Client(mongo_client[name]) as producer:
                yield Deployment(cluster, producer)
        finally:
            cluster.close()
            client.drop_database(name)


@pytest.fixture(autouse=True)
def _clean(deployment: Deployment) -> Iterator[None]:
    deployment.complaints()
    yield
    deployment.clean_up()


def _forge_jobs(deployment: Deployment, oddities: list[dict[str, str]]) -> None:
    """Each of these combinations: without a number, queued in three ways, and held by two nodes."""
    holder = deployment.nodes.find_one({"name": "a", "state": {"$in": list(LIVE)}}, {"_id": 1}) or {
        "_id": "a"
    }
    plain = {"task": TASK, "args": {"text": "odd"}, "odd": ""}
    known = {"created_at": PAST, "attempt": 0, "fails": 0, "lost": 0}
    held = known | {"state": "working", "attempt": 1}
    kinds = {
        "raw": {},
        "queued": known | {"state": "queued"},
        "delayed": known | {"state": "queued", "run_at": PAST},
        "ranked": known | {"state": "queued", "priority": 3},
        "held by nobody": held | {"node": "nobody"},
        "held by a": held | {"node": holder["_id"]},
    }
    seqs = deployment.numbers(len(kinds) * len(oddities))
    documents = []
    for oddity in oddities:
        about = ", ".join(f"{field}: {value}" for field, value in oddity.items())
        is_long = (
            odd.LONG in oddity.values()
        )  # enough of those, or writing them takes longer than all the rest
        for kind, fields in list(kinds.items())[: 2 if is_long else None]:
            numbered = (
                plain | fields | ({"seq": next(seqs)} if fields else {}) | {"_id": uuid4().hex}
            )
            documents.append(odd.with_odd(numbered, **oddity) | {"odd": f"{kind}, {about}"})
    odd.put(deployment.jobs, documents)


def _no_job_is_stuck(deployment: Deployment, about: str) -> None:
    """No odd job that a look finds is left open."""
    findable = {
        "odd": {"$exists": True},
        "$and": [
            OPEN,
            {"$or": [{"seq": None}, {"seq": {"$type": "number", "$gte": 0}}]},
            {"$or": [{"seq": None}, {"task": TASK}]},
            {
                "$or": [
                    {"seq": None},
                    {"state": "working"},
                    {"run_at": None},
                    {"run_at": {"$type": "date", "$lt": FUTURE}},
                ]
            },
        ],
    }
    try:
        eventually(lambda: deployment.jobs.count_documents(findable) == 0, SOON)
    except AssertionError:
        left = [
            f"{job['odd']} -> {job.get('state', 'raw')}" for job in deployment.jobs.find(findable)
        ]
        pytest.fail(f"{about}: {len(left)} jobs are stuck: {left[:40]}\n{deployment.complaints()}")


def _sweep_jobs(deployment: Deployment, oddities: list[dict[str, str]], about: str) -> None:
    innocents = deployment.innocents()
    half = len(oddities) // 2
    _forge_jobs(deployment, oddities[:half])
    innocents += deployment.innocents()
    _forge_jobs(deployment, oddities[half:])
    innocents += deployment.innocents()
    deployment.must_do(innocents, PATIENT, about)
    _no_job_is_stuck(deployment, about)
    deployment.must_live(about)
    deployment.must_be_well(about)
    deployment.must_do(deployment.innocents(), SOON, f"after {about}")


@pytest.mark.parametrize("fields", JOB_FIELDS, ids=" ".join)
def test_an_odd_value_in_a_job_costs_that_job_only(
    deployment: Deployment, fields: tuple[str, ...]
) -> None:
    oddities = [{field: value} for field in fields for value in odd.VALUES]
    _sweep_jobs(deployment, oddities, f"jobs with an odd {', '.join(fields)}")


_combination = st.dictionaries(
    st.sampled_from([field for fields in JOB_FIELDS for field in fields]),
    st.sampled_from(sorted(odd.VALUES)),
    min_size=2,
    max_size=6,
)


@settings(
    max_examples=2,
    derandomize=True,
    database=None,
    deadline=None,
    phases=[Phase.generate],
    suppress_health_check=list(HealthCheck),
)
@given(st.lists(_combination, min_size=80, max_size=80))
def test_odd_values_in_several_fields_of_a_job_cost_that_job_only(
    deployment: Deployment, combinations: list[dict[str, str]]
) -> None:
    _sweep_jobs(deployment, combinations, "jobs with several odd fields")


def test_forged_records_of_nodes_keep_nobody_from_burying_the_dead(deployment: Deployment) -> None:
    records = [
        odd.with_odd(_silent_node(), **{field: value}) | {"odd": f"{field}: {value}"}
        for field in NODE_FIELDS
        for value in odd.VALUES
    ]
    dead = _silent_node()
    held = {
        "_id": uuid4().hex,
        "seq": next(deployment.numbers(1)),
        "task": TASK,
        "args": {"text": "held"},
    }
    held |= {
        "state": "working",
        "node": dead["_id"],
        "attempt": 1,
        "fails": 0,
        "lost": 0,
        "created_at": PAST,
    }
    half = len(records) // 2
    odd.put(deployment.nodes, [*records[:half], dead | {"odd": "no"}, *records[half:]])
    deployment.jobs.insert_one(held)
    about = "forged records of nodes"
    deployment.must_do(deployment.innocents(), PATIENT, about)
    deployment.must_do([held["_id"]], PATIENT, f"{about}, a job in the hands of one that is dead")
    deployment.must_live(about)


def _silent_node() -> dict[str, Any]:
    name = f"forged-{uuid4().hex[:8]}"
    modules = [{"name": "story", "version": "1.0", "authors": [], "tasks": [TASK]}]
    record = {
        "_id": name,
        "name": name,
        "state": "waiting",
        "desired": "running",
        "beat": 1,
        "lease": 3.0,
        "slots": 2,
    }
    return record | {"modules": modules, "metrics": {}, "started_at": PAST, "lease_until": PAST}


@pytest.mark.parametrize("fields", [(field,) for field in LEADING] + [BESIDE], ids=" ".join)
def test_odd_values_in_the_record_of_a_live_node_are_outlived(
    deployment: Deployment, fields: tuple[str, ...]
) -> None:
    for place, value in enumerate(
        _some_values(7, LEADING.index(fields[0]) if fields[0] in LEADING else 0)
    ):
        victim = NAMES[place % len(NAMES)]
        about = f"{', '.join(fields)}: {value} in the record of {victim}"
        beats = deployment.beats()
        (record,) = deployment.nodes.find({"name": victim, "_id": {"$in": list(beats)}})
        for field in fields:
            odd.scribble(deployment.nodes, {"_id": record["_id"]}, field, value)
        deployment.must_do(deployment.a_few(), PATIENT, about)
        deployment.must_beat_on(beats, about)
        if again := {
            field: record[field] for field in fields if field in TOLD_ONCE and field in record
        }:
            deployment.nodes.update_one(
                {"_id": record["_id"], "state": {"$ne": "dead"}}, {"$set": again}
            )
        deployment.must_live(about)


def _some_values(many: int, start: int) -> list[str]:
    """So many of all, others for each start."""
    names = list(odd.VALUES)
    return [names[(start + place * len(names) // many) % len(names)] for place in range(many)]


@pytest.mark.parametrize(
    ("document", "field"), [("roster", "epoch"), ("roster", "members"), ("counter", "seq")]
)
def test_an_odd_value_in_what_all_nodes_share_is_put_right(
    deployment: Deployment, document: str, field: str
) -> None:
    deployment.must_do(deployment.a_few(), PATIENT, "before")
    for value in odd.VALUES:
        about = f"{field}: {value} in the {document}"
        odd.scribble(deployment.cluster.database.cluster, {"_id": document}, field, value)
        deployment.cluster.store.run(bell.ring(names.CLUSTER))
        deployment.must_do(deployment.a_few(), PATIENT, about)
    deployment.must_live(f"odd values in {field} of the {document}")
    deployment.must_do(
        deployment.innocents(), PATIENT, f"after odd values in {field} of the {document}"
    )


@pytest.mark.parametrize("document", ["roster", "counter"])
def test_what_all_nodes_share_may_be_removed(deployment: Deployment, document: str) -> None:
    deployment.cluster.database.cluster.delete_one({"_id": document})
    deployment.cluster.store.run(bell.ring(names.CLUSTER))
    deployment.must_do(deployment.innocents(), PATIENT, f"without the {document}")
    deployment.must_live(f"without the {document}")


def test_odd_settings_and_strange_documents_beside_them_stop_nobody(deployment: Deployment) -> None:
    beside = deployment.cluster.database.cluster
    odd.put(
        beside,
        [odd.with_odd({"_id": uuid4().hex, "odd": value}, _id=value) for value in odd.VALUES],
    )
    for value in odd.VALUES:
        beside.update_one({"_id": "settings"}, {"$setOnInsert": {"odd": "settings"}}, upsert=True)
        for field in SETTINGS_FIELDS:
            odd.scribble(beside, {"_id": "settings"}, field, value)
        deployment.cluster.store.run(bell.ring(names.CLUSTER))
        deployment.must_do(deployment.a_few(), PATIENT, f"settings: {value}", may_expire=True)
    beside.delete_many({"odd": {"$exists": True}})
    deployment.must_live("odd settings")


def test_odd_schedules_keep_no_other_from_firing(deployment: Deployment) -> None:
    now = datetime.now(UTC)
    base = {
        "task": TASK,
        "args": {"text": "fired"},
        "every": 3600.0,
        "timezone": "UTC",
        "missed": "skip",
    }
    forged = [
        odd.with_odd(
            base | {"_id": uuid4().hex, "next_at": now + timedelta(seconds=place % 3)},
            **{field: value},
        )
        | {"odd": f"{field}: {value}"}
        for field in SCHEDULE_FIELDS
        for place, value in enumerate(odd.VALUES)
    ]
    crons = [
        {key: value for key, value in one.items() if key != "every"} | {"_id": uuid4().hex}
        for one in forged
    ]
    forged += [
        one | {"cron": "* * * * *"}
        for one in crons
        if not str(one["odd"]).startswith(("cron", "every", "_id"))
    ]
    half = len(forged) // 2
    odd.put(deployment.cluster.database.schedules, forged[:half])
    store = deployment.cluster.store
    store.run(schedules.add(Schedule("innocent", TASK, {"text": "tick"}, every=1.0)))
    odd.put(deployment.cluster.database.schedules, forged[half:])
    fired = {"schedule": "innocent", "state": "done"}
    try:
        eventually(lambda: deployment.jobs.count_documents(fired) >= 4, PATIENT)
    except AssertionError:
        pytest.fail(
            f"an innocent schedule fired {deployment.jobs.count_documents(fired)} "
            f"times\n{deployment.complaints()}"
        )
    finally:
        store.run(schedules.remove("innocent"))
    deployment.must_do(deployment.innocents(), PATIENT, "odd schedules")
    deployment.must_live("odd schedules")
