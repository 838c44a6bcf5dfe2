"""Which jobs are meant: what filters accept, and what they become."""

from __future__ import annotations

import re
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tontine.changed import REASONS_KEPT, Changed
from tontine.errors import ConfigError
from tontine.filter import Filter, chosen, moment, purged
from tontine.records.states import FINAL, OPEN, JobState

NOW = datetime(2030, 1, 31, 12, tzinfo=UTC)


def where(**filters: Any) -> dict[str, Any]:
    return Filter.of(**filters).anchored(NOW).where()


def test_texts_are_exact_unless_they_have_a_star() -> None:
    assert where(key="k", schedule="s") == {"key": "k", "schedule": "s"}
    assert where(task="shop.resize@<2") == {"task": "shop.resize@<2"}
    pattern = where(task="shop.*")["task"]["$regex"].replace(r"\z", r"\Z")
    assert re.match(pattern, "shop.resize", re.DOTALL)
    assert not re.match(pattern, "shopXresize", re.DOTALL), "a dot is a dot"
    assert not re.match(pattern, "my.shop.resize", re.DOTALL), "it begins there"


def test_times_are_those_of_the_end_where_only_ended_jobs_are_meant() -> None:
    two_hours_ago = {"$gte": NOW - timedelta(hours=2)}
    assert where(state="failed", since="2h")["finished_at"] == two_hours_ago
    assert where(state=["failed", "done"], since="2h")["finished_at"] == two_hours_ago
    assert where(since="2h") == {"created_at": two_hours_ago}
    assert where(state="queued", since="2h")["created_at"] == two_hours_ago
    assert where(state=["failed", "queued"], since="2h")["created_at"] == two_hours_ago
    assert where(until="1d")["created_at"] == {"$lt": NOW - timedelta(days=1)}


def test_an_error_is_a_type_or_a_pattern_for_type_and_message() -> None:
    assert where(error="ConnectionError") == {"$and": [{"error.type": "ConnectionError"}]}
    (pattern,) = where(error="*refused*")["$and"]
    assert [next(iter(one)) for one in pattern["$or"]] == ["error.type", "error.message"]


def test_a_node_is_meant_by_its_id_or_by_its_name() -> None:
    by_id, by_name = where(node="web-1")["$or"]
    assert by_id == {"node": "web-1"}
    pattern = by_name["node"]["$regex"].replace(r"\z", r"\Z")
    assert re.match(pattern, "web-1-0123abcd")
    assert not re.match(pattern, "web-12-0123abcd")


def test_a_time_is_an_instant_or_how_long_ago() -> None:
    assert moment("2h") == moment(7200) == moment(timedelta(hours=2)) == timedelta(hours=2)
    assert (
        moment("2030-01-31T06:00:00Z")
        == moment(datetime(2030, 1, 31, 6, tzinfo=UTC))
        == NOW - timedelta(hours=6)
    )
    local = moment("2030-01-31")
    assert isinstance(local, datetime)
    assert local.astimezone().hour == 0
    for wrong in ("", "soon", "2030-13-01", "-2h", -5, 10**30, "9999999d"):
        with pytest.raises(ConfigError, match=r"is no time: say how long ago, like 2h"):
            moment(wrong)


def test_a_variable_that_is_not_set_is_no_filter_for_everything() -> None:
    for name in ("task", "key", "error", "schedule", "node"):
        with pytest.raises(
            ConfigError, match=f"`{name}` must be a text, not '': is a variable not set"
        ):
            Filter.of(**{name: ""})
    with pytest.raises(ConfigError, match="is no time"):
        Filter.of(since="")


def test_a_misspelt_filter_or_state_is_answered_with_the_right_one() -> None:
    with pytest.raises(ConfigError, match="no filter 'tsak': did you mean 'task'"):
        Filter.of(tsak="a.b")
    with pytest.raises(ConfigError, match="no filter 'colour': there are state, task"):
        Filter.of(colour="red")
    with pytest.raises(ConfigError, match="no state 'failled': there are queued"):
        Filter.of(state="failled")
    with pytest.raises(ConfigError, match="`since` is the earlier one"):
        Filter.of(since="1h", until="2h").anchored(NOW)


def test_what_changes_jobs_wants_a_filter_or_all() -> None:
    with pytest.raises(ConfigError, match=r"every job.*all=True"):
        chosen({}, every=False)
    with pytest.raises(ConfigError, match=r"every job.*all=True"):
        chosen({"task": None, "state": None}, every=False)
    assert chosen({}, every=True).says_nothing
    assert not chosen({"state": "failed"}, every=False).says_nothing
    assert purged({}, "7d", every=False).until == timedelta(days=7)
    with pytest.raises(ConfigError, match="not both"):
        purged({"until": "1d"}, "7d", every=False)


def test_a_deed_is_for_some_states_only() -> None:
    with pytest.raises(
        ConfigError,
        match="done or failed jobs cannot be cancelled: only queued or working ones can",
    ):
        Filter.of(state=["failed", "done"]).meaning(OPEN, OPEN, "cancelled")
    assert Filter().meaning(FINAL, [JobState.FAILED], "put back").states == {JobState.FAILED}
    assert Filter.of(state="done").meaning(FINAL, [JobState.FAILED], "put back").states == {
        JobState.DONE
    }


def test_it_can_be_said_in_words() -> None:
    meant = Filter.of(state="failed", task="shop.*", error="Timeout", since="2h").anchored(NOW)
    said = "3 failed jobs of shop.* with the error Timeout that ended since 2030-01-31 10:00:00 UTC"
    assert meant.words("3") == said
    assert (
        Filter.of(key="a\x1b", schedule="s", node="n").words("1")
        == "1 job of the schedule s on the node n with the key a\\e"
    )
    assert Filter().words("no") == "no jobs"
    both = Filter.of(since="2h", until="1h").anchored(NOW).words("2")
    assert both.endswith(
        "that were submitted since 2030-01-31 10:00:00 UTC and before 2030-01-31 11:00:00 UTC"
    )


def test_reasons_are_kept_of_the_first_and_all_are_counted() -> None:
    changed = Changed().plus(5, running=2)
    for start in range(0, 1000, 60):
        changed = changed.plus(1, reasons=dict.fromkeys(range(start, start + 60), "why"))
    assert (changed.count, changed.running, changed.refused) == (5 + 17, 2, 17 * 60)
    assert list(changed.reasons) == list(range(REASONS_KEPT))
