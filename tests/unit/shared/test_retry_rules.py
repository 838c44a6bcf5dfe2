"""`retry_on` and `give_up_on`: after which errors another attempt may help."""

from __future__ import annotations

from typing import Any

import pytest

from tests.support.lone_worker import attempt, lone_worker
from tontine import Module, Reject, Retry
from tontine.errors import ConfigError
from tontine_node.worker.main import describe

ERRORS: dict[str, BaseException] = {
    "connection": ConnectionError("away"),
    "reset": ConnectionResetError("away"),
    "value": ValueError("no good"),
    "timeout": TimeoutError("late"),
    "exit": SystemExit(1),
    "retry": Retry("please"),
    "reject": Reject("no"),
}


def outcomes(**options: Any) -> dict[str, str]:
    """What becomes of a job that raises each of these, with attempts left."""
    shop = Module("shop")

    @shop.task(max_attempts=5, **options)
    def fail(how: str) -> None:
        raise ERRORS[how]

    with lone_worker(shop) as worker:
        return {how: attempt(worker, "shop.fail", {"how": how})[0] for how in ERRORS}


def retried(**options: Any) -> set[str]:
    return {how for how, kind in outcomes(**options).items() if kind == "retry"}


def test_without_rules_everything_is_tried_again_but_a_reject() -> None:
    assert retried() == set(ERRORS) - {"reject"}


def test_with_retry_on_only_these_are_and_who_asks_for_it() -> None:
    assert retried(retry_on=ConnectionError) == {"connection", "reset", "retry"}
    assert retried(retry_on=(ConnectionError, TimeoutError)) == {
        "connection",
        "reset",
        "timeout",
        "retry",
    }


def test_what_is_in_give_up_on_never_is() -> None:
    assert retried(give_up_on=(ValueError, SystemExit)) == {
        "connection",
        "reset",
        "timeout",
        "retry",
    }
    assert retried(retry_on=(OSError,), give_up_on=(ConnectionResetError,)) == {
        "connection",
        "timeout",
        "retry",
    }


def test_attempts_end_all_the_same() -> None:
    shop = Module("shop")

    @shop.task(max_attempts=2, retry_on=ValueError)
    def fail() -> None:
        raise ValueError

    with lone_worker(shop) as worker:
        assert [attempt(worker, "shop.fail", fails=fails)[0] for fails in (0, 1)] == [
            "retry",
            "failed",
        ]


@pytest.mark.parametrize(
    ("options", "reason"),
    [
        (
            {"retry_on": (ValueError,), "give_up_on": (ValueError,)},
            "ValueError is in retry_on, and give_up_on",
        ),
        (
            {"retry_on": (ConnectionError,), "give_up_on": (OSError,)},
            "ConnectionError is in retry_on",
        ),
        ({"retry_on": ()}, "would try nothing again"),
        ({"retry_on": "ValueError"}, "takes exception classes"),
        ({"give_up_on": (ValueError("x"),)}, "takes exception classes"),
        ({"give_up_on": (int,)}, "takes exception classes"),
        ({"retry_on": (Retry,)}, "decides for itself"),
        ({"give_up_on": (Reject,)}, "decides for itself"),
    ],
)
def test_rules_that_cannot_work_are_refused_at_once(options: dict[str, Any], reason: str) -> None:
    with pytest.raises(ConfigError, match=reason):
        Module("shop").task(**options)


def test_the_master_is_told_whether_an_attempt_that_ran_too_long_is_tried_again() -> None:
    shop = Module("shop")
    shop.task(name="any")(lambda: None)
    shop.task(name="some", retry_on=ConnectionError)(lambda: None)
    shop.task(name="never", give_up_on=OSError)(lambda: None)
    with lone_worker(shop) as worker:
        told = {
            name: facts.retries_timeouts for name, facts in describe(worker.library).tasks.items()
        }
    assert told == {"shop.any": True, "shop.some": False, "shop.never": False}
