"""The table in docs/security.md, cell by cell, against a MongoDB with access control: what is
allowed works, the rest is refused. One server and one node, which runs as a user of its own role,
for all of it."""

from __future__ import annotations

import contextlib
import json
import os
import re
import subprocess
import sys
from collections.abc import Callable, Iterator
from dataclasses import dataclass
from datetime import UTC, datetime, timedelta
from pathlib import Path
from typing import Any
from uuid import uuid4

import pytest
from click.testing import CliRunner
from pymongo import MongoClient
from pymongo.errors import OperationFailure

from tests.support.cluster import LIVE, ROOT, Cluster
from tests.support.eventually import eventually
from tests.support.mongod import with_users
from tontine import Client, Job
from tontine.cli import tontine
from tontine.errors import ConfigError, NotPermitted, StoreError, UnknownPlan
from tontine.records.states import JobState
from tontine.store import claim, grant, indexes, members, names, roles, schema, states
from tontine.store.call import Store

pytestmark = pytest.mark.story

PAGE = (ROOT / "docs/security.md").read_text()
WORDS = [role.word for role in roles.ROLES]


@dataclass(slots=True)
class Scene:
    """A server with a user of each role, and a node."""

    host: str
    root: str
    database: Any
    cluster: Cluster

    def uri(self, word: str) -> str:
        return f"mongodb://{word}:pw@{self.host}/tontine?replicaSet=rs"


@dataclass(slots=True)
class User:
    """Somebody who tries something; `trusted` is the database as root has it."""

    uri: str
    database: Any
    trusted: Any

    @property
    def store(self) -> Store:
        return Store(self.database)


def run(uri: str, *arguments: str) -> str:
    """A command; what it says, or the refusal that it would show."""
    ended = CliRunner().invoke(tontine, [*arguments, "--uri", uri])
    if ended.exception is not None and not isinstance(ended.exception, SystemExit):
        raise ended.exception
    assert ended.exit_code == 0, ended.output
    return ended.stdout


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("rights")
    with (
        with_users(directory) as (root, host),
        MongoClient[dict[str, Any]](root, tz_aware=True) as client,
    ):
        database = client["tontine"]
        scene = Scene(host, root, database, Cluster("", Store(database), directory))
        made = run(root, "init", "--roles")
        assert all(f"role {role.name}: created" in made for role in roles.ROLES)
        for role in roles.ROLES:
            database.command("createUser", role.word, pwd="pw", roles=[role.name])
        for name in (
            names.BELL,
            names.SAMPLES,
            names.LOGS,
            names.JOBS,
        ):  # its node makes them again
            database.drop_collection(name)
        scene.cluster.uri = scene.uri("node")
        scene.cluster.begin("ada", "--lease", "4s")
        scene.cluster.wait_for_state("ada", *LIVE)
        yield scene
        scene.cluster.close()


def be_a_node(user: User) -> None:
    name = f"other-{uuid4().hex}"
    record = {"name": name, "lease": 2.0, "slots": 1, "modules": [], "metrics": {}}
    user.store.run(members.register(name, record, 2.0))
    user.store.run(claim.claim(name, [10**9], 0))
    user.trusted.nodes.delete_one({"_id": name})


def submit(user: User) -> None:
    with Client(user.database) as client:
        assert (
            client.wait(client.submit("story.double", {"x": 4}, key=uuid4().hex), timeout=60).result
            == 8
        )
        client.submit_many("story.double", [{"x": 4}, {"x": 5}])
    assert "submitted job" in run(user.uri, "submit", "story.double", '{"x": 4}')


def fill_inbox(user: User) -> None:
    left = user.database.inbox.insert_one({"task": "story.double", "args": {"x": 4}}).inserted_id
    done = {"_id": f"inbox-{left}", "state": "done", "result": 8}
    eventually(lambda: user.trusted.jobs.find_one(done), 60, "a node took it and ran it")


def look(user: User) -> None:
    run(user.uri, "jobs")
    run(user.uri, "nodes")


def follow(user: User) -> None:
    user.database.watch().close()


def steer(user: User) -> None:
    assert "ada is paused" in run(user.uri, "pause", "ada", "--wait")
    run(user.uri, "resume", "ada", "--wait")


