"""Settings: durations as people write them, times that fit together, names that MongoDB takes."""

from __future__ import annotations

import contextlib
import os
from datetime import timedelta
from pathlib import Path

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tontine.config import DEFAULT_DATABASE, StoreConfig, Timing, database_for, home, seconds
from tontine.errors import ConfigError

quick = settings(max_examples=50, deadline=None)

UNITS = {"ms": 0.001, "s": 1, "m": 60, "h": 3600, "d": 86400, "w": 604800}


@pytest.mark.parametrize(
    ("text", "expected"),
    [
        ("10", 10),
        ("10s", 10),
        ("250ms", 0.25),
        ("5m", 300),
        ("1h30m", 5400),
        ("1h 30m", 5400),
        (" 7D ", 7 * 86400),
        ("2w", 14 * 86400),
        ("0.5s", 0.5),
        (3, 3),
        (2.5, 2.5),
        (timedelta(minutes=1.5), 90),
    ],
)
def test_a_duration_is_read_as_people_write_it(
    text: str | float | timedelta, expected: float
) -> None:
    assert seconds(text) == pytest.approx(expected)


@quick
@given(
    st.lists(
        st.tuples(st.integers(0, 10_000), st.sampled_from(sorted(UNITS))), min_size=1, max_size=5
    )
)
def test_the_parts_of_a_duration_add_up(parts: list[tuple[int, str]]) -> None:
    text = "".join(f"{number}{unit}" for number, unit in parts)
    assert seconds(text) == pytest.approx(sum(number * UNITS[unit] for number, unit in parts))


@pytest.mark.parametrize(
    "text", ["", " ", "s", "ten", "10x", "-5s", "1h30", "1,5s", "1.s", "10s!", "1e3"]
)
def test_what_is_no_duration_is_refused_with_an_example(text: str) -> None:
    with pytest.raises(ConfigError, match=r"is not a duration: .*1h30m"):
        seconds(text)


@quick
@given(st.text(max_size=20))
def test_any_text_is_a_duration_or_a_user_error(text: str) -> None:
    with contextlib.suppress(ConfigError):
        assert seconds(text) >= 0


@quick
@given(st.floats(2, 3600))
def test_the_times_fit_together_for_every_lease(lease: float) -> None:
    times = Timing.of_lease(lease)
    assert times.lease_for == lease
    assert times.heartbeat_every + times.heartbeat_limit < lease / 3
    assert 0 < times.margin < lease
    assert times.valid_for == lease - times.margin
    # One beat that is lost and one that is slow must not fence a node.
    assert 2 * times.heartbeat_every + times.heartbeat_limit < times.valid_for
    assert 0 < times.upkeep_every <= 2


def test_the_default_lease_has_the_times_of_the_protocol() -> None:
    assert Timing.of_lease(20) == Timing()
    assert (Timing().heartbeat_every, Timing().heartbeat_limit, Timing().margin) == (2, 3, 5)


@pytest.mark.parametrize("lease", [0, -1, 1.99, 3601, float("inf"), float("nan")])
def test_a_lease_that_cannot_work_is_refused(lease: float) -> None:
    with pytest.raises(ConfigError, match="choose between 2 s and 1 h"):
        Timing.of_lease(lease)


def test_times_that_contradict_each_other_are_refused() -> None:
    with pytest.raises(ConfigError, match="a third of the lease"):
        Timing(lease_for=10, heartbeat_every=2, heartbeat_limit=2)
    for margin in (0, 20, 25):
        with pytest.raises(ConfigError, match="margin"):
            Timing(margin=margin)


@pytest.mark.parametrize("name", ["tontine", "my-queue_2", "ünï", "x" * 63])
def test_a_database_name_that_mongodb_takes_is_taken(name: str) -> None:
    assert StoreConfig.of("mongodb://a", name).database == name


@pytest.mark.parametrize("name", [*'/\\. "$*<>:|?', "a.b", "a b", "x" * 64, "ü" * 32, "nul\0"])
def test_a_database_name_that_mongodb_refuses_is_refused_here(name: str) -> None:
    with pytest.raises(ConfigError, match="cannot be a database name"):
        StoreConfig.of(None, name)


