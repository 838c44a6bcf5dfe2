"""Whatever a document says, it is shown as text, short, and without its secrets."""

from __future__ import annotations

import re

import pytest
from hypothesis import given
from hypothesis import strategies as st

from tontine.errors import ConfigError
from tontine_observer.records.clean import NAME_KEPT, TEXT_KEPT, Cleaner
from tontine_observer.records.node import NodeFact
from tontine_observer.records.patch import with_change
from tontine_observer.records.rows import changed_row, job_row

FOREIGN = re.compile("[\x00-\x1f\x7f-\x9f\u061c\u200e\u200f\u2028-\u202e\u2066-\u2069]")
anything = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats() | st.text() | st.binary(),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=6,
)
FIELDS = [
    "_id",
    "seq",
    "task",
    "state",
    "node",
    "attempt",
    "progress",
    "error",
    "run_at",
    "started_at",
    "metrics",
]
FIELDS += [
    "share",
    "modules",
    "contexts",
    "lease",
    "lease_until",
    "name",
    "host",
    "key",
    "priority",
    "progress.note",
    "troubles",
    "troubles.0",
    "troubles.1.why",
]


@given(st.text())
def test_no_text_brings_anything_foreign_along(text: str) -> None:
    clean = Cleaner()
    for shown in (clean.name(text), clean.text(text), str(clean.value({text: text}))):
        assert not FOREIGN.search(shown)
    assert not FOREIGN.search(clean.lines(text).replace("\n", ""))


@given(st.dictionaries(st.sampled_from(FIELDS), anything))
def test_documents_of_any_shape_become_facts(document: dict[str, object]) -> None:
    clean = Cleaner()
    row = job_row(document.get("_id"), document, clean)
    assert row == changed_row(row, {}, (), clean)
    assert not FOREIGN.search(
        f"{row.id}{row.task}{row.state}{row.node}{row.error}{row.progress_note}{row.key}"
    )
    fact = NodeFact.from_document(document, clean)
    assert not FOREIGN.search(
        f"{fact.id}{fact.name}{fact.state}{fact.host}{fact.death}{fact.modules}{fact.contexts}{fact.troubles}"
    )
    with_change(document, document, ["metrics.done", "share", "troubles.1"])


def test_texts_are_capped_however_long() -> None:
    clean = Cleaner()
    assert len(clean.name("x" * 1_000_000)) == NAME_KEPT
    assert len(clean.text("x" * 1_000_000)) == TEXT_KEPT


@pytest.mark.parametrize(
    ("text", "shown"),
    [
        ("mongodb://ada:s3cret@db/x", "mongodb://ada:***@db/x"),
        ("password=hunter2 and more", "password=*** and more"),
        ("Authorization: Bearer abcdefghijkl", "Authorization: Bearer ***"),
        ("api_key: 123, x", "api_key: ***, x"),
        ("nothing here", "nothing here"),
    ],
)
def test_what_looks_like_a_secret_is_hidden(text: str, shown: str) -> None:
    assert Cleaner().text(text) == shown


def test_secrets_are_hidden_by_their_key_and_by_own_patterns() -> None:
    clean = Cleaner.of([r"\d{4}-\d{4}"])
    assert clean.value({"card": "4111-1111", "user": {"Password": [1, 2], "name": "ada"}}) == {
        "card": "***",
        "user": {"Password": "***", "name": "ada"},
    }
    with pytest.raises(ConfigError):
        Cleaner.of(["("])


@given(
    st.dictionaries(
        st.sampled_from(["what", "why", "since", "times"]),
        anything | st.just("claiming"),
        max_size=4,
    ),
    st.dictionaries(
        st.sampled_from(["workers", "workers_wanted", "bytes", "clock", "held"]), anything
    ),
)
def test_troubles_of_any_shape_become_facts(
    trouble: dict[str, object], metrics: dict[str, object]
) -> None:
    fact = NodeFact.from_document(
        {"_id": "a", "troubles": [trouble, trouble], "metrics": metrics}, Cleaner()
    )
    assert not FOREIGN.search(f"{fact.troubles}")


def test_what_a_trouble_says_is_without_its_secrets() -> None:
    record = {
        "_id": "a",
        "troubles": [{"what": "claiming", "why": "no answer from mongodb://ada:s3cret@db"}],
    }
    assert "s3cret" not in f"{NodeFact.from_document(record, Cleaner())}"


def test_a_change_inside_an_array_is_followed() -> None:
    document = {"troubles": [{"what": "claiming", "times": 1}], "beat": 1}
    more = with_change(document, {"troubles.0.times": 2, "troubles.1": {"what": "settling"}}, ())
    assert more["troubles"] == [{"what": "claiming", "times": 2}, {"what": "settling"}]
    assert document["troubles"] == [{"what": "claiming", "times": 1}]
    fewer = with_change(more, {"troubles.0.what": "settling"}, ["troubles.1"])
    assert fewer["troubles"] == [{"what": "settling", "times": 2}]
    assert with_change(fewer, {"troubles": []}, ())["troubles"] == []
    assert with_change(fewer, {"troubles.9999999999.x": 1, "troubles.x": 2}, ["beat.1"])["troubles"]
