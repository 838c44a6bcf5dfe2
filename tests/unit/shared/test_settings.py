"""The settings file: which one is read, what a mistake in it is answered with, and what `tontine
config` shows."""

from __future__ import annotations

import json
import os
from pathlib import Path
from typing import Any

import click
import pytest
from click.testing import CliRunner

from tontine import AsyncClient, Client, settings
from tontine.cli import _variable, tontine
from tontine.cli.options import own_parameters, written
from tontine.errors import ConfigError
from tontine.settings import SettingsFile
from tontine_node.command import node
from tontine_node.config import ContextConfig
from tontine_node.contexts import of_command


@pytest.fixture(autouse=True)
def here(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository's root, two directories above the working directory."""
    (tmp_path / ".git").mkdir()
    directory = tmp_path / "a" / "b"
    directory.mkdir(parents=True)
    monkeypatch.chdir(directory)
    for name in [name for name in os.environ if name.startswith("TONTINE_")]:
        monkeypatch.delenv(name)
    return tmp_path


def test_the_nearest_file_is_read_and_one_of_ours_before_a_shared_one(here: Path) -> None:
    assert settings.read(None) == SettingsFile()
    (here / "pyproject.toml").write_text('[project]\nname = "x"')
    assert settings.read(None) == SettingsFile()
    (here / "pyproject.toml").write_text('[tool.tontine]\ndatabase = "shared"')
    assert settings.read(None).text("database") == "shared"
    (here / "tontine.toml").write_text('database = "root"')
    assert settings.read(None).text("database") == "root"
    (here / "a" / "pyproject.toml").write_text('[tool.tontine]\ndatabase = "a"')
    assert settings.read(None).text("database") == "a"
    (here / "a" / "b" / "tontine.toml").write_text('database = "b"')
    assert settings.read(None).text("database") == "b"
    assert settings.read(str(here / "tontine.toml")).text("database") == "root"


def test_above_the_root_of_a_repository_or_the_home_nothing_is_looked_for(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "tontine.toml").write_text('database = "root"')
    (here / "a" / "b" / ".git").mkdir()
    assert settings.read(None).path is None
    (here / "a" / "b" / ".git").rmdir()
    assert settings.read(None).path is not None
    monkeypatch.setattr(Path, "home", lambda: here / "a")
    assert settings.read(None).path is None


def test_a_file_of_another_user_is_read_only_in_the_working_directory(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Above it may be a place in which anybody can put one."""
    file = here / "a" / "tontine.toml"
    file.touch()
    monkeypatch.setattr(os, "geteuid", lambda: file.stat().st_uid + 1)
    if file.stat().st_uid == 0:
        os.chown(file, 12345, -1)
    assert settings.read(None).path is None
    monkeypatch.chdir(file.parent)
    assert settings.read(None).path == file


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("databse = 'x'", r"tontine.toml: `databse` is no setting: did you mean `database`\?"),
        ("[colour]", r"`colour` is no setting: there are uri, database, embedded, node, contexts"),
        ("database = 5", r"`database` must be a text, not a whole number"),
        ("uri = ''", r"`uri` must be a text, not an empty text"),
        ("embedded = 'yes'", r"`embedded` must be true or false, not a text"),
        ("node = []", r"`node` must be a table, \[node\], not a list"),
        ("[node]\nproceses = 2", r"`node.proceses` is no setting: did you mean `processes`\?"),
        ("[node]\nmax-held = 2", r"`node.max-held` is no setting: did you mean `max_held`\?"),
        ("[node]\nprocesses = '2'", r"`node.processes` must be a whole number, not a text"),
        ("[node]\nprocesses = true", r"`node.processes` must be a whole number, not true or false"),
        ("[node]\nlisten = 0", r"`node.listen` must be true or false, not a whole number"),
        ("[node]\nstreams = 0", r"`node.streams` must be true or false, not a whole number"),
        ("[node]\nlease = []", r'`node.lease` must be a time like "20s", not a list'),
        ("[node]\nlease = 'soon'", r"`node.lease` cannot be that: 'soon' is not a duration"),
        (
            "[node]\nmax_memory = 'much'",
            r"`node.max_memory` cannot be that: 'much' is no amount of memory",
        ),
        ("[node]\nmodules = 'x'", r"`node.modules` must be a list of texts, not a text"),
        ("[node]\nname = 5", r"`node.name` must be a text, not a whole number"),
        ("[node]\navailable = 'x'", r"`node.available` must be a list of texts, not a text"),
        ("[context.mail]", r"`context` is no setting: did you mean `contexts`\?"),
        ("contexts = 5", r"`contexts` must be a table, \[contexts\], not a whole number"),
        ("contexts.mail = 5", r"`contexts.mail` must be a table, \[contexts.mail\], not a whole"),
        (
            "[contexts.mail]\nproces = 2",
            r"`contexts.mail.proces` is no setting: did you mean `processes`\?",
        ),
        ("[contexts.mail]\nslots = '5'", r"`contexts.mail.slots` must be a whole number, not a t"),
        ("[contexts.mail]\nslots = 5", r"`contexts.mail` loads nothing: say what, like modules ="),
        (
            "[contexts.mail]\nenv = { PORT = 25 }",
            r"`contexts.mail.env.PORT` must be a text in quotes, not a whole number",
        ),
        (
            "[contexts.mail]\nmodules = ['m']\nenv = { 'A B' = 'x' }",
            r"`contexts.mail.env` has 'A B', which cannot name a variable",
        ),
        (
            "[contexts.mail]\nmodules = ['m']\nprofile = 'mail.context'",
            r"`contexts.mail.profile` cannot be 'mail.context': .* like \"mail.context:mail\"",
        ),
        (
            "[contexts.'my mail']\nmodules = ['m']",
            r"`contexts.my mail` cannot name a context: a letter, then letters, digits",
        ),
        (
            "[contexts.a]\nmodules = ['x', 'm']\n[contexts.b]\nmodules = ['m:shop']",
            r"`contexts.b.modules` has 'm:shop', and `contexts.a.modules` has 'm': a module",
        ),
        (
            "[node]\nmodules = ['./m.py']\n[contexts.b]\nmodules = ['m.py']",
            r"`contexts.b.modules` has 'm.py', and `node.modules` has './m.py'",
        ),
        (
            "[node]\nslots = 2\n[contexts.default]\nslots = 3",
            r"`contexts.default.slots` and `node.slots` say the same of the default context: keep",
        ),
        ("uri = ", r"the settings in .*tontine.toml cannot be read: Invalid value"),
    ],
)
def test_a_mistake_is_answered_with_the_file_the_key_and_a_way_out(
    here: Path, text: str, message: str
) -> None:
    (here / "tontine.toml").write_text(text)

    with pytest.raises(ConfigError, match=message):
        written(settings.read(None), node)


@pytest.mark.parametrize(
    "text", ["uri = ", "databse = 'x'", "embedded = 'yes'", "[node]\nproceses = 2"]
)
def test_a_mistake_is_noticed_by_whoever_reads_the_file_whatever_is_set_beside_it(
    here: Path, text: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    """Before: a URI in the environment hid it from commands and clients, and the table of nodes was
    not looked at."""
    monkeypatch.setenv("TONTINE_URI", "mongodb://127.0.0.1:1/shop")
    (here / "tontine.toml").write_text(text)
    for command in (["jobs"], ["jobs", "--uri", "mongodb://h/x"], ["config"], ["bench"]):
        assert isinstance(CliRunner().invoke(tontine, command).exception, ConfigError), command
    with pytest.raises(ConfigError, match=r"tontine\.toml"):
        Client()
    with pytest.raises(ConfigError, match=r"tontine\.toml"):
        AsyncClient()


def test_commands_check_values_of_nodes_by_the_rules_of_nodes(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TONTINE_URI", "mongodb://127.0.0.1:1/shop")
    (here / "tontine.toml").write_text("[node]\nlease = 'soon'")
    ended = CliRunner().invoke(tontine, ["jobs"])
    assert "`node.lease` cannot be that: 'soon' is not a duration" in str(ended.exception)


@pytest.mark.parametrize(
    ("name", "value"),
    [("PROCESSES", "many"), ("LEASE", "soon"), ("STREAMS", "perhaps"), ("MAX_MEMORY", "much")],
)
def test_config_checks_the_values_of_variables(
    name: str, value: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv(f"TONTINE_{name}", value)
    ended = CliRunner().invoke(tontine, ["config"])
    assert isinstance(ended.exception, ConfigError)
    assert f"TONTINE_{name} cannot be that: {value!r} is no" in str(ended.exception)


def test_a_shared_file_that_is_broken_is_for_others_to_complain_about(here: Path) -> None:
    (here / "pyproject.toml").write_text("[project")
    assert settings.read(None).path is None
    (here / "pyproject.toml").write_text("[tool.tontine]\nuri = ")
    with pytest.raises(ConfigError, match="cannot be read"):
        settings.read(None)
    (here / "pyproject.toml").write_text("[tool.tontine]\nurl = 'x'")
    with pytest.raises(
        ConfigError, match=r"`tool.tontine.url` is no setting: did you mean `uri`\?"
    ):
        settings.read(None)


def test_a_file_that_was_named_and_is_not_there_is_an_error() -> None:
    with pytest.raises(ConfigError, match=r"/nowhere.toml cannot be read: No such file"):
        settings.read("/nowhere.toml")


def parsed(*arguments: str) -> dict[str, Any]:
    """What `tontine node` takes its settings for."""
    return node.make_context("node", [*arguments]).params


def test_flags_win_over_variables_and_these_over_the_file_and_the_file_over_defaults(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert parsed("m")["processes"] == 1
    (here / "tontine.toml").write_text(
        '[node]\nmodules = ["a", "b"]\nprocesses = 2\nlease = 8\ngrace = "1m"\nmax_memory = '
        '"1GB"\nlisten = false\n'
        'json = true\nname = "web"\nmax_held = 64\nshare_uri = true'
    )
    file = parsed()
    assert (file["modules"], file["processes"], file["lease"], file["grace"]) == (
        ("a", "b"),
        2,
        8.0,
        60.0,
    )
    assert (file["max_memory"], file["max_held"], file["listen"], file["as_json"]) == (
        1024,
        64,
        False,
        True,
    )
    assert (file["name"], file["share_uri"], file["slots"]) == ("web", True, 1)
    for name, value in {
        "PROCESSES": "3",
        "MODULES": "c d",
        "LISTEN": "1",
        "JSON": "0",
        "LEASE": "9s",
    }.items():
        monkeypatch.setenv(f"TONTINE_{name}", value)
    variable = parsed()
    assert (variable["modules"], variable["processes"], variable["lease"]) == (("c", "d"), 3, 9.0)
    assert (variable["listen"], variable["as_json"]) == (True, False)
    flag = parsed("e", "--processes", "4", "--no-listen", "--json", "--lease", "10s")
    assert (flag["modules"], flag["processes"], flag["listen"], flag["as_json"]) == (
        ("e",),
        4,
        False,
        True,
    )
    assert flag["lease"] == 10.0
    (here / "other.toml").write_text("[node]\nslots = 5")
    assert parsed("--config", str(here / "other.toml"))["slots"] == 5
    monkeypatch.setenv("TONTINE_CONFIG", str(here / "other.toml"))
    assert parsed()["slots"] == 5


def test_a_wrong_value_of_a_variable_is_told_with_its_name(monkeypatch: pytest.MonkeyPatch) -> None:
    for name, value in (("PROCESSES", "x"), ("JSON", "perhaps"), ("LEASE", "soon")):
        with monkeypatch.context() as environment:
            environment.setenv(f"TONTINE_{name}", value)
            with pytest.raises(click.BadParameter) as caught:
                parsed("m")
        assert _variable(caught.value) == f"TONTINE_{name} says so; "
    with pytest.raises(click.BadParameter) as caught:
        parsed("m", "--processes", "x")
    assert _variable(caught.value) == ""


def test_every_own_flag_of_a_node_can_be_written_to_a_file() -> None:
    flags = {
        option.name
        for option in node.params
        if isinstance(option, click.Option) and not option.hidden
    }
    assert flags - {"uri", "database", "config_file", "embedded"} == {
        parameter.name for parameter in own_parameters(node).values() if parameter.name != "modules"
    }


def shown(*arguments: str) -> dict[str, tuple[Any, str]]:
    ended = CliRunner().invoke(tontine, ["config", "--json", *arguments], catch_exceptions=False)
    assert ended.exit_code == 0, ended.output
    return {
        line["setting"]: (line["value"], line["from"])
        for line in map(json.loads, ended.stdout.splitlines())
    }


def test_every_setting_is_shown_with_who_said_so_and_without_secrets(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    file = here / "tontine.toml"
    file.write_text('uri = "mongodb://u:secret@h/shop"\n[node]\nprocesses = 2')
    monkeypatch.setenv("TONTINE_SLOTS", "7")
    monkeypatch.setenv("TONTINE_HOME", "/somewhere")
    told = shown()
    assert told["file"] == (str(file), "default")
    assert told["uri"] == ("mongodb://u:***@h/shop", str(file))
    assert told["database"] == ("shop", "the path of the URI")
    assert told["home"] == ("/somewhere", "TONTINE_HOME")
    assert told["node.processes"] == (2, str(file))
    assert told["node.slots"] == ("7", "TONTINE_SLOTS")
    assert told["node.lease"] == ("20s", "default")
    assert told["node.max_jobs"] == (None, "default")
    assert shown("--uri", "mongodb://x")["uri"] == ("mongodb://x", "given")
    text = CliRunner().invoke(tontine, ["config"]).stdout
    assert "secret" not in text
    assert text.splitlines()[0].split() == ["SETTING", "VALUE", "FROM"]
    file.write_text("[node]\nprocesses = 'x'")
    ended = CliRunner().invoke(tontine, ["config"])
    assert isinstance(ended.exception, ConfigError)


def test_a_setting_that_was_renamed_still_has_its_former_name(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "tontine.toml").write_text("[node]\nstreams = false")
    assert parsed("m")["listen"] is False
    monkeypatch.setenv("TONTINE_STREAMS", "1")
    assert parsed("m")["listen"] is True
    assert shown()["node.listen"] == ("1", "TONTINE_STREAMS")
    monkeypatch.setenv("TONTINE_LISTEN", "0")
    assert parsed("m")["listen"] is False
    assert parsed("m", "--streams")["streams"] is True
    assert parsed("m", "--no-streams")["streams"] is False
    assert parsed("m")["streams"] is None, "only a flag: variables and files say `listen`"


@pytest.mark.parametrize(
    ("text", "message"),
    [
        ("processes = 0", r"`contexts.mail.processes` cannot be that: 0 is not among 1 to 512"),
        ("slots = 2000", r"`contexts.mail.slots` cannot be that: 2000 is not among 1 to 1024"),
        ("max_jobs = -1", r"`contexts.mail.max_jobs` cannot be that: -1 is not among 1 to"),
        ("max_memory = 'much'", r"`contexts.mail.max_memory` cannot be that: 'much' is no amount"),
        ("max_memory = 15", r"`contexts.mail.max_memory` cannot be that: a worker needs about 30"),
        ("start_within = 'soon'", r"`contexts.mail.start_within` cannot be that: 'soon' is not a"),
        ("start_within = 0", r"`contexts.mail.start_within` cannot be that: a worker needs some"),
    ],
)
def test_values_of_contexts_are_checked_by_every_command(
    here: Path, text: str, message: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TONTINE_URI", "mongodb://127.0.0.1:1/shop")
    (here / "tontine.toml").write_text(f"[contexts.mail]\nmodules = ['m']\n{text}")
    for command in (["jobs"], ["config"], ["node"]):
        with pytest.raises(ConfigError, match=message):
            CliRunner().invoke(tontine, command, catch_exceptions=False)


def test_two_modules_of_one_file_may_be_in_two_contexts(here: Path) -> None:
    (here / "tontine.toml").write_text(
        "[contexts.a]\nmodules = ['m:shop']\n[contexts.b]\nmodules = ['m:mail']"
    )
    assert list(settings.read(None).contexts()) == ["a", "b"]


TWO_CONTEXTS = """
[node]
available = ["etl.tasks"]
[contexts.default]
modules = ["shop.tasks"]
processes = 4
env = { KEY = "secret" }
start_within = "1m"
[contexts.mail]
modules = ["mail.tasks"]
profile = "mail.context:mail"
slots = 50
env = { SMTP_HOST = "smtp.internal" }
max_jobs = 7
max_memory = "500MB"
start_within = "30s"
"""
MAIL = ContextConfig(
    "mail",
    ("mail.tasks",),
    "mail.context:mail",
    slots=50,
    env={"SMTP_HOST": "smtp.internal"},
    max_jobs=7,
    max_memory=500 * 2**20,
    start_within=30,
)


def contexts_of(*arguments: str) -> tuple[ContextConfig, ...]:
    """The contexts that `tontine node` would have."""
    context = node.make_context("node", [*arguments])
    limits = {name: context.params[name] for name in ("processes", "slots", "max_jobs")}
    return of_command(context, context.params["modules"], limits)


def test_a_node_without_modules_has_the_contexts_of_the_file(here: Path) -> None:
    (here / "tontine.toml").write_text(TWO_CONTEXTS)
    usual = ContextConfig("default", ("shop.tasks",), None, 4, env={"KEY": "secret"})
    assert contexts_of() == (usual, MAIL)
    assert parsed()["available"] == ("etl.tasks",)
    assert [one.processes for one in contexts_of("--processes", "8")] == [8, 1]


def test_modules_that_are_named_make_the_default_context_and_no_other(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (here / "tontine.toml").write_text(TWO_CONTEXTS)
    named = ContextConfig("default", ("a", "b"), None, 4, env={"KEY": "secret"})
    assert contexts_of("a", "b") == (named,)
    monkeypatch.setenv("TONTINE_MODULES", "a b")
    assert contexts_of() == (named,)


def test_modules_in_the_table_of_nodes_are_the_default_context_s_beside_others(here: Path) -> None:
    (here / "tontine.toml").write_text(
        "[node]\nmodules = ['shop.tasks']\nslots = 3\n[contexts.etl]\nmodules = ['etl.tasks']"
    )
    assert contexts_of() == (
        ContextConfig("default", ("shop.tasks",), slots=3),
        ContextConfig("etl", ("etl.tasks",)),
    )


def test_what_is_said_of_a_default_context_that_is_not_there_is_refused(
    here: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    text = "[contexts.mail]\nmodules = ['m']\n[contexts.etl]\nmodules = ['e']\n"
    (here / "tontine.toml").write_text(text)
    assert [one.name for one in contexts_of()] == ["mail", "etl"]
    told = r"is for the context `default`, and this node has only mail, etl: say it in \[contexts.m"
    with pytest.raises(ConfigError, match=f"--max-jobs {told}"):
        contexts_of("--max-jobs", "3")
    (here / "tontine.toml").write_text(f"{text}\n[node]\nslots = 2")
    with pytest.raises(ConfigError, match=f"`node.slots` {told}"):
        contexts_of()
    (here / "tontine.toml").write_text(text)
    monkeypatch.setenv("TONTINE_PROCESSES", "2")
    with pytest.raises(ConfigError, match=f"TONTINE_PROCESSES {told}"):
        contexts_of()


def test_a_node_without_modules_and_without_contexts_is_told_of_both() -> None:
    with pytest.raises(ConfigError, match=r"name at least one module.*or contexts in tontine.toml"):
        CliRunner().invoke(tontine, ["node"], catch_exceptions=False)


def test_contexts_are_shown_with_the_names_of_their_variables_only(here: Path) -> None:
    file = here / "tontine.toml"
    file.write_text(TWO_CONTEXTS)
    told = shown()
    assert told["node.modules"] == (["shop.tasks"], str(file))
    assert told["node.processes"] == (4, str(file))
    assert told["node.available"] == (["etl.tasks"], str(file))
    assert told["contexts.default.env"] == (["KEY"], str(file))
    assert "contexts.default.processes" not in told, "node.processes says it"
    assert told["contexts.mail.modules"] == (["mail.tasks"], str(file))
    assert told["contexts.mail.env"] == (["SMTP_HOST"], str(file))
    assert told["contexts.mail.start_within"] == ("30s", str(file))
    text = CliRunner().invoke(tontine, ["config"]).stdout
    assert "secret" not in text
    assert "smtp.internal" not in text
