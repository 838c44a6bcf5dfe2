"""What a worker's tasks ask for: few requests are on their way at a time, and every answer finds
who waits for it."""

from __future__ import annotations

import os
from typing import Any

import bson
import pytest

from tontine.errors import (
    ChildDiffers,
    ClaimLost,
    ConfigError,
    StoreUnavailable,
    TontineError,
    TooLarge,
)
from tontine.offspring import ChildRequest
from tontine_node.running.pipe import Submit
from tontine_node.worker.postbox import BYTES_AT_ONCE, REQUESTS_AT_ONCE, Postbox


class Post:
    def __init__(self) -> None:
        self.sent: list[Submit] = []
        self.postbox = Postbox(self.sent.append)

    @property
    def numbers(self) -> list[int]:
        return [asked.number for asked in self.sent]

    def answer(self, number: int, **answer: Any) -> None:
        self.postbox.take_answer(number, bson.encode(answer or {"jobs": []}))


@pytest.fixture
def post() -> Post:
    return Post()


def request(size: int = 1) -> ChildRequest:
    return ChildRequest(
        17, 2, {"task": "t.t"}, ["1"], [bson.encode({"x": "x" * size})], is_counted=True
    )


def test_a_request_says_who_asks_and_carries_the_arguments_as_they_are(post: Post) -> None:
    asked = request()
    post.postbox.ask(asked)
    ((number, parent, attempt, body),) = post.sent
    assert (number, parent, attempt) == (1, 17, 2)
    assert bson.decode(body) == {
        "wish": {"task": "t.t"},
        "names": ["1"],
        "many": [{"x": "x"}],
        "counted": True,
    }
    assert asked.args[0] in body


def test_only_so_many_requests_are_on_their_way(post: Post) -> None:
    answers = [post.postbox.ask(request()) for _ in range(REQUESTS_AT_ONCE + 3)]
    assert len(post.sent) == REQUESTS_AT_ONCE
    post.answer(2)
    assert post.numbers[-1] == REQUESTS_AT_ONCE + 1
    assert [answer.done() for answer in answers[:3]] == [False, True, False]
    for number in post.numbers:
        if number != 2:
            post.answer(number)
    for number in post.numbers[-2:]:
        post.answer(number)
    assert all(answer.done() for answer in answers)


def test_only_so_many_bytes_are_on_their_way_but_always_one_request(post: Post) -> None:
    for size in (2 * BYTES_AT_ONCE, 1, 1, BYTES_AT_ONCE, 1):
        post.postbox.ask(request(size))
    assert post.numbers == [1]
    post.answer(1)
    assert post.numbers == [1, 2, 3], "in their order: small ones do not overtake for ever"
    post.answer(2)
    post.answer(3)
    assert post.numbers == [1, 2, 3, 4]
    post.answer(4)
    assert post.numbers == [1, 2, 3, 4, 5]


def test_an_answer_has_the_jobs_as_they_are_in_the_queue(post: Post) -> None:
    answer = post.postbox.ask(request())
    job = {"_id": "17/1", "seq": 40, "task": "t.t", "state": "queued", "parent": 17}
    post.answer(1, jobs=[{"job": job, "existed": True}])
    (found,) = answer.result()
    assert (found.id, found.seq, found.parent, found.existed) == ("17/1", 40, 17, True)


@pytest.mark.parametrize(
    ("name", "kind"),
    [
        ("ConfigError", ConfigError),
        ("TooLarge", TooLarge),
        ("ChildDiffers", ChildDiffers),
        ("StoreUnavailable", StoreUnavailable),
        ("ClaimLost", ClaimLost),
        ("SubmitInterrupted", TontineError),
        ("KeyError", TontineError),
        ("annotations", TontineError),
    ],
)
def test_an_error_is_raised_as_what_it_was(post: Post, name: str, kind: type[Exception]) -> None:
    answer = post.postbox.ask(request())
    post.answer(1, error=name, message="no good")
    raised = answer.exception()
    assert type(raised) is kind
    assert str(raised) == (
        "job 17: attempt 2 is no longer this node's" if kind is ClaimLost else "no good"
    )


def test_who_no_longer_waits_keeps_nobody_from_the_answer(post: Post) -> None:
    answer = post.postbox.ask(request())
    assert not answer.cancel(), "what was asked for may be in the queue"
    post.answer(1)
    assert answer.result() == []


def test_a_process_that_a_task_forked_is_told_so(post: Post) -> None:
    reading, writing = os.pipe()
    if os.fork() == 0:
        try:
            post.postbox.ask(request())
        except TontineError as error:
            os.write(writing, str(error).encode())
        os._exit(0)
    os.close(writing)
    with os.fdopen(reading) as said:
        assert "forked cannot submit jobs" in said.read()
    os.wait()
    assert post.sent == []
