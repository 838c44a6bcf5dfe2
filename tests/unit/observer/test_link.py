"""When nothing is heard any more, that is said before any call has failed."""

from __future__ import annotations

import pytest

from tontine_observer.feed.link import (
    ELECTION_AFTER,
    SILENT_AFTER,
    SILENT_POLLED_AFTER,
    WATCH_EVERY,
    LinkKeeper,
)
from tontine_observer.model.known import Known
from tontine_observer.records.link import Mode


def keeping(mode: Mode) -> LinkKeeper:
    keeper = LinkKeeper(Known("db"))
    keeper.heard(mode=mode, reason="why")
    return keeper


def be_silent(keeper: LinkKeeper, seconds: float, *, is_electing: bool = False) -> None:
    for _ in range(round(seconds / WATCH_EVERY)):
        keeper.watch(is_electing=is_electing)


@pytest.mark.parametrize(
    ("mode", "is_electing", "limit", "reason"),
    [
        (Mode.LIVE, False, SILENT_AFTER, ""),
        (Mode.LIVE, True, ELECTION_AFTER, "election"),
        (Mode.POLL, False, SILENT_POLLED_AFTER, ""),
        (Mode.SAMPLED, False, SILENT_POLLED_AFTER, ""),
    ],
)
def test_silence_is_said_and_taken_back(
    mode: Mode, is_electing: bool, limit: float, reason: str
) -> None:
    keeper = keeping(mode)
    be_silent(keeper, limit - WATCH_EVERY, is_electing=is_electing)
    assert keeper.link.mode is mode
    be_silent(keeper, WATCH_EVERY, is_electing=is_electing)
    assert (keeper.link.mode, keeper.link.reason) == (Mode.STALE, reason)
    assert not keeper.link.is_fresh
    be_silent(keeper, limit, is_electing=is_electing)
    keeper.heard()
    assert (keeper.link.mode, keeper.link.reason) == (mode, "why")
    be_silent(keeper, limit - WATCH_EVERY, is_electing=is_electing)
    assert keeper.link.mode is mode


def test_an_answer_does_not_take_back_what_failed() -> None:
    keeper = keeping(Mode.LIVE)
    be_silent(keeper, SILENT_AFTER)
    keeper.show(mode=Mode.STALE, reason="it was refused", retry_in=2.0)
    keeper.heard()
    assert (keeper.link.mode, keeper.link.reason) == (Mode.STALE, "it was refused")
