"""How a node looks after the others."""

from __future__ import annotations

from datetime import UTC, datetime, timedelta
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tontine.clock import SystemClock
from tontine.config import Timing
from tontine.records.roster import Roster
from tontine.records.states import Desired
from tontine.store.members import Beat
from tontine_node.membership.heartbeat import Heartbeat
from tontine_node.membership.member import Member


@pytest.mark.parametrize(
    ("members", "rarer"), [(0, 1), (1, 1), (8, 1), (16, 2), (24, 3), (1000, 3)]
)
def test_the_more_members_there_are_the_more_rarely_each_watches_the_others(
    members: int, rarer: float
) -> None:
    nobody = cast("Any", None)
    member = Member("n", "n", nobody, Timing(), SystemClock(), nobody)
    member.see(Roster(1, tuple(f"n{number}" for number in range(members))))
    assert member.watch_every == rarer * Timing().heartbeat_every


def test_the_server_s_time_is_what_the_newest_beat_said_and_what_has_passed_since(
    monkeypatch: pytest.MonkeyPatch,
) -> None:
    at, clock = datetime(2026, 1, 1, tzinfo=UTC), SystemClock()
    board = SimpleNamespace(deadline=0.0)
    store = SimpleNamespace(run=lambda steps: steps.close() or Beat(Desired.RUNNING, 1, at, None))
    beat = Heartbeat(
        "n", cast("Any", store), Timing(), clock, cast("Any", board), dict, lambda: None
    )
    assert beat.server_now() is None
    monkeypatch.setattr(SystemClock, "now", lambda _: 107.5)
    beat._beat(100.0)
    assert beat.server_now() == at + timedelta(seconds=7.5)
