"""(4) One job in a worker: whatever its document or task does, the answer is a report about that
job only."""

from __future__ import annotations

import functools
import socket
import sys
import threading
from collections.abc import Iterator
from datetime import UTC, datetime
from typing import Any
from uuid import uuid4

import bson
import orjson
import pytest
from bson import Decimal128, Int64, ObjectId
from hypothesis import given, settings
from hypothesis import strategies as st

from tontine import Module, Reject, Retry, current_job
from tontine.module import Library
from tontine.verdict import ended, with_time
from tontine_node.running.board import Board
from tontine_node.running.pipe import ProgressSaid, Returned
from tontine_node.worker.main import Worker

quick = settings(max_examples=50, deadline=None)

RESULTS = st.recursive(
    st.none()
    | st.booleans()
    | st.integers(-(2**63), 2**63 - 1)
    | st.floats(allow_nan=False)
    | st.text(max_size=20)
    | st.binary(max_size=20)
    | st.datetimes(datetime(1970, 1, 1), datetime(9999, 1, 1), timezones=st.just(UTC)).map(
        lambda at: at.replace(microsecond=at.microsecond // 1000 * 1000)
    )
    | st.builds(ObjectId),
    lambda inner: (
        st.lists(inner, max_size=4)
        | st.dictionaries(
            st.text(st.characters(exclude_characters="\0", exclude_categories=["Cs"])),
            inner,
            max_size=4,
        )
    ),
)
ANY_TEXT = st.text(
    st.characters(exclude_categories=[])
)  # with lone surrogates, as file names can have them

shop = Module("shop")


@shop.task
def double(x: int) -> int:
    return 2 * x


@shop.task
def whoami() -> list[Any]:
    job = current_job()
    return [job.id, job.seq, job.task, job.attempt, job.cancelled]


@shop.task
def give(kind: str) -> Any:
    return {
        "object": object(),
        "set": {1},
        "huge": 2**64,
        "surrogate": "\udcff",
        "uuid": uuid4(),
        "dec": Decimal128("1"),
    }[kind]


@shop.task
def advance() -> None:
    current_job().progress(0.33, "one")
    current_job().progress(0.67, "two")


@shop.task(max_attempts=3)
def fail(how: str) -> None:
    if how == "exit":
        sys.exit("leaving")
    raise {
        "value": ValueError("no good"),
        "empty": ValueError(),
        "reject": Reject("no point"),
        "retry": Retry("later", in_=12.5),
        "back": Retry("later", in_=-1),
        "plain retry": Retry(),
        "interrupt": KeyboardInterrupt(),
        "surrogate": OSError("caf\udce9"),
    }[how]


@pytest.fixture
def worker() -> Iterator[Worker]:
    ours, theirs = socket.socketpair()
    board = Board.create(1, 1)
    with ours, theirs:
        worker = Worker(0, theirs, board, Library((shop,)))
        yield worker
        worker.loop.close()
    board.close()


def attempt(worker: Worker, task: str, args: Any = None, **more: Any) -> tuple[str, Any]:
    document = {
        "_id": "id",
        "seq": 7,
        "task": task,
        "args": args or {},
        "attempt": 0,
        "fails": 0,
    } | more
    found = run(worker, bson.encode(document))
    worker.runner.current.clear()
    return found


def run(worker: Worker, raw: bytes) -> tuple[str, Any]:
    """What became of a job: the result as BSON, or how it ended."""
    outcome = worker.runner.attempt(7, raw)
    return ("done", outcome) if isinstance(outcome, bytes) else ("ended", outcome)


def test_the_watch_over_the_lease_rests_long_only_until_a_job_begins(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tontine_node.worker.run.WATCH_IDLE_EVERY", 3600.0)
    watch = threading.Thread(target=worker.runner.rest, daemon=True)
    watch.start()
    watch.join(0.3)
    assert watch.is_alive(), "there is nothing to watch"
    attempt(worker, "shop.double", {"x": 1})
    watch.join(30)
    assert not watch.is_alive()
    run(
        worker,
        bson.encode({"_id": 1, "seq": 7, "attempt": 0, "task": "shop.double", "args": {"x": 1}}),
    )
    assert worker.runner.current, "as while it runs"
    watch = threading.Thread(target=worker.runner.rest, daemon=True)
    watch.start()
    watch.join(30)
    assert not watch.is_alive()


@quick
@given(RESULTS, st.floats(0, 10**6))
def test_a_result_with_its_time_is_the_bson_that_encoding_both_would_give(
    result: Any, ran: float
) -> None:
    timed = with_time(bson.encode({"r": result}), ran)
    assert timed == bson.encode({"r": result, "ms": Int64(round(ran * 1000))})
    decoded: dict[str, Any] = bson.decode(timed, bson.CodecOptions(tz_aware=True))
    assert decoded == {"r": result, "ms": round(ran * 1000)}


@quick
@given(ANY_TEXT, ANY_TEXT, ANY_TEXT)
def test_any_error_text_fits_json_and_bson(type: str, message: str, trace: str) -> None:
    what = list(ended("failed", type, message, trace))
    assert orjson.loads(orjson.dumps(what)) == what
    bson.encode({"error": what})


def test_a_long_error_text_keeps_its_end() -> None:
    trace = ended("failed", "E", "m", "x" * 50_000 + "the cause").traceback
    assert len(trace) == 20_000
    assert trace.endswith("the cause")


def test_a_result_is_encoded_where_it_was_made(worker: Worker) -> None:
    name, what = attempt(worker, "shop.double", {"x": 21})
    assert (name, bson.decode(what)) == ("done", {"r": 42})


def test_a_task_knows_its_job_and_counts_the_attempt_that_runs(worker: Worker) -> None:
    _, what = attempt(worker, "shop.whoami", attempt=4)
    assert bson.decode(what) == {"r": ["id", 7, "shop.whoami", 5, False]}


@pytest.mark.parametrize("kind", ["object", "set", "huge", "surrogate"])
def test_a_result_that_bson_cannot_hold_is_refused_and_not_retried(
    worker: Worker, kind: str
) -> None:
    name, what = attempt(worker, "shop.give", {"kind": kind})
    assert (name, what[0], what[1]) == ("ended", "refused", "UnstorableResult")


@pytest.mark.parametrize("kind", ["uuid", "dec"])
def test_a_result_may_be_anything_that_bson_can_hold(worker: Worker, kind: str) -> None:
    assert attempt(worker, "shop.give", {"kind": kind})[0] == "done"


@pytest.mark.parametrize(
    ("document", "type"),
    [
        ({"task": "shop.unknown"}, "UnknownTask"),
        ({"task": "shop.double", "args": {"y": 1}}, "InvalidArguments"),
        ({"task": "shop.double", "args": [1]}, "InvalidArguments"),
        ({"args": {}}, "KeyError"),
    ],
)
def test_a_document_that_cannot_be_run_fails_itself(
    worker: Worker, document: dict[str, Any], type: str
) -> None:
    name, what = run(worker, bson.encode({"_id": 1, "seq": 7, "attempt": 0} | document))
    assert (name, what[0], what[1]) == ("ended", "refused", type)


def test_bytes_that_are_no_document_fail_themselves(worker: Worker) -> None:
    name, what = run(worker, b"\x05\0\0\0")
    assert (name, what[0]) == ("ended", "refused")
    assert "cannot be decoded" in what[2]


@pytest.mark.parametrize("how", ["value", "empty", "plain retry", "exit", "interrupt", "surrogate"])
def test_whatever_a_task_raises_it_is_run_again_until_its_attempts_are_used_up(
    worker: Worker, how: str
) -> None:
    kinds = [attempt(worker, "shop.fail", {"how": how}, fails=fails)[1][0] for fails in range(4)]
    assert kinds == ["retry", "retry", "failed", "failed"]


def test_the_pause_grows_with_the_failures(worker: Worker) -> None:
    first, second = (
        attempt(worker, "shop.fail", {"how": "value"}, fails=fails)[1][4] for fails in (0, 1)
    )
    assert 1 <= first <= 2 <= second <= 3


def test_a_job_may_limit_its_own_attempts(worker: Worker) -> None:
    assert attempt(worker, "shop.fail", {"how": "value"}, max_attempts=1)[1][0] == "failed"
    assert attempt(worker, "shop.fail", {"how": "value"}, max_attempts=9, fails=7)[1][0] == "retry"


def test_a_rejected_job_has_failed_whatever_attempts_are_left(worker: Worker) -> None:
    _, (kind, error, message, trace, _) = attempt(worker, "shop.fail", {"how": "reject"})
    assert (kind, error, message) == ("failed", "Reject", "no point")
    assert "Traceback" in trace


def test_a_task_may_choose_when_to_be_run_again_but_not_in_the_past(worker: Worker) -> None:
    assert attempt(worker, "shop.fail", {"how": "retry"})[1][::4] == ("retry", 12.5)
    assert attempt(worker, "shop.fail", {"how": "back"})[1][::4] == ("retry", 0.0)


def test_a_frame_of_reports_holds_a_few_megabytes(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    bodies = [bytes([number]) * 1_500_000 for number in range(8)]
    for number, body in enumerate(bodies):
        worker.outbox.put((number, 0.0, body))
    frames: list[bytes] = []

    class Line:
        def sendall(self, frame: bytes) -> None:
            frames.append(frame)
            if sum(map(len, frames)) >= sum(map(len, bodies)):
                raise SystemExit  # the only way out of its loop

    monkeypatch.setattr(worker, "connection", Line())
    with pytest.raises(SystemExit):
        worker.write_reports()
    assert len(frames) == 3
    assert all(len(frame) < 6_000_000 for frame in frames)


def test_orders_are_begun_and_given_back_in_the_order_in_which_they_came(worker: Worker) -> None:
    worker.board.deadline = float("inf")
    worker.slots.inbox.extend((seq, b"") for seq in (1, 2, 3, 4))
    assert [worker.slots.begin_next(0)[0], worker.slots.begin_next(0)[0]] == [1, 2]
    worker.slots.give_back()
    assert worker.outbox.get() == Returned([3, 4])
    assert worker.board.past(0).begun == 2


def test_the_last_progress_of_a_job_is_told_before_its_end(worker: Worker) -> None:
    worker.board.deadline = float("inf")
    worker.slots.inbox.append(
        (7, bson.encode({"_id": 1, "seq": 7, "attempt": 0, "task": "shop.advance"}))
    )
    threading.Thread(target=worker.slots.serve, args=(0,), daemon=True).start()
    assert worker.outbox.get(timeout=30) == ProgressSaid(7, 0.67, "two")
    assert type(worker.outbox.get(timeout=30)) is tuple, "it is done"


def test_progress_that_comes_after_the_end_is_nobodys(worker: Worker) -> None:
    attempt(worker, "shop.advance")
    assert worker.outbox.empty()


def test_a_result_that_is_too_large_is_refused_and_not_retried(
    worker: Worker, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("tontine.verdict.RESULT_LIMIT", 20)
    name, what = attempt(worker, "shop.double", {"x": "long" * 10})
    assert (name, what[0], what[1]) == ("ended", "refused", "ResultTooLarge")


def test_an_error_that_cannot_be_printed_fails_its_job_also_inside_a_wrapper(
    worker: Worker,
) -> None:
    class Odd(TypeError):
        def __str__(self) -> str:
            raise ValueError("no")

    def inside() -> None: ...

    @functools.wraps(inside)
    def outside() -> None:
        raise Odd

    worker.library.modules[0].task(name=f"n{uuid4().hex}")(outside)
    name = list(worker.library.modules[0].tasks)[-1]
    kind, report = attempt(worker, name)
    assert (kind, report[:2]) == ("ended", ("failed", "Odd"))
    del worker.library.modules[0].tasks[name]
