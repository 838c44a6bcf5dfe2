"""What is written to a stream that nobody reads is lost, and nobody waits for it."""

from __future__ import annotations

import io
import os
import sys

import pytest

from tontine_node.telling import outlet
from tontine_node.telling.outlet import open_outlet


@pytest.fixture
def patience(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(outlet, "PATIENCE", 0.05)


def read_all(fd: int) -> bytes:
    os.set_blocking(fd, False)
    taken = b""
    while True:
        try:
            chunk = os.read(fd, 1 << 20)
        except BlockingIOError:
            return taken
        if not chunk:
            return taken
        taken += chunk


@pytest.mark.skipif(sys.platform == "win32", reason="select knows no pipes there")
@pytest.mark.usefixtures("patience")
def test_what_nobody_reads_is_lost_and_a_reader_that_is_back_is_told_again() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb"), os.fdopen(writer, "w") as pipe:
        stream = open_outlet(pipe)
        for number in range(20_000):
            stream.write(f"line {number} of what nobody reads\n")
        first = read_all(reader)
        assert first.startswith(b"line 0 of what nobody reads\nline 1 ")
        stream.write("somebody reads again\n")
        assert read_all(reader).endswith(b"somebody reads again\n")


@pytest.mark.skipif(sys.platform == "win32", reason="select knows no pipes there")
def test_a_reader_that_reads_gets_everything() -> None:
    reader, writer = os.pipe()
    with os.fdopen(reader, "rb"), os.fdopen(writer, "w") as pipe:
        stream = open_outlet(pipe)
        taken = b""
        for _ in range(20):
            stream.write("é" * 10_000 + "\n")
            taken += read_all(reader)
        assert taken.decode() == ("é" * 10_000 + "\n") * 20


def test_what_is_no_file_stays_as_it_is() -> None:
    stream = io.StringIO()
    assert open_outlet(stream) is stream
