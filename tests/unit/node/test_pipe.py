"""Frames between master and worker arrive whole, however the socket cuts them, or not at all."""

from __future__ import annotations

import asyncio
import socket
import threading
from collections.abc import Iterator
from typing import Any, get_args

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st

from tontine.verdict import NoResult
from tontine_node.running import pipe

quick = settings(max_examples=40, deadline=None)

JSON = st.recursive(
    st.none() | st.booleans() | st.integers(-(2**63), 2**64 - 1) | st.text(max_size=20),
    lambda inner: (
        st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=5), inner, max_size=3)
    ),
    max_leaves=10,
)
HEADS = st.dictionaries(st.text(max_size=8), JSON, max_size=4)
BODIES = st.lists(st.binary(max_size=200), max_size=10)
FRAMES = st.lists(st.tuples(HEADS, BODIES), max_size=5)
SIZES = st.lists(st.integers(1, 50), min_size=1, max_size=10)


def pieces(stream: bytes, sizes: list[int]) -> Iterator[bytes]:
    """The stream in pieces of these sizes, again and again."""
    start = 0
    while start < len(stream):
        for size in sizes:
            yield stream[start : start + size]
            start += size


def send(connection: socket.socket, stream: bytes, sizes: list[int]) -> threading.Thread:
    def run() -> None:
        with connection:
            for piece in pieces(stream, sizes):
                connection.sendall(piece)

    thread = threading.Thread(target=run)
    thread.start()
    return thread


def received(stream: bytes, sizes: list[int]) -> list[tuple[pipe.Head, bytes]]:
    """All frames that a blocking reader gets out of a stream."""
    ours, theirs = socket.socketpair()
    sender = send(theirs, stream, sizes)
    with ours:
        frames = list(iter(lambda: pipe.read(ours), None))
    sender.join()
    return [frame for frame in frames if frame]


async def received_async(stream: bytes, sizes: list[int]) -> list[tuple[pipe.Head, bytes]]:
    """The same for the master's side."""
    reader = asyncio.StreamReader()
    for piece in pieces(stream, sizes):
        reader.feed_data(piece)
    reader.feed_eof()
    frames = []
    while frame := await pipe.read_async(reader):
        frames.append(frame)
    return frames


@pytest.fixture(scope="module")
def runner() -> Iterator[asyncio.Runner]:
    with asyncio.Runner() as runner:
        yield runner


@quick
@given(frames=FRAMES, sizes=SIZES)
def test_every_frame_arrives_as_it_was_sent(
    runner: asyncio.Runner, frames: list[tuple[pipe.Head, list[bytes]]], sizes: list[int]
) -> None:
    stream = b"".join(pipe.pack(head, bodies) for head, bodies in frames)
    expected = [(head, b"".join(bodies)) for head, bodies in frames]
    assert received(stream, sizes) == expected
    assert runner.run(received_async(stream, sizes)) == expected


@quick
@given(head=HEADS, bodies=BODIES, data=st.data())
def test_half_a_frame_is_no_frame(
    runner: asyncio.Runner, head: pipe.Head, bodies: list[bytes], data: Any
) -> None:
    whole = pipe.pack(head, bodies)
    stream = whole + whole[: data.draw(st.integers(0, len(whole) - 1))]
    expected = [(head, b"".join(bodies))]
    assert received(stream, [7]) == expected
    assert runner.run(received_async(stream, [7])) == expected


@quick
@given(BODIES)
def test_a_body_is_cut_back_into_its_documents(bodies: list[bytes]) -> None:
    assert list(pipe.cut(b"".join(bodies), (len(body) for body in bodies))) == bodies


