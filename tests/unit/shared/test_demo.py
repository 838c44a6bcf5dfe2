"""Where the demo goes, and how it tells its end."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from tontine.cli.demo import _config
from tontine.cli.demo.story import Death
from tontine.cli.demo.summary import _inheritance
from tontine.config import StoreConfig


@pytest.fixture(autouse=True)
def elsewhere(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Path:
    """A repository of its own, in which a URI is set for other work."""
    (tmp_path / ".git").mkdir()
    monkeypatch.chdir(tmp_path)
    monkeypatch.delenv("TONTINE_EMBEDDED", raising=False)
    monkeypatch.setenv("TONTINE_URI", "mongodb://production/shop")
    return tmp_path


def test_a_variable_is_not_asking_for_a_demo_there(capsys: pytest.CaptureFixture[str]) -> None:
    """Before: sample jobs and killed nodes went to the server that was set for other work."""
    assert _config(None, "tontine_demo") == StoreConfig(None, "tontine_demo", embedded=True)
    assert (
        "the MongoDB that TONTINE_URI names is left alone: --uri asks for it"
        in capsys.readouterr().err
    )


def test_a_flag_is(capsys: pytest.CaptureFixture[str]) -> None:
    assert _config("mongodb://h", "tontine_demo").uri == "mongodb://h"
    assert capsys.readouterr().err == ""


def test_an_embedded_mongodb_that_is_ruled_out_stays_so(
    elsewhere: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    (elsewhere / "tontine.toml").write_text("embedded = false")
    assert _config(None, "tontine_demo").embedded is False
    monkeypatch.setenv("TONTINE_EMBEDDED", "1")
    assert _config(None, "tontine_demo").embedded is True


def test_a_demo_that_ends_too_early_says_so_in_a_sentence() -> None:
    mate: Any = None
    assert _inheritance(Death(mate, 1.0)) == "; the demo ended before its share was inherited"
    assert _inheritance(Death(mate, 1.0, 6.0)) == " and its share inherited after 6.0 s"
