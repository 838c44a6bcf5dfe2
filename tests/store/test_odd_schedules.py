"""Whatever is in one document of `schedules`: the others fire, and it is shown as what it is."""

from __future__ import annotations

import contextlib
import json
from collections.abc import Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from bson import (
    Binary,
    Code,
    DatetimeMS,
    Decimal128,
    Int64,
    MaxKey,
    MinKey,
    ObjectId,
    Regex,
    Timestamp,
)
from click.testing import CliRunner
from hypothesis import HealthCheck, given, settings
from hypothesis import strategies as st
from pymongo.errors import BulkWriteError

from tontine.cli import tontine
from tontine.diagnose.doctor.read import survey
from tontine.diagnose.doctor.schedules import judge_schedules
from tontine.diagnose.doctor.verdict import Verdict
from tontine.errors import TontineError
from tontine.store import read, schedules
from tontine.store.call import Store


def nested(levels: int) -> dict[str, Any]:
    document: dict[str, Any] = {}
    for _ in range(levels):
        document = {"a": document}
    return document


ODD: list[Any] = [
    *(None, True, False, 0, -1, 1, 2**31, Int64(2**63 - 1), Int64(-(2**63))),
    *(float("nan"), float("inf"), float("-inf"), 1e308, 1e-9, -0.0, 1.5),
    *(
        "",
        "x",
        "UTC",
        "skip",
        "Europe",
        "../etc",
        "/etc/passwd",
        "a\0b",
        "x" * 20_000,
        "* * * * *",
        "0 0 */31 2 1#5",
    ),
    *(
        "@daily",
        "*/0 * * * *",
        "61 * * * *",
        "* * * * * * *",
        "0 0 30 2 *",
        "9" * 900 + " * * * *",
        "\u202e",
        "{}",
    ),
    *(b"", b"x", Binary(b"xx", 4), Binary(b"x" * 16, 3), Binary(b"x", 255), ObjectId("0" * 24)),
    *(
        datetime(1970, 1, 1, tzinfo=UTC),
        datetime(9998, 12, 31, tzinfo=UTC),
        datetime(1, 1, 1),
        datetime(9999, 12, 31),
    ),
    *(DatetimeMS(2**63 - 1), DatetimeMS(-(2**63))),
    *(Regex("x"), Code("x"), Code("x", {"a": 1}), Timestamp(1, 1), MinKey(), MaxKey()),
    *(Decimal128("NaN"), Decimal128("Infinity"), Decimal128("5"), Decimal128("1E+6000")),
    *([], [[]], ["x"], [datetime(2020, 1, 1)], {}, {"$gt": 1}, {"a": 1}, nested(150)),
    *({"$ref": 5, "$id": 1}, {"$ref": "x", "$id": 1, "$db": 7}),
]
FIELDS = ["_id", "task", "args", "cron", "every", "timezone", "missed", "next_at", "other"]
FIELDS += ["overlap", "max_age", "off", "declared", "last_job", "skipped", "removed"]
GOOD: Mapping[str, Any] = {
    "task": "t.t",
    "every": 3600,
    "args": {},
    "timezone": "UTC",
    "missed": "skip",
}
ABSENT = object()

odd_documents = st.lists(
    st.dictionaries(
        st.sampled_from(FIELDS), st.sampled_from([ABSENT, *ODD]), min_size=1, max_size=3
    ),
    min_size=1,
    max_size=6,
)


def put_odd(store: Store, many: list[dict[str, Any]], due: datetime) -> None:
    documents = [
        {"_id": f"odd-{place}", **GOOD, "next_at": due, **wrong} for place, wrong in enumerate(many)
    ]
    given = [
        {name: it for name, it in document.items() if it is not ABSENT} for document in documents
    ]
    with contextlib.suppress(BulkWriteError):  # a server takes anything but some ids
        store.database.schedules.insert_many(given, ordered=False, bypass_document_validation=True)


def look_at_all(store: Store) -> None:
    """What a node does at each look; only errors of one schedule may come."""
    for due in store.run(schedules.find_due(0)):
        with contextlib.suppress(TontineError):
            store.run(schedules.fire(due))
    for wrong in store.run(schedules.find_wrong(0))[1]:
        with contextlib.suppress(TontineError):
            store.run(schedules.mend(wrong))


@settings(
    max_examples=25,
    derandomize=True,
    deadline=None,
    suppress_health_check=[HealthCheck.function_scoped_fixture],
)
@given(odd_documents)
def test_whatever_is_in_one_document_the_others_fire(
    store: Store, many: list[dict[str, Any]]
) -> None:
    for collection in ("schedules", "jobs"):
        store.database[collection].delete_many({})
    due = store.run(read.now()) - timedelta(seconds=5)
    put_odd(store, many, due - timedelta(seconds=60))
    store.database.schedules.insert_one({"_id": "good", **GOOD, "next_at": due})
    look_at_all(store)
    assert store.database.jobs.count_documents({"schedule": "good"}) == 1
    assert len(store.run(schedules.read_schedules())) == store.database.schedules.count_documents(
        {"removed": {"$ne": True}}
    )
    found = store.run(survey())
    assert (judge_schedules(found).verdict is Verdict.FAIL) == bool(found.broken)


def test_every_odd_value_of_every_field_is_listed_with_the_reason(
    store: Store, mongo_uri: str
) -> None:
    due = store.run(read.now()) - timedelta(seconds=5)
    values = [(field, place, value) for field in FIELDS for place, value in enumerate(ODD)]
    put_odd(
        store, [{"_id": f"{field}-{place}", field: value} for field, place, value in values], due
    )
    options = ["--uri", mongo_uri, "--database", store.database.name]
    for arguments in (
        ["schedule", "ls"],
        ["schedule", "ls", "--json"],
        ["doctor", "--quick", "--json"],
    ):
        ended = CliRunner().invoke(tontine, [*arguments, *options])
        assert isinstance(ended.exception, SystemExit | None), ended.exception
        assert "Traceback" not in ended.output
    listed = CliRunner().invoke(tontine, ["schedule", "ls", "--json", *options])
    found = [json.loads(line) for line in listed.stdout.splitlines()]
    broken = {one["_id"]: one["broken"] for one in found if one["broken"] is not None}
    assert len(found) == store.database.schedules.count_documents({"removed": {"$ne": True}})
    assert not any(name.startswith(("other-", "next_at-")) for name in broken)
    assert len([name for name in broken if name.startswith("task-")]) > len(ODD) // 2
    assert all(broken.values())