def amend(user: User) -> None:
    with Client(user.trusted) as trusted, Client(user.database) as client:
        job = trusted.submit("story.double", {"x": 4}, delay="1h")
        assert client.cancel(job.seq or 0).state is JobState.CANCELLED
        assert client.retry(job.seq or 0).state is not JobState.CANCELLED


def purge(user: User) -> None:
    with Client(user.trusted) as trusted, Client(user.database) as client:
        job = trusted.submit("story.double", {"x": 4}, delay="1h")
        trusted.cancel(job.seq or 0)
        long_ago = datetime.now(UTC) - timedelta(days=9)
        user.trusted.jobs.update_one({"_id": job.id}, {"$set": {"finished_at": long_ago}})
        assert client.purge(older_than="7d").count
    assert user.trusted.jobs.find_one({"_id": job.id}) is None
    assert "nothing to do" in run(user.uri, "purge", "--older-than", "7d", "--yes")


def schedule(user: User) -> None:
    run(user.uri, "schedule", "add", "nightly", "story.double", '{"x": 4}', "--cron", "0 3 * * *")
    run(user.uri, "schedule", "rm", "nightly")


def read_states_and_outputs(user: User) -> None:
    user.database.states.find_one()
    user.database.outputs.find_one()


def set_a_state(user: User) -> None:
    user.store.run(states.set_state("shop/prices", b"{}", {}, by="me"))
    assert user.store.run(states.remove_state("shop/prices"))


def make_an_index(user: User) -> None:
    """One that is there already, which takes the same right."""
    (index,) = indexes.INDEXES[names.EVENTS]
    user.database.command({"createIndexes": names.EVENTS, "indexes": [index]})


def go_round_a_validator(user: User) -> None:
    with contextlib.suppress(OperationFailure):
        user.database.jobs.insert_one({"seq": "x"}, bypass_document_validation=True)
        return
    user.database.inbox.insert_one({"seq": "x"}, bypass_document_validation=True)


DEEDS: dict[str, Callable[[User], Any]] = {
    "be a node": be_a_node,
    "submit jobs and wait for them": submit,
    "leave jobs in the inbox": fill_inbox,
    "read the inbox": lambda user: user.database.inbox.find_one(),
    "take jobs out of the inbox": lambda user: user.database.inbox.delete_one({"_id": 0}),
    "read jobs and nodes": look,
    "read what tasks print": lambda user: user.database.logs.find_one(),
    "follow all changes": follow,
    "pause, resume and stop nodes": steer,
    "cancel and retry jobs": amend,
    "add and remove schedules": schedule,
    "write the counter and the roster": lambda user: user.database.cluster.update_one(
        {"_id": 0}, {"$set": {"x": 1}}
    ),
    "make collections, indexes and validators": make_an_index,
    "remove jobs and what they printed": purge,
    "read named states and outputs of stages": read_states_and_outputs,
    "set and remove named states": set_a_state,
    "go round a validator": go_round_a_validator,
    "create users and roles": lambda user: user.database.command(
        "createUser", "eve", pwd="pw", roles=["read"]
    ),
    "drop the database": lambda user: user.database.client.drop_database(user.database.name),
}


def table() -> dict[str, dict[str, bool]]:
    """The page's rows: what is done, and whether each role may."""
    rows = [
        [cell.strip() for cell in line.strip("|").split("|")]
        for line in PAGE.splitlines()
        if line[:2] == "| "
    ]
    header = rows.index(["", *WORDS])
    cells = [row for row in rows[header + 1 :] if len(row) == len(WORDS) + 1 and row[0] != "---"]
    return {
        row[0]: {word: cell == "yes" for word, cell in zip(WORDS, row[1:], strict=True)}
        for row in cells
    }


def test_every_row_of_the_page_is_tried() -> None:
    assert list(table()) == list(DEEDS)


def is_refused(act: Callable[[User], Any], user: User) -> bool:
    try:
        act(user)
    except (NotPermitted, OperationFailure) as refusal:
        return re.search("not authorized|may not", str(refusal)) is not None
    return False


@pytest.mark.parametrize("word", WORDS)
def test_a_role_may_do_what_its_column_says_and_nothing_else(scene: Scene, word: str) -> None:
    with MongoClient[dict[str, Any]](scene.uri(word), tz_aware=True) as client:
        user = User(scene.uri(word), client["tontine"], scene.database)
        for deed, act in DEEDS.items():
            if table()[deed][word]:
                act(user)
            else:
                assert is_refused(act, user), deed


