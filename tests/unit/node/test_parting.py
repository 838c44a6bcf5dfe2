"""What a node says when it stops."""

from __future__ import annotations

import logging

import pytest

from tontine_node.telling.parting import tell_ending, tell_stopped, tell_stopping


def said(caplog: pytest.LogCaptureFixture) -> str:
    return str(vars(caplog.records[-1])["sentence"])


@pytest.mark.parametrize(
    ("running", "signals", "sentence"),
    [
        (0, 1, "stopping: no job runs"),
        (2, 1, "2 running jobs; another Ctrl-C or SIGTERM ends them now and gives them back"),
        (1, 0, "1 running job; Ctrl-C or SIGTERM, twice, ends it now and gives it back"),
    ],
)
def test_a_stop_says_what_it_waits_for_and_how_to_end_that(
    caplog: pytest.LogCaptureFixture, running: int, signals: int, sentence: str
) -> None:
    with caplog.at_level(logging.INFO):
        tell_stopping(running, 30.0, signals)
    assert said(caplog).endswith(sentence)


def test_what_is_ended_is_named_with_what_becomes_of_it(caplog: pytest.LogCaptureFixture) -> None:
    tell_ending({9: "shop.mail", 3: "shop.pay"}, ["shop.pay"], "asked twice to stop")
    assert said(caplog) == (
        "asked twice to stop: ends what runs; gives job 9 shop.mail back to run again; "
        "job 3 shop.pay must not run twice and fails"
    )
    tell_ending(dict.fromkeys(range(7), "a.b"), [], "the grace of 5 s is over")
    assert "gives jobs 0 a.b, 1 a.b, 2 a.b, 3 a.b, 4 a.b and 2 more back" in said(caplog)
    tell_ending({}, [], "asked twice to stop")
    assert said(caplog).endswith("that is nothing")


def test_the_last_line_says_what_was_done(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        tell_stopped(1200, 1, 200.0)
    assert said(caplog) == "stopped after 3 min: 1,200 jobs done, 1 failed"
