"""`tontine submit` of a task that nobody has says so, beside what it did."""

from __future__ import annotations

import orjson
import pytest
from click.testing import CliRunner, Result

from tontine.cli import tontine
from tontine.errors import ConfigError
from tontine.store.call import Store


def submit(store: Store, mongo_uri: str, *arguments: str) -> Result:
    return CliRunner().invoke(
        tontine, ["submit", *arguments, "--uri", mongo_uri, "--database", store.database.name]
    )


@pytest.fixture
def node(store: Store) -> None:
    modules = [{"name": "store", "version": "1", "authors": [], "tasks": ["store.charge"]}]
    store.database.nodes.insert_one(
        {"_id": "n", "name": "n", "state": "waiting", "beat": 1, "modules": modules}
    )


@pytest.mark.usefixtures("node")
def test_a_misspelt_task_is_told_with_the_one_that_was_meant(store: Store, mongo_uri: str) -> None:
    right = submit(store, mongo_uri, "store.charge")
    assert (right.exit_code, right.stdout, right.stderr) == (0, "submitted job 1\n", "")
    wrong = submit(store, mongo_uri, "store.chrage")
    assert (wrong.exit_code, wrong.stdout) == (0, "submitted job 2\n")
    assert wrong.stderr == (
        "no live node has the task store.chrage (is store.charge meant?): its jobs will wait for "
        "one that does\n"
    )
    as_json = submit(store, mongo_uri, "store.chrage", "--json")
    assert orjson.loads(as_json.stdout)["seq"] == 3
    assert as_json.stderr == wrong.stderr


def test_before_there_is_a_node_it_is_said_that_jobs_wait(store: Store, mongo_uri: str) -> None:
    said = submit(store, mongo_uri, "store.charge").stderr
    assert said == "no live node has the task store.charge: its jobs will wait for one that does\n"


def test_a_name_without_a_module_is_refused(store: Store, mongo_uri: str) -> None:
    refused = submit(store, mongo_uri, "charge")
    assert isinstance(refused.exception, ConfigError)
    assert 'this cannot be a job: `task` must be like "shop.resize"' in str(refused.exception)
    assert store.database.jobs.count_documents({}) == 0


@pytest.mark.parametrize(
    "arguments", [["store.charge@>=1.2, <2"], ["store.charge", "--version", ">=1.2,<2"]]
)
def test_a_range_of_versions_is_written_in_the_one_form(
    store: Store, mongo_uri: str, arguments: list[str]
) -> None:
    assert submit(store, mongo_uri, *arguments).exit_code == 0
    assert [job["task"] for job in store.database.jobs.find()] == ["store.charge@<2,>=1.2"]


@pytest.mark.parametrize("arguments", [["store.charge@1.2"], ["store.charge", "--version", "1.2"]])
def test_what_is_no_range_is_refused_in_the_words_of_clients(
    store: Store, mongo_uri: str, arguments: list[str]
) -> None:
    refused = submit(store, mongo_uri, *arguments).exception
    assert isinstance(refused, ConfigError)
    told = "'1.2' is not a version range: write it like >=1.2,<2 or ==1.2.*"
    assert str(refused) == told
    assert store.database.jobs.count_documents({}) == 0