def look_for_plan(client: Client) -> None:
    with pytest.raises(UnknownPlan):
        client.plan(10**12)


CALLS: dict[str, Callable[[Client, Job], Any]] = {
    "submit": lambda client, _: client.submit("story.double", {"x": 4}),
    "submit_many": lambda client, _: client.submit_many("story.double", [{"x": 4}]),
    "submit_plan": lambda client, _: client.submit_plan({"steps": {"a": {"task": "story.double"}}}),
    "get": lambda client, job: client.get(job),
    "plan": lambda client, _: look_for_plan(client),
    "wait": lambda client, job: client.wait(job, timeout=60),
    "follow": lambda client, job: list(client.follow(job)),
    "find": lambda client, _: next(client.find(limit=1)),
    "count": lambda client, _: client.count(),
    "logs": lambda client, job: client.logs(job),
    "schedules": lambda client, _: client.schedules(),
    "cancel": lambda client, job: client.cancel(job),
    "retry": lambda client, job: client.retry(job),
    "cancel_many": lambda client, _: client.cancel_many(task="nobody.s"),
    "retry_many": lambda client, _: client.retry_many(key="failing"),
    "schedule": lambda client, _: client.schedule("often", "story.double", every="1h"),
    "unschedule": lambda client, _: client.unschedule("often"),
    "purge": lambda client, _: client.purge(key="failing"),
}


def calls_of_roles() -> dict[str, dict[str, bool]]:
    """The table of the client's page: each call, and which roles may make it."""
    page = (ROOT / "docs/client.md").read_text()
    header, _, *rows = re.findall(
        r"^\|(.*)\|$", page.partition("## Which role")[2].partition("##")[0], re.MULTILINE
    )
    words = [cell.strip() for cell in header.split("|")][1:]
    cells = [[cell.strip() for cell in row.split("|")] for row in rows]
    return {
        call: {word: cell == "yes" for word, cell in zip(words, row[1:], strict=True)}
        for row in cells
        for call in re.findall(r"`(\w+)`", row[0])
    }


def test_every_call_of_a_client_is_in_the_table_of_its_page() -> None:
    public = {name for name in vars(Client) if not name.startswith("_")}
    assert set(CALLS) == set(calls_of_roles()) == public - {"close", "prepare", "ring"}


@pytest.mark.parametrize("word", ["producer", "observer", "operator"])
def test_a_role_may_make_the_calls_that_the_clients_page_says(scene: Scene, word: str) -> None:
    with Client(scene.database) as trusted, Client(scene.uri(word)) as client:
        job = trusted.wait(trusted.submit("story.double", {"x": 4}), timeout=60)
        client.ring()
        client.prepare()
        for call, make in CALLS.items():
            if call in (
                "cancel_many",
                "retry_many",
                "purge",
            ):  # nothing is refused to whoever changes nothing
                prepare_many(scene, trusted)
            if calls_of_roles()[call][word]:
                make(client, job)
            else:
                with pytest.raises(
                    NotPermitted, match=r"this user may not .* and so has tontine(\w+) of"
                ):
                    make(client, job)


def prepare_many(scene: Scene, trusted: Client) -> None:
    """Jobs for each of the calls that change many."""
    trusted.submit("nobody.s")
    failed = trusted.submit("story.double", {"odd": 1}, key="failing")
    trusted.wait(failed, timeout=60)
    long_ago = datetime.now(UTC) - timedelta(days=9)
    scene.database.jobs.update_one({"_id": failed.id}, {"$set": {"finished_at": long_ago}})


def test_a_node_makes_what_is_missing_with_the_rights_of_its_role(scene: Scene) -> None:
    there = {one["name"]: one for one in scene.database.list_collections()}
    assert set(schema.COLLECTIONS) <= there.keys()
    assert there[names.BELL]["options"]["capped"]
    assert there[names.SAMPLES]["type"] == "timeseries"
    eventually(scene.database.samples.find_one, 60, "it keeps samples")
    assert not (scene.cluster.record("ada") or {}).get("troubles")


