"""When nothing is heard any more, that is said before any call has failed."""

from __future__ import annotations

import pytest

from tontine_observer.feed.polls import ELECTION_AFTER, SILENT_AFTER, SILENT_POLLED_AFTER, WATCH_EVERY, Looker
from tontine_observer.picture.board import Board
from tontine_observer.records.picture import Mode


def looking(mode: Mode) -> Looker:
    looker = Looker(Board("db"))
    looker.heard(mode=mode, reason="why")
    return looker


def be_silent(looker: Looker, seconds: float, *, is_electing: bool = False) -> None:
    for _ in range(round(seconds / WATCH_EVERY)):
        looker.watch(is_electing=is_electing)


@pytest.mark.parametrize(
    ("mode", "is_electing", "limit", "reason"),
    [
        (Mode.LIVE, False, SILENT_AFTER, ""),
        (Mode.LIVE, True, ELECTION_AFTER, "election"),
        (Mode.POLL, False, SILENT_POLLED_AFTER, ""),
        (Mode.SAMPLED, False, SILENT_POLLED_AFTER, ""),
    ],
)
def test_silence_is_said_and_taken_back(mode: Mode, is_electing: bool, limit: float, reason: str) -> None:
    looker = looking(mode)
    be_silent(looker, limit - WATCH_EVERY, is_electing=is_electing)
    assert looker.board.link.mode is mode
    be_silent(looker, WATCH_EVERY, is_electing=is_electing)
    assert (looker.board.link.mode, looker.board.link.reason) == (Mode.STALE, reason)
    assert not looker.board.link.may_ask
    be_silent(looker, limit, is_electing=is_electing)
    looker.heard()
    assert (looker.board.link.mode, looker.board.link.reason) == (mode, "why")
    be_silent(looker, limit - WATCH_EVERY, is_electing=is_electing)
    assert looker.board.link.mode is mode


def test_an_answer_does_not_take_back_what_failed() -> None:
    looker = looking(Mode.LIVE)
    be_silent(looker, SILENT_AFTER)
    looker.show(mode=Mode.STALE, reason="it was refused", retry_in=2.0)
    looker.heard()
    assert (looker.board.link.mode, looker.board.link.reason) == (Mode.STALE, "it was refused")
