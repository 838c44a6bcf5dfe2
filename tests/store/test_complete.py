"""What the shell completes from the store: names of nodes, tasks and schedules, wherever a command
takes one."""

from __future__ import annotations

from pathlib import Path

import pytest
from click.shell_completion import CompletionItem, ShellComplete

from tontine.cli import tontine
from tontine.store.call import Store


@pytest.fixture
def filled(store: Store) -> Store:
    modules = [{"name": "shop", "tasks": ["shop.resize"]}]
    store.database.nodes.insert_one(
        {"_id": "ada-1", "name": "ada", "state": "waiting", "beat": 1, "modules": modules}
    )
    store.database.schedules.insert_one({"_id": "tidy", "task": "shop.tidy", "every": 60})
    return store


def items(*words: str) -> list[CompletionItem]:
    return ShellComplete(tontine, {}, "tontine", "_TONTINE_COMPLETE").get_completions(
        [*words[:-1]], words[-1]
    )


def complete(*words: str) -> list[str]:
    return [item.value for item in items(*words)]


@pytest.mark.usefixtures("filled")
def test_names_are_completed_wherever_a_command_takes_one(
    mongo_uri: str, database: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setenv("TONTINE_URI", mongo_uri)
    monkeypatch.setenv("TONTINE_DATABASE", database)
    for command in ("jobs", "retry", "cancel", "purge"):
        assert complete(command, "--schedule", "t") == ["tidy"]
        assert complete(command, "--node", "") == ["ada"]
        assert complete(command, "--task", "shop") == ["shop.resize"]
    for command in ("on", "off", "run", "rm", "add"):
        assert complete("schedule", command, "") == ["tidy"]
    assert complete("nodes", "--check", "a") == ["ada"]
    assert complete("nodes", "--check", "b") == []


def test_the_file_of_settings_is_asked_for_where_the_store_is(
    filled: Store, mongo_uri: str, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    for name in ("TONTINE_URI", "TONTINE_DATABASE", "TONTINE_CONFIG"):
        monkeypatch.delenv(name, raising=False)
    monkeypatch.setenv("TONTINE_HOME", str(tmp_path))
    monkeypatch.chdir(tmp_path)
    file = tmp_path / "here.toml"
    file.write_text(f'uri = "{mongo_uri}"\ndatabase = "{filled.database.name}"\n')
    assert complete("jobs", "--schedule", "") == []
    assert complete("jobs", "--config", str(file), "--schedule", "") == ["tidy"]
    assert complete("schedule", "off", "--config", str(file), "") == ["tidy"]
    assert complete("jobs", "--config", str(tmp_path / "missing.toml"), "--schedule", "") == []
    assert [item.type for item in items("jobs", "--config", "he")] == ["file"]
