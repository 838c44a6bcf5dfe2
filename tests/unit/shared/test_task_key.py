"""Task keys: a name, and perhaps the versions that may run it."""

from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine.records.task_key import canonical, fits, name_of, range_of, unreadable, with_range


@pytest.mark.parametrize(
    ("key", "name", "wanted"),
    [
        ("shop.resize", "shop.resize", None),
        ("shop.resize@>=1.2,<2", "shop.resize", ">=1.2,<2"),
        ("shop.resize@", "shop.resize", ""),
    ],
)
def test_a_key_is_a_name_and_perhaps_a_range(key: str, name: str, wanted: str | None) -> None:
    assert (name_of(key), range_of(key)) == (name, wanted)


@pytest.mark.parametrize("wanted", [">=1.2,<2", "<2,>=1.2", " >= 1.2 , < 2 "])
def test_a_range_is_written_in_one_form(wanted: str) -> None:
    assert with_range("shop.resize", wanted) == "shop.resize@<2,>=1.2"
    assert canonical(f"shop.resize@{wanted}") == "shop.resize@<2,>=1.2"


@pytest.mark.parametrize("wanted", ["1.2", "", "new", ">=1.2 <2", ">" * 300])
def test_what_is_no_range_is_refused_in_words(wanted: str) -> None:
    with pytest.raises(ValueError, match="is not a version range: write it like >=1"):
        with_range("shop.resize", wanted)
    assert unreadable(f"shop.resize@{wanted}")
    assert not fits(f"shop.resize@{wanted}", "1.2")


@pytest.mark.parametrize(
    ("wanted", "inside", "outside"),
    [
        (">=1.2,<2", ["1.2", "1.2.0", "1.9", "1.10.3"], ["1.1.9", "2", "2.0.1"]),
        ("==1.2.*", ["1.2", "1.2.7"], ["1.3"]),
        (">=2.0a1", ["2.0b1", "2"], ["2.0.dev1", "1.9"]),
        (">=1", ["2.0rc1", "2.0.dev3"], ["0.9", "newest", ""]),
    ],
)
def test_a_version_is_inside_or_outside(wanted: str, inside: list[str], outside: list[str]) -> None:
    key = f"shop.resize@{wanted}"
    assert [version for version in (*inside, *outside) if fits(key, version)] == inside


@given(st.text())
def test_a_plain_key_takes_any_version(version: str) -> None:
    assert fits("shop.resize", version)


@given(st.text())
def test_whatever_stands_there_is_read(wanted: str) -> None:
    key = f"shop.resize@{wanted}"
    assert name_of(key) == "shop.resize"
    assert isinstance(fits(key, "1.2"), bool)
    if unreadable(key) is None:
        assert canonical(canonical(key)) == canonical(key)
        assert fits(canonical(key), "1.2") == fits(key, "1.2")