def test_what_is_given_wins_over_the_environment_and_that_over_the_defaults(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    monkeypatch.delenv("TONTINE_URI", raising=False)
    monkeypatch.delenv("TONTINE_DATABASE", raising=False)
    assert StoreConfig.of() == StoreConfig(None, DEFAULT_DATABASE)
    monkeypatch.setenv("TONTINE_URI", "mongodb://env")
    monkeypatch.setenv("TONTINE_DATABASE", "env")
    assert StoreConfig.of() == StoreConfig("mongodb://env", "env")
    assert StoreConfig.of("mongodb://given", "given") == StoreConfig("mongodb://given", "given")


ORDER: list[tuple[dict[str, str], str]] = [
    ({}, "tontine"),
    ({"uri in file": "mongodb://h/path"}, "path"),
    ({"uri in file": "mongodb://h/path", "in file": "file"}, "file"),
    ({"uri": "mongodb://h/path", "in file": "file"}, "path"),
    ({"TONTINE_URI": "mongodb://h/path", "in file": "file"}, "path"),
    ({"uri": "mongodb://h", "in file": "file"}, "file"),
    ({"uri": "mongodb://h/path", "TONTINE_DATABASE": "environment"}, "environment"),
    ({"uri": "mongodb://h/path", "TONTINE_DATABASE": "environment", "given": "given"}, "given"),
    ({"uri": "mongodb://u:p@h/admin?authSource=x"}, "tontine"),
]


@pytest.fixture
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A working directory without settings above it, and no variable set."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    for name in [name for name in os.environ if name.startswith("TONTINE_")]:
        monkeypatch.delenv(name)
    return tmp_path


@pytest.mark.parametrize(("said", "expected"), ORDER)
def test_a_name_wins_over_a_path_and_what_is_nearer_over_the_file(
    said: dict[str, str], expected: str, elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    written = {"database": said.get("in file"), "uri": said.get("uri in file")}
    lines = [f'{key} = "{value}"' for key, value in written.items() if value]
    (elsewhere / "tontine.toml").write_text("\n".join(lines))
    for name in ("TONTINE_URI", "TONTINE_DATABASE"):
        if name in said:
            monkeypatch.setenv(name, said[name])
    assert StoreConfig.of(said.get("uri"), said.get("given")).database == expected


def test_the_database_of_a_connection_that_the_application_brings(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "tontine.toml").write_text('uri = "mongodb://h/path"\ndatabase = "file"')
    monkeypatch.setenv("TONTINE_URI", "mongodb://h/other")
    assert database_for(None, "own") == "own"
    assert database_for(None, "admin") == database_for(None, None) == "file"
    assert database_for("given", "own") == "given"
    monkeypatch.setenv("TONTINE_DATABASE", "environment")
    assert database_for(None, "own") == "environment"


def test_a_task_sees_no_file(elsewhere: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Its node may have a URI there, with rights that a task shall not have."""
    (elsewhere / "tontine.toml").write_text('uri = "mongodb://h/path"')
    monkeypatch.setenv("TONTINE_CONFIG", str(elsewhere / "tontine.toml"))
    assert StoreConfig.of().uri == "mongodb://h/path"
    monkeypatch.setenv("TONTINE_WORKER", "x")
    assert StoreConfig.of().uri is None


def test_whether_the_embedded_mongodb_may_be_used(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    assert StoreConfig.of().embedded is None
    (elsewhere / "tontine.toml").write_text("embedded = false")
    assert StoreConfig.of().embedded is False
    monkeypatch.setenv("TONTINE_EMBEDDED", "yes")
    assert StoreConfig.of().embedded is True
    monkeypatch.setenv("TONTINE_EMBEDDED", "perhaps")
    with pytest.raises(ConfigError, match="TONTINE_EMBEDDED is 'perhaps', and must be 1 or 0"):
        StoreConfig.of()


def test_a_name_from_the_environment_is_checked_too(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONTINE_DATABASE", "a b")
    with pytest.raises(ConfigError, match="cannot be a database name"):
        StoreConfig.of()


def test_the_home_can_be_chosen(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setenv("TONTINE_HOME", "~/queue")
    assert home().name == "queue"
    assert home().is_absolute()
    monkeypatch.delenv("TONTINE_HOME")
    assert home().name == "tontine"
