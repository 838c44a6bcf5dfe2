"""Results that tasks stream: a worker asks its master for a page of them at a time, and the task
waits."""

from __future__ import annotations

import os
import threading
from collections.abc import Callable, Mapping
from concurrent.futures import Future
from itertools import count
from typing import Any, NamedTuple

import bson

from tontine.errors import TontineError
from tontine.streamed import Page, Stream, results_from
from tontine.verdict import CODEC

from ..running.pipe import PageAnswer, PageWanted
from .raised import raised


class _Asked(NamedTuple):
    wanted: PageWanted
    page: Future[Page]


class Pages:
    """The pages that one worker's tasks wait for; a stream waits for one at a time."""

    def __init__(self, post: Callable[[PageWanted], None]) -> None:
        self._post = post
        self._pid = os.getpid()
        self._changing = threading.Lock()
        self._numbers = count(1)
        self._asked: dict[int, _Asked] = {}

    def streams_of(self, document: Mapping[str, Any]) -> dict[str, Stream[Any]]:
        """The arguments that a job of a plan streams."""
        seq, attempt = int(document["seq"]), int(document["attempt"]) + 1
        streams = document["plan"].get("stream") or {}
        return {
            arg: self._stream(seq, attempt, str(one["step"]), int(one["total"]))
            for arg, one in streams.items()
        }

    def _stream(self, seq: int, attempt: int, step: str, total: int) -> Stream[Any]:
        def read(first: int, count: int) -> Future[Page]:
            return self._ask(seq, attempt, step, first, count)

        return Stream(total, read)

    def _ask(self, seq: int, attempt: int, step: str, first: int, count: int) -> Future[Page]:
        if os.getpid() != self._pid:
            raise TontineError(
                "a process that a task has forked cannot read a stream: only the task itself can"
            )
        page: Future[Page] = Future()
        # Who waits may be cancelled; what was asked for cannot be.
        page.set_running_or_notify_cancel()
        with self._changing:
            wanted = PageWanted(next(self._numbers), seq, attempt, step, first, count)
            self._asked[wanted.number] = _Asked(wanted, page)
        self._post(wanted)
        return page

    def take_answer(self, answer: PageAnswer) -> None:
        """The master has read a page, or says why not."""
        with self._changing:
            wanted, page = self._asked.pop(answer.number)
        if answer.error is not None:
            page.set_exception(raised(wanted.seq, wanted.attempt, *answer.error))
            return
        try:
            jobs = bson.decode_all(answer.jobs, CODEC)
            found = results_from(jobs, wanted.step, wanted.first)
            page.set_result(Page(found, len(answer.jobs)))
        except Exception as error:  # noqa: BLE001 - what cannot be decoded is the task's to see
            page.set_exception(error)