def test_the_actions_that_the_page_lists_are_those_of_the_roles() -> None:
    listed = re.findall(
        r"^\| `(\w+)` \| (.+?) \| (.+) \|$", PAGE.partition("<!-- rights -->")[2], re.MULTILINE
    )
    assert listed == rows_of_rights(), "\n" + "\n".join(
        f"| `{a}` | {b} | {c} |" for a, b, c in rows_of_rights()
    )


def rows_of_rights() -> list[tuple[str, str, str]]:
    return [
        (role.name, one["resource"]["collection"] or "every collection", ", ".join(one["actions"]))
        for role in roles.ROLES
        for one in role.privileges("tontine")
    ]


def examined(uri: str) -> dict[str, dict[str, str]]:
    ended = CliRunner().invoke(tontine, ["doctor", "--quick", "--json", "--uri", uri])
    return {line["check"]: line for line in map(json.loads, ended.stdout.splitlines())}


def rights(uri: str) -> tuple[str, str]:
    told = examined(uri)["rights"]
    return told["verdict"], told["sentence"]


def test_the_doctor_advises_the_role_that_a_look_needs(scene: Scene) -> None:
    """Before: clusterMonitor for what is in the queue, and a right for nodes that their role
    withholds."""
    told = examined(scene.uri("producer"))
    assert "tontineObserver" in told["schedules"]["advice"]
    assert "clusterMonitor" in told["members"]["advice"]
    assert "clusterMonitor" in told["oplog"]["advice"]
    assert not [one for one in examined(scene.uri("node")).values() if "grant" in one["advice"]]
    for word in WORDS:
        assert examined(scene.uri(word))["change streams"]["verdict"] == "ok"


def test_the_doctor_warns_an_observer_that_may_not_follow(scene: Scene) -> None:
    looking = {"resource": {"db": "tontine", "collection": ""}, "actions": ["find"]}
    scene.database.command("createRole", "onlyLooks", privileges=[looking], roles=[])
    scene.database.command("createUser", "looker", pwd="pw", roles=["onlyLooks"])
    told = examined(scene.uri("looker"))["change streams"]
    assert (told["verdict"], "tontineObserver" in told["advice"]) == ("warn", True)


def test_the_doctor_says_what_a_user_can_be_lacks_and_has_too_much(scene: Scene) -> None:
    everything = ", ".join(WORDS)
    assert rights(scene.uri("node")) == ("ok", "this user can be: node, producer")
    assert not scene.database.cluster.find_one({"_id": {"$regex": "^doctor"}}), (
        "it removes what it writes"
    )
    verdict, sentence = rights(scene.uri("intake"))
    assert (verdict, sentence.partition(";")[0]) == ("ok", "this user can be: intake")
    assert "insert on jobs/nodes/" in sentence
    verdict, sentence = rights(scene.root)
    assert (verdict, sentence.partition(";")[0]) == ("warn", f"this user can be: {everything}")
    assert "write to every database, manage the server" in sentence
    for name, role in (
        ("owner", "dbOwner"),
        ("writer", "readWrite"),
        ("nobody", {"role": "read", "db": "other"}),
    ):
        scene.database.command("createUser", name, pwd="pw", roles=[role])
    verdict, sentence = rights(scene.uri("owner"))
    assert (verdict, sentence.partition("; ")[2]) == (
        "warn",
        "but it may also change users and roles, drop tontine whole",
    )
    verdict, sentence = rights(scene.uri("writer"))
    assert (verdict, sentence.partition(";")[0]) == ("ok", f"this user can be: {everything}")
    assert "collMod on" in sentence
    assert rights(scene.uri("nobody"))[0] == "fail"
    with pytest.raises(NotPermitted, match=r"may not create roles in tontine.*userAdmin"):
        run(scene.uri("writer"), "init", "--roles")


def test_roles_that_somebody_changed_are_put_right(scene: Scene) -> None:
    scene.database.command("updateRole", "tontineIntake", privileges=[])
    with (
        MongoClient[dict[str, Any]](scene.uri("intake")) as client,
        pytest.raises(OperationFailure),
    ):
        client["tontine"].inbox.insert_one({"task": "story.double", "args": {"x": 1}})
    again = run(scene.root, "init", "--roles", "--json")
    made = {
        line["role"]: line["made"] for line in map(json.loads, again.splitlines()) if "role" in line
    }
    assert made == {
        role.name: "changed" if role is roles.INTAKE else "there" for role in roles.ROLES
    }


