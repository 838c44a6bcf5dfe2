"""Variables that look like a setting and are none: commands refuse them, clients warn, and others'
are left alone."""

from __future__ import annotations

import logging
import os

import pytest
from click.testing import CliRunner

from tontine import config
from tontine.cli import tontine
from tontine.config import StoreConfig
from tontine.errors import ConfigError
from tontine.variables import KNOWN, misspelt


@pytest.fixture(autouse=True)
def nothing_set(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(config, "_warned", set())
    for name in [name for name in os.environ if name.startswith("TONTINE_")]:
        monkeypatch.delenv(name)


@pytest.mark.parametrize(
    ("name", "meant"),
    [
        ("TONTINE_URL", "TONTINE_URI"),
        ("TONTINE_DATABSE", "TONTINE_DATABASE"),
        ("TONTINE_DATABASES", "TONTINE_DATABASE"),
        ("TONTINE_PROCESES", "TONTINE_PROCESSES"),
        ("TONTINE_PROCESS", "TONTINE_PROCESSES"),
        ("TONTINE_SLOT", "TONTINE_SLOTS"),
        ("TONTINE_LAESE", "TONTINE_LEASE"),
        ("TONTINE_MAXJOBS", "TONTINE_MAX_JOBS"),
        ("TONTINE_MODULE", "TONTINE_MODULES"),
        ("tontine_uri", "TONTINE_URI"),
    ],
)
def test_a_misspelt_variable_is_known_for_what_was_meant(name: str, meant: str) -> None:
    assert misspelt(["PATH", name]) == {name: meant}
    assert misspelt([name, meant]) == {}, "what was meant is set as well: nothing is lost"


@pytest.mark.parametrize(
    "name",
    [
        *(
            "TONTINE_PORT",
            "TONTINE_SERVICE_HOST",
            "TONTINE_SERVICE_PORT",
            "TONTINE_SERVICE_PORT_HTTP",
        ),
        *(
            "TONTINE_PORT_8080_TCP",
            "TONTINE_PORT_8080_TCP_ADDR",
            "TONTINE_PORT_8080_TCP_PROTO",
            "TONTINE_NAMES_PORT",
        ),
        *(
            "TONTINE_NODE_SERVICE_HOST",
            "TONTINE_SLOT_PORT_53_UDP",
            "TONTINE_USER",
            "TONTINE_VERSION",
            "TONTINE_TRACE",
        ),
        *(
            "TONTINE_INTERLEAVINGS",
            "TONTINE_WRITE_SNAPSHOTS",
            "_TONTINE_COMPLETE",
            "TONTINE_",
            "TONTINE_DB",
            "URL",
        ),
    ],
)
def test_what_looks_like_nothing_is_left_alone(name: str) -> None:
    assert misspelt([name]) == misspelt(KNOWN) == {}


@pytest.mark.parametrize(
    "command", [["jobs"], ["config"], ["demo"], ["bench"], ["db", "status"], ["node", "x"]]
)
def test_commands_refuse_it_before_they_do_anything(
    command: list[str], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TONTINE_URL", "mongodb://nowhere")
    ended = CliRunner().invoke(tontine, command)
    assert isinstance(ended.exception, ConfigError)
    assert (
        "the variable TONTINE_URL is no setting and changes nothing: did you mean TONTINE_URI?"
        in str(ended.exception)
    )


def test_help_is_given_all_the_same(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONTINE_URL", "mongodb://nowhere")
    assert CliRunner().invoke(tontine, ["jobs", "--help"]).exit_code == 0


def test_an_application_is_warned_once(
    monkeypatch: pytest.MonkeyPatch, caplog: pytest.LogCaptureFixture
) -> None:
    monkeypatch.setenv("TONTINE_DATABSE", "shop")
    with caplog.at_level(logging.WARNING, "tontine"):
        StoreConfig.of("mongodb://h")
        StoreConfig.of("mongodb://h")
    assert [record.getMessage().partition("?")[0] for record in caplog.records] == [
        (
            "the variable TONTINE_DATABSE is no setting and changes nothing: did you mean "
            "TONTINE_DATABASE"
        )
    ]
