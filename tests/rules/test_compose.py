"""The Compose file, which no test can run: against the official schema and what the deployment
promises."""

from __future__ import annotations

import importlib
import json
import tomllib
from importlib.util import find_spec
from pathlib import Path
from typing import Any

import click
import pytest
import yaml
from jsonschema import Draft202012Validator

from tontine.config import seconds

ROOT = Path(__file__).resolve().parents[2]
MEMBERS = ["mongo1", "mongo2", "mongo3"]
PLANTED = {
    "a key no service has": "services: {node: {image: tontine, replicas: 3}}",
    (
        "a condition that does not exist"
    ): "services: {node: {depends_on: {mongo1: {condition: service_ready}}}}",
    "a healthcheck that is a string": "services: {mongo1: {image: mongo, healthcheck: ping}}",
    "an unknown top level": "services: {}\nreplica_set: rs0",
}


def schema_errors(text: str) -> list[str]:
    """What the official schema has against a Compose file."""
    schema = json.loads((ROOT / "tests/rules/compose-spec.schema.json").read_text())
    return [
        error.message for error in Draft202012Validator(schema).iter_errors(yaml.safe_load(text))
    ]


@pytest.fixture
def services() -> dict[str, Any]:
    loaded: dict[str, Any] = yaml.safe_load((ROOT / "docker-compose.yml").read_text())["services"]
    return loaded


def load_command(name: str) -> click.Command:
    """The command that `tontine NAME` finds by its entry point."""
    project = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"]
    module, attribute = project["entry-points"]["tontine.commands"][name].split(":")
    command = getattr(importlib.import_module(module), attribute)
    assert isinstance(command, click.Command)
    return command


def test_the_compose_file_fits_the_schema() -> None:
    assert schema_errors((ROOT / "docker-compose.yml").read_text()) == []


@pytest.mark.parametrize("text", PLANTED.values(), ids=PLANTED)
def test_the_schema_refuses_a_planted_error(text: str) -> None:
    assert schema_errors(text) != []


def test_three_members_form_one_replica_set_on_volumes_of_their_own(
    services: dict[str, Any],
) -> None:
    mongos = {
        name: service for name, service in services.items() if "--replSet" in service["command"]
    }
    assert list(mongos) == MEMBERS
    for name, service in mongos.items():
        assert service["image"].startswith("mongo:8")
        assert service["healthcheck"]["test"][0] == "CMD"
        assert service["command"][service["command"].index("--replSet") + 1] == "rs0"
        assert service["volumes"] == [f"{name}:/data/db"]


def test_the_replica_set_is_initiated_with_all_members_once_they_answer(
    services: dict[str, Any],
) -> None:
    service = services["replica-set"]
    assert service["depends_on"] == {name: {"condition": "service_healthy"} for name in MEMBERS}
    (script,) = service["command"]
    assert "rs.initiate" in script
    assert all(f'"{name}:27017"' in script for name in MEMBERS)


def test_three_nodes_and_an_observer_wait_for_the_replica_set(services: dict[str, Any]) -> None:
    assert set(services) == {*MEMBERS, "replica-set", "node", "observer"}
    assert services["node"]["deploy"]["replicas"] == 3
    assert services["observer"]["profiles"] == ["observer"]
    for name in ("node", "observer"):
        assert (
            services[name]["depends_on"]["replica-set"]["condition"]
            == "service_completed_successfully"
        )
        uri = services[name]["environment"]["TONTINE_URI"]
        assert (
            uri == f"mongodb://{','.join(f'{member}:27017' for member in MEMBERS)}/?replicaSet=rs0"
        )


@pytest.mark.parametrize("name", ["node", "observer"])
def test_the_commands_exist_and_take_the_arguments_given(
    services: dict[str, Any], name: str
) -> None:
    command, *arguments = services[name]["command"]
    with load_command(command).make_context(command, arguments):
        pass


def test_the_nodes_run_a_module_that_exists(services: dict[str, Any]) -> None:
    _, module = services["node"]["command"]
    assert find_spec(module) is not None


def test_a_node_may_use_its_whole_grace_before_it_is_killed(services: dict[str, Any]) -> None:
    command, *arguments = services["node"]["command"]
    node = load_command(command)
    (grace,) = (option for option in node.params if "--grace" in option.opts)
    with node.make_context(command, arguments) as context:
        assert seconds(services["node"]["stop_grace_period"]) > seconds(
            str(grace.get_default(context))
        )


def test_the_image_is_built_from_files_that_exist_and_are_let_in() -> None:
    lines = (ROOT / "Dockerfile").read_text().splitlines()
    copies = [
        line.split()[1:-1] for line in lines if line.startswith("COPY") and "--from" not in line
    ]
    sources = {source for copy in copies for source in copy}
    let_in = {
        line[1:]
        for line in (ROOT / ".dockerignore").read_text().splitlines()
        if line.startswith("!")
    }
    assert sources == let_in
    assert [source for source in sources if not (ROOT / source).exists()] == []