@contextlib.contextmanager
def user_of(scene: Scene, database: str, role: str) -> Iterator[str]:
    """A user of a database in which there is nothing, with that role there; its URI."""
    with MongoClient[dict[str, Any]](scene.root) as client:
        if role.startswith("tontine"):
            Store(client[database]).run(grant.make(database))
        client[database].command("createUser", "user", pwd="pw", roles=[role])
    yield f"mongodb://user:pw@{scene.host}/{database}?replicaSet=rs"


def test_read_write_is_enough_for_a_producer_that_comes_first_and_for_the_node_after_it(
    scene: Scene,
) -> None:
    """Before: two jobs of one key, and then neither nodes nor `init` could make the index."""
    with user_of(scene, "first", "readWrite") as uri, Client(uri) as client:
        assert (
            client.submit("story.double", {"x": 4}, key="k").seq
            == client.submit("story.double", key="k").seq
        )
        with MongoClient[dict[str, Any]](uri) as mongo:
            store = Store(mongo["first"])
            assert store.run(schema.faults()) == []
            store.run(schema.ensure())
        assert "jobs: complete already" in run(uri, "init")


def test_what_read_write_lacks_is_named_and_kept_from_nobody(scene: Scene) -> None:
    """A raw insert made the collection without its validator, and changing it takes another
    right."""
    with user_of(scene, "raw", "readWrite") as uri, MongoClient[dict[str, Any]](uri) as mongo:
        mongo["raw"].jobs.insert_one({"task": "story.double", "args": {"x": 4}})
        with Client(mongo) as client:
            client.submit("story.double", {"x": 4}, key="k")
            prepared = client.prepare()
        assert list(prepared.failed) == ["the validator of jobs"]
        assert "it needs the right `collMod` there" in prepared.failed["the validator of jobs"]
        assert Store(mongo["raw"]).run(schema.faults()) == ["jobs has another validator"]
        told = CliRunner().invoke(tontine, ["init", "--uri", uri])
        assert (told.exit_code, "without the validator of jobs" in told.stderr) == (0, True)


def test_a_producer_with_its_role_only_goes_on_where_nothing_is_prepared_but_for_what_would_do_harm(
    scene: Scene,
) -> None:
    with user_of(scene, "early", "tontineProducer") as uri, Client(uri) as client:
        for _ in range(2):  # without a collection, and with one that the first job has made
            with pytest.raises(
                ConfigError,
                match=r"needs the index jobs\.key.*`tontine init` once as a user who may",
            ):
                client.submit("story.double", {"x": 4}, key="k")
            job = client.submit("story.double", {"x": 4})
        with pytest.raises(StoreError, match="an index of the queue in `early` is missing"):
            client.get(job.seq)
        assert not client.prepare().is_complete
        with MongoClient[dict[str, Any]](scene.root) as root:
            Store(root["early"]).run(schema.init())
        assert (
            client.submit("story.double", key="k").seq == client.submit("story.double", key="k").seq
        )


def test_a_producer_that_is_the_first_to_need_an_index_is_told_and_has_it_when_a_node_has_looked(
    scene: Scene,
) -> None:
    with user_of(scene, "timed", "tontineProducer") as uri, Client(uri) as client:
        with MongoClient[dict[str, Any]](scene.root) as root:
            store = Store(root["timed"])
            store.run(schema.init())
            wishes: dict[str, Any] = {
                "start_by": {"max_age": 60},
                "held_key": {"key": "k", "unique_for": 60},
            }
            for index, wish in wishes.items():
                with pytest.raises(
                    ConfigError,
                    match=rf"needs the index jobs\.{index}.*`tontine init --all` once as",
                ):
                    client.submit("story.double", {"x": 4}, **wish)
                assert store.run(schema.mend()).made == [f"jobs.{index}"]
                assert client.submit("story.double", {"x": 4}, **wish).seq
        assert client.submit("story.double", key="k", unique_for=60).existed


