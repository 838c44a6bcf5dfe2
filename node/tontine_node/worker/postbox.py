"""What tasks ask their master for: jobs to submit. Few requests are on their way at a time, the
rest waits here.

A request holds the wish, the names and the arguments. Its answer has the jobs as they are in the
queue, or the error that the task gets.
"""

from __future__ import annotations

import os
import threading
from collections import deque
from collections.abc import Callable
from concurrent.futures import Future
from dataclasses import dataclass
from itertools import count

import bson
from bson.raw_bson import RawBSONDocument

from tontine.errors import TontineError
from tontine.offspring import ChildRequest
from tontine.records.job import Job
from tontine.verdict import CODEC

from ..running.pipe import Submit
from .raised import raised

REQUESTS_AT_ONCE = 8
BYTES_AT_ONCE = 4 * 1024 * 1024
"""Of one worker, on their way: the master holds them in memory. One alone may be larger."""


@dataclass(frozen=True, slots=True)
class _Letter:
    report: Submit
    request: ChildRequest
    answer: Future[list[Job]]

    @property
    def size(self) -> int:
        return len(self.report.request)


class Postbox:
    """The requests of one worker's tasks, from any thread."""

    def __init__(self, post: Callable[[Submit], None]) -> None:
        self._post = post
        self._pid = os.getpid()
        self._changing = threading.Lock()
        self._numbers = count(1)
        self._waiting: deque[int] = deque()
        self._letters: dict[int, _Letter] = {}
        self._on_their_way: set[int] = set()
        self._bytes = 0

    def ask(self, request: ChildRequest) -> Future[list[Job]]:
        """Ask the master; the answer comes when the store has given it its own."""
        if os.getpid() != self._pid:
            raise TontineError(
                "a process that a task has forked cannot submit jobs: only the task itself can"
            )
        answer: Future[list[Job]] = Future()
        # Who waits may be cancelled; what was asked for cannot be.
        answer.set_running_or_notify_cancel()
        encoded = _encode(request)
        with self._changing:
            number = next(self._numbers)
            report = Submit(number, request.parent, request.attempt, encoded)
            self._letters[number] = _Letter(report, request, answer)
            self._waiting.append(number)
            self._post_next()
        return answer

    def take_answer(self, number: int, body: bytes) -> None:
        """The master's answer to a request."""
        with self._changing:
            letter = self._letters.pop(number)
            self._on_their_way.discard(number)
            self._bytes -= letter.size
            self._post_next()
        answer = bson.decode(body, CODEC)
        if "jobs" in answer:
            letter.answer.set_result(
                [Job.from_document(one["job"], existed=one["existed"]) for one in answer["jobs"]]
            )
        else:
            asked = letter.request
            error = raised(asked.parent, asked.attempt, answer["error"], answer["message"])
            letter.answer.set_exception(error)

    def _post_next(self) -> None:
        while self._waiting and len(self._on_their_way) < REQUESTS_AT_ONCE:
            letter = self._letters[self._waiting[0]]
            if self._on_their_way and self._bytes + letter.size > BYTES_AT_ONCE:
                return
            self._on_their_way.add(self._waiting.popleft())
            self._bytes += letter.size
            self._post(letter.report)


def _encode(request: ChildRequest) -> bytes:
    return bson.encode(
        {
            "wish": request.wish,
            "names": request.names,
            "many": [RawBSONDocument(args) for args in request.args],
            "counted": request.is_counted,
        },
        codec_options=CODEC,
    )
