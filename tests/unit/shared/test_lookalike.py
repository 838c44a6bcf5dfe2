"""A field that means nothing and looks as if it should is told with the one that was meant."""

from __future__ import annotations

from dataclasses import fields

import pytest

from tontine.lookalike import PLAN, STEP, WRITTEN, Vocabulary, lookalikes, near_tasks, tell
from tontine.records.job import Job
from tontine.store.insert import Wish


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("prioriy", "priority"),
        ("delay", "run_at"),
        ("runAt", "run_at"),
        ("run-at", "run_at"),
        ("eta", "run_at"),
        ("kwargs", "args"),
        ("arg", "args"),
        ("maxAttempts", "max_attempts"),
        ("max_retries", "max_attempts"),
        ("time_out", "timeout"),
        ("Key", "key"),
        ("kye", "key"),
        ("agrs", "args"),
    ],
)
def test_the_field_that_was_meant_is_found(name: str, meant: str) -> None:
    assert lookalikes(["_id", "task", name]) == {name: meant}


def test_a_field_of_the_producers_own_is_nobodys_business() -> None:
    own = [
        "customer",
        "name",
        "id",
        "data",
        "source",
        "tags",
        "created_by",
        "x",
        "monkey",
        "origin",
        "parent",
    ]
    assert lookalikes(["_id", "task", *own]) == {}


@pytest.mark.parametrize(
    ("words", "name", "meant"),
    [
        (PLAN, "onFailure", "on_failure"),
        (PLAN, "finaly", "finally"),
        (PLAN, "step", "steps"),
        (STEP, "mayfail", "may_fail"),
        (STEP, "depends_on", "after"),
        (STEP, "needs", "after"),
        (STEP, "delay", None),
        (STEP, "run_at", None),
        (STEP, "atOnce", "at_once"),
        (STEP, "max_retries", "max_attempts"),
    ],
)
def test_plans_and_steps_have_fields_of_their_own(
    words: Vocabulary, name: str, meant: str | None
) -> None:
    assert lookalikes(["task", name], words) == ({name: meant} if meant else {})
    own = ["customer", "tags", "owner", "description", "label", "source", "data", "note", "meta"]
    assert lookalikes(own, words) == {}


def test_beside_the_field_that_was_meant_it_is_the_producers_own() -> None:
    assert lookalikes(["task", "run_at", "delay"]) == {}


def test_every_field_of_a_job_is_known() -> None:
    written = {field.name for field in fields(Job)} - {"id", "existed"}
    assert lookalikes(written) == {}
    assert {field.name for field in fields(Wish)} - {"delay", "max_age", "unique_for"} <= {
        *WRITTEN
    }, "clients write these otherwise"


def test_the_sentence_is_one_line_whatever_the_name_is() -> None:
    ((name, meant),) = lookalikes(["prio\nity"]).items()
    assert "\n" not in tell(name, meant)


def test_neighbours_may_have_changed_places() -> None:
    assert lookalikes(["taks"]) == {"taks": "task"}
    assert lookalikes(["kats", "gars"]) == {}, "other words of the same letters are words"


@pytest.mark.parametrize(
    ("task", "near"),
    [
        ("store.chrage", ["store.charge"]),
        ("shop.charge", ["store.charge"]),
        ("charge", ["bank.charge", "store.charge"]),
        ("other.thing", []),
        ("store.charge" * 20, []),
    ],
)
def test_tasks_that_were_meant_are_spelt_alike_or_in_another_module(
    task: str, near: list[str]
) -> None:
    known = {"store.charge", "store.resize"} | ({"bank.charge"} if task == "charge" else set())
    assert near_tasks(task, known) == near