TOO_LITTLE: list[tuple[str, list[str], str]] = [
    ("producer", ["cancel", "WAITING"], "tontineOperator"),
    ("producer", ["retry", "ENDED"], "tontineOperator"),
    ("observer", ["cancel", "WAITING"], "tontineOperator"),
    ("observer", ["retry", "ENDED"], "tontineOperator"),
    ("observer", ["cancel", "--task", "nobody.s", "--yes"], "tontineOperator"),
    ("producer", ["pause", "ada"], "tontineOperator"),
    ("observer", ["stop", "ada"], "tontineOperator"),
    ("producer", ["schedule", "ls"], "tontineObserver"),
    ("observer", ["schedule", "add", "often", "story.double", "--every", "1h"], "tontineOperator"),
    ("producer", ["schedule", "off", "kept"], "tontineOperator"),
    ("observer", ["schedule", "off", "kept"], "tontineOperator"),
    ("observer", ["schedule", "rm", "kept"], "tontineOperator"),
    ("observer", ["schedule", "run", "kept"], "tontineProducer"),
    ("operator", ["schedule", "run", "kept"], "tontineProducer"),
    ("observer", ["submit", "story.double", '{"x": 4}'], "tontineProducer"),
    ("operator", ["submit", "story.double", '{"x": 4}'], "tontineProducer"),
    ("producer", ["job", "ENDED", "--logs"], "tontineObserver"),
    ("producer", ["purge", "--older-than", "7d", "--yes"], "tontineOperator"),
    ("observer", ["purge", "--older-than", "7d", "--yes"], "tontineOperator"),
]


def test_a_command_that_is_refused_names_the_role_that_may(scene: Scene) -> None:
    with Client(scene.database) as trusted:
        prepare_many(scene, trusted)  # nothing is refused to whoever changes nothing
        trusted.schedule("kept", "story.double", {"x": 4}, every="1d")
        waiting = trusted.submit("story.double", {"x": 4}, delay="1h")
        ended = trusted.cancel(trusted.submit("story.double", {"x": 4}, delay="1h"))
    jobs = {"WAITING": str(waiting.seq), "ENDED": str(ended.seq)}
    for word, command, role in TOO_LITTLE:
        with pytest.raises(
            NotPermitted, match=rf"this user may not .* {role} of `tontine init --roles`"
        ):
            run(scene.uri(word), *(jobs.get(one, one) for one in command))


APPLICATION = """
import os
import pytest
from pymongo import MongoClient
from tontine import Client

@pytest.fixture(scope="session", params=["APP", "TESTS"])
def tontine_mongodb(request):
    return os.environ[request.param]

def test_it(tontine_queue):
    with MongoClient(tontine_queue.uri) as mongo, Client(tontine_queue.uri) as client:
        client.submit("story.double")
        assert mongo.get_default_database().jobs.count_documents({}) == 1
"""


def test_the_tests_of_an_application_say_which_user_they_need(scene: Scene, tmp_path: Path) -> None:
    (tmp_path / "test_app.py").write_text(APPLICATION)
    (tmp_path / "pytest.ini").write_text("[pytest]\n")
    with MongoClient[dict[str, Any]](scene.root) as root:
        root["users"].command("createUser", "tester", pwd="pw", roles=[*map(in_admin, TESTERS)])
    uris = {
        "APP": scene.uri("producer"),
        "TESTS": f"mongodb://tester:pw@{scene.host}/users?replicaSet=rs",
    }
    command = [sys.executable, "-m", "pytest", "-q", "-p", "no:cacheprovider"]
    ended = subprocess.run(
        command,
        cwd=tmp_path,
        env=os.environ | uris,
        capture_output=True,
        text=True,
        timeout=120,
        check=False,
    )
    assert "1 passed, 1 error" in ended.stdout, ended.stdout
    assert "this user may not drop the database" in ended.stdout
    assert "TONTINE_TEST_URI" in ended.stdout
    assert all(role in ended.stdout for role in TESTERS)
    assert "pymongo" not in ended.stdout, "no traceback"
    with MongoClient[dict[str, Any]](scene.root) as root:
        assert not [name for name in root.list_database_names() if name.startswith("tontine_test")]


TESTERS = ("readWriteAnyDatabase", "dbAdminAnyDatabase")


def in_admin(role: str) -> dict[str, str]:
    return {"role": role, "db": "admin"}
