"""What the log says while MongoDB does not answer."""

from __future__ import annotations

import io
import logging
from collections.abc import Iterator
from datetime import UTC, datetime
from types import SimpleNamespace
from typing import Any, cast

import pytest

from tests.support.interleaving.loop import ManualClock
from tontine.config import Timing
from tontine.errors import StoreError, StoreUnavailable
from tontine.records.states import Desired
from tontine.store.members import Beat
from tontine_node.membership.heartbeat import Heartbeat
from tontine_node.telling.outage import AWAY, BACK, OutageFilter


@pytest.fixture
def log(request: pytest.FixtureRequest) -> Iterator[tuple[logging.Logger, io.StringIO]]:
    written = io.StringIO()
    handler = logging.StreamHandler(written)
    handler.addFilter(OutageFilter(verbose=getattr(request, "param", False)))
    handler.setFormatter(logging.Formatter("%(levelname)s %(message)s"))
    logger = logging.getLogger("tests.outage")
    logger.setLevel(logging.DEBUG)
    logger.addHandler(handler)
    yield logger, written
    logger.removeHandler(handler)


def fail(logger: logging.Logger, error: StoreError, level: int = logging.WARNING) -> None:
    try:
        raise error
    except StoreError:
        logger.log(level, "claiming failed", extra={"event": "claim-failed"})


def live_through(logger: logging.Logger) -> None:
    """An outage, with what comes before and after it."""
    fail(logger, StoreUnavailable("slow"))
    fail(logger, StoreUnavailable("slow"), logging.INFO)
    for _ in range(3):
        logger.warning("away", extra={"event": AWAY})
        fail(logger, StoreUnavailable("away"))
    fail(logger, StoreError("refused"))
    logger.warning("lease ran out", extra={"event": "fenced"})
    logger.info("back", extra={"event": BACK})
    fail(logger, StoreUnavailable("slow"))
    logger.warning("away", extra={"event": AWAY})


def test_an_outage_is_told_when_it_begins_and_ends_and_nothing_else_is_hidden(
    log: tuple[logging.Logger, io.StringIO],
) -> None:
    logger, written = log
    live_through(logger)
    assert written.getvalue().splitlines() == [
        "WARNING claiming failed",
        "WARNING away",
        "WARNING claiming failed",
        "WARNING lease ran out",
        "INFO back",
        "WARNING claiming failed",
        "WARNING away",
    ]


@pytest.mark.parametrize("log", [True], indirect=True)
def test_a_verbose_log_has_every_try_as_a_detail(log: tuple[logging.Logger, io.StringIO]) -> None:
    logger, written = log
    live_through(logger)
    told = written.getvalue().splitlines()
    assert (
        told.count("DEBUG away"),
        told.count("WARNING away"),
        told.count("DEBUG claiming failed"),
    ) == (2, 2, 4)


@pytest.mark.parametrize("event", ["registered", "ready"])
def test_a_node_that_waited_for_mongodb_to_start_is_over_it_when_it_works(
    log: tuple[logging.Logger, io.StringIO], event: str
) -> None:
    logger, written = log
    logger.warning("away", extra={"event": AWAY})
    logger.info("works", extra={"event": event})
    fail(logger, StoreUnavailable("slow"))
    assert written.getvalue().count("claiming failed") == 1


def test_the_heartbeat_says_where_and_for_how_long_and_that_it_is_back(
    caplog: pytest.LogCaptureFixture,
) -> None:
    clock, answer = (
        ManualClock(),
        Beat(Desired.RUNNING, 1, datetime(2026, 1, 1, tzinfo=UTC), None),
    )
    refused = StoreUnavailable("connection refused")
    answers = iter([answer, refused, refused, answer])

    def run(steps: Any) -> Any:
        steps.close()
        if isinstance(answer := next(answers), Exception):
            raise answer
        return answer

    store, board = cast("Any", SimpleNamespace(run=run)), cast("Any", SimpleNamespace(deadline=0.0))
    beat = Heartbeat("n", store, Timing(), clock, board, dict, lambda: None)
    beat.where = "mongodb://h/"
    with caplog.at_level(logging.INFO):
        for passed in (3.0, 20.0, 4.0, 1.0):
            beat._beat(clock.now())
            clock.advance(passed)
    first, second, last = (vars(record)["sentence"] for record in caplog.records)
    assert first == (
        "MongoDB at mongodb://h/ has not answered for 3.0 s; waiting: what runs goes on for 12 "
        "s, until the lease is "
        "over, nothing is claimed, and it is tried again until it answers (connection refused)"
    )
    assert "for 23 s; waiting: nothing runs, nothing is claimed" in second
    assert last == "MongoDB answers again, after 27 s"
