"""What a user may not do is said in words, without the documents that the server quotes."""

from __future__ import annotations

from collections.abc import Iterator
from typing import Any

import pytest
from pymongo import MongoClient
from pymongo.errors import OperationFailure, _OperationCancelled

from tests.support.mongod import with_users
from tontine.errors import NotPermitted, StoreUnavailable
from tontine.store.call import Call, Operation, Store, command, translated


@pytest.fixture(scope="module")
def host(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    with (
        with_users(tmp_path_factory.mktemp("users")) as (root, host),
        MongoClient[dict[str, Any]](root) as client,
    ):
        client["tontine"].jobs.insert_one({"task": "shop.mail"})
        client["tontine"].command("createUser", "reader", pwd="pw", roles=["read"])
        client["tontine"].command("createRole", "looker", privileges=[], roles=[])
        client["tontine"].command("createUser", "nobody", pwd="pw", roles=["looker"])
        yield host


def refused(host: str, user: str, call: Call) -> NotPermitted:
    with MongoClient[dict[str, Any]](f"mongodb://{user}{host}/tontine?replicaSet=rs") as client:
        with pytest.raises(NotPermitted) as caught:
            Store(client["tontine"]).run(_one(call))
        return caught.value


def _one(call: Call) -> Operation[Any]:
    return (yield call)


SECRET = {"args": {"card": "4111-1111"}}


@pytest.mark.parametrize(
    ("user", "call", "text", "action"),
    [
        ("reader", Call("jobs", "update_many", ({}, {"$set": SECRET})), "update `jobs`", "update"),
        ("reader", Call("jobs", "insert_one", (dict(SECRET),)), "insert into `jobs`", "insert"),
        ("reader", Call("jobs", "delete_one", (SECRET,)), "remove from `jobs`", "remove"),
        (
            "reader",
            Call("jobs", "find_one_and_update", (SECRET, {"$set": SECRET})),
            "update `jobs`",
            "update",
        ),
        (
            "reader",
            Call("jobs", "create_index", ("card",)),
            "create indexes of `jobs`",
            "createIndex",
        ),
        (
            "reader",
            command({"collMod": "jobs", "validator": SECRET}),
            "change the settings of `jobs`",
            "collMod",
        ),
        ("nobody", Call("jobs", "find", (SECRET,)), "read `jobs`", "find"),
        ("nobody", Call("jobs", "watch", ()), "follow the changes of `jobs`", "changeStream"),
        ("nobody", command({"serverStatus": 1}), "see the server's status", "serverStatus"),
        ("nobody", command({"dbStats": 1}), "run dbStats", "dbStats"),
    ],
)
def test_a_refusal_names_the_deed_and_what_it_needs(
    host: str, user: str, call: Call, text: str, action: str
) -> None:
    error = refused(host, f"{user}:pw@", call)
    assert str(error).startswith(
        f"this user may not {text} in `tontine`: it needs the right `{action}` there"
    )
    assert (error.database, error.action) == ("tontine", action)
    assert error.collection == ("jobs" if "`jobs`" in text else "")
    assert "4111" not in str(error)


def test_a_wrong_password_and_none_at_all_are_told_apart(host: str) -> None:
    reading = Call("jobs", "find", ({},))
    assert "the password is wrong" in str(refused(host, "reader:wr0ng-one@", reading))
    assert "wr0ng-one" not in str(refused(host, "reader:wr0ng-one@", reading))
    assert "requires authentication" in str(refused(host, "", reading))


@pytest.mark.parametrize(
    ("text", "said"),
    [
        (
            "user is not allowed to do action [update] on [tontine.jobs]",
            (
                "this user may not update `jobs` in `tontine`: it needs the right `update` there, "
                "which the role readWrite"
            ),
        ),
        (
            "user is not allowed to do action [killCursors] on [tontine.jobs]",
            (
                "this user may not killCursors on `jobs` in `tontine`: it needs the right "
                "`killCursors` there"
            ),
        ),
        ("bad auth : Authentication failed.", "MongoDB does not let this user in: "),
        (
            "you are over your space quota, using 512 MB of 512 MB",
            "MongoDB refused it: you are over your space quota",
        ),
        ('no: { update: "jobs", card: "4111" }', "MongoDB refused it: no: (code 8000)"),
    ],
)
def test_refusals_of_atlas(text: str, said: str) -> None:
    error = translated(OperationFailure(text, 8000, {"errmsg": text}))
    assert isinstance(error, NotPermitted)
    assert str(error).startswith(said)


def test_a_call_whose_server_went_silent_says_so() -> None:
    error = translated(_OperationCancelled("operation cancelled"))
    assert isinstance(error, StoreUnavailable)
    assert str(error) == "the server does not answer"