SEQS, TIMES, TEXTS = st.integers(1, 2**53), st.floats(0, 10**6), st.text(max_size=20)
DOCUMENTS = st.binary(max_size=50)
FACTS = st.builds(pipe.TaskFacts, delays=st.lists(TIMES, max_size=3), stage_limits=st.just([]))
DONE = st.tuples(SEQS, TIMES, DOCUMENTS)
REPORTS: st.SearchStrategy[pipe.Report] = st.one_of(
    DONE,
    st.builds(pipe.CountedDone, SEQS, TIMES, st.just([{"rows": 1}, {}, 0]), DOCUMENTS),
    st.builds(
        pipe.AttemptEnded,
        SEQS,
        TIMES,
        st.builds(NoResult, st.just("retry"), TEXTS, TEXTS, TEXTS, TIMES),
    ),
    st.builds(pipe.Returned, st.lists(SEQS, max_size=3)),
    st.builds(pipe.ProgressSaid, SEQS, TIMES, TEXTS),
    st.builds(
        pipe.PrintedLines, SEQS, SEQS, st.lists(st.tuples(TIMES, TEXTS).map(list), max_size=3)
    ),
    st.builds(pipe.Submit, SEQS, SEQS, SEQS, DOCUMENTS),
    st.builds(pipe.StageOutput, SEQS, SEQS, SEQS, TEXTS, TEXTS, SEQS, DOCUMENTS),
    st.builds(pipe.SavedValue, SEQS, SEQS, SEQS, DOCUMENTS),
    st.builds(
        pipe.Hello,
        st.just([]),
        st.dictionaries(
            TEXTS,
            st.builds(pipe.TaskFacts, delays=st.lists(TIMES, max_size=3), stage_limits=st.just([])),
            max_size=2,
        ),
        st.just([]),
    ),
    st.builds(pipe.PageWanted, SEQS, SEQS, SEQS, TEXTS, SEQS, SEQS),
    st.builds(pipe.BrokenModules, TEXTS, st.sampled_from(get_args(pipe.Phase)), TEXTS),
)
ORDERS = st.builds(
    pipe.Orders,
    run=st.lists(st.tuples(SEQS, DOCUMENTS), max_size=5),
    resume=st.lists(st.tuples(SEQS, DOCUMENTS), max_size=3),
    staged=st.lists(
        st.builds(pipe.StageAnswer, SEQS, SEQS, st.booleans(), st.just(["a", "b"])), max_size=3
    ),
    pages=st.lists(
        st.builds(pipe.PageAnswer, SEQS, st.none() | st.just(["a", "b"]), DOCUMENTS), max_size=3
    ),
    recall=st.booleans(),
    cancel=st.lists(SEQS, max_size=3),
    expire=st.lists(st.builds(pipe.Expire, SEQS, TIMES), max_size=3),
    submitted=st.none() | st.builds(pipe.SubmitAnswer, SEQS, DOCUMENTS),
    retire=st.booleans(),
)


@quick
@given(st.lists(REPORTS, max_size=10))
def test_reports_are_read_as_they_were_made_each_kind_in_its_order(
    reports: list[pipe.Report],
) -> None:
    (frame,) = received(pipe.pack_reports(reports), [100])
    read = pipe.Reports.unpack(*frame)
    for kind, name in pipe._NAMES.items():
        assert list(getattr(read, name)) == [report for report in reports if type(report) is kind]


@quick
@given(ORDERS)
def test_orders_are_read_as_they_were_given(orders: pipe.Orders) -> None:
    (frame,) = received(orders.pack(), [100])
    read = pipe.Orders.unpack(*frame)
    assert (list(read.run), read.recall, read.submitted) == (
        orders.run,
        orders.recall,
        orders.submitted,
    )
    assert (list(read.resume), list(read.staged)) == (orders.resume, orders.staged)
    assert (list(read.cancel), list(read.expire)) == (orders.cancel, orders.expire)


def test_a_frame_may_be_larger_than_any_buffer_of_the_system() -> None:
    bodies = [bytes([place]) * 1_000_000 for place in range(20)]
    ((head, body),) = received(pipe.pack({"run": list(range(20))}, bodies), [3_000_000])
    assert head == {"run": list(range(20))}
    assert list(pipe.cut(body, (len(one) for one in bodies))) == bodies


def test_a_peer_that_closed_gives_none() -> None:
    ours, theirs = socket.socketpair()
    theirs.close()
    with ours:
        assert pipe.read(ours) is None
        assert pipe.read(ours) is None


def test_a_peer_that_closed_with_data_unread_gives_none() -> None:
    ours, theirs = socket.socketpair()
    ours.sendall(b"never read, which resets the connection")
    theirs.close()
    with ours:
        assert pipe.read(ours) is None


async def test_a_worker_that_closed_gives_its_master_none() -> None:
    ours, theirs = socket.socketpair()
    reader, writer = await asyncio.open_connection(sock=ours)
    theirs.sendall(pipe.pack({"hello": 1}) + b"\0\0")
    theirs.close()
    assert await pipe.read_async(reader) == ({"hello": 1}, b"")
    assert await pipe.read_async(reader) is None
    writer.close()
    await writer.wait_closed()


def test_a_number_that_is_none_in_json_is_refused_by_the_sender() -> None:
    with pytest.raises(TypeError):
        pipe.pack({"seq": 2**64})
