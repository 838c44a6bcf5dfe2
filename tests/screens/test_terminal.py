"""On a real terminal: what the screen sends to it, and what it leaves behind."""

from __future__ import annotations

import os
import re
import signal
import subprocess
import sys
from pathlib import Path

import pytest

from tests.screens.terminals import ENTER, KNOWN, LEAVE, MOUSE_OFF, ROOT, stand, terminal
from tests.support.eventually import eventually

COLOURS = re.compile(rb"\x1b\[(?:[0-9;]*;)?(?:3[0-8]|4[0-8]|9[0-7]|10[0-7])(?:;[0-9;]*)?m")


def given_back(written: bytes) -> bool:
    """Whether the screen and the mouse were switched off after they were last switched on."""
    last = written.rfind(ENTER)
    return LEAVE in written[last:] and all(mode in written[last:] for mode in MOUSE_OFF)


@pytest.mark.parametrize("number", [signal.SIGTERM, signal.SIGHUP], ids=lambda number: number.name)
def test_a_signal_ends_it_and_gives_the_terminal_back(number: signal.Signals) -> None:
    with terminal(stand()) as shown:
        shown.wait_for_text("node-07")
        assert shown.is_raw
        shown.process.send_signal(number)
        assert shown.end() == 0
        assert given_back(shown.written)
        assert not shown.is_raw


STUCK = """
import signal, sys, threading
from tontine_observer.terminal import signals
signal.signal(signal.SIGHUP, signal.SIG_IGN)
signals.LEAVES_WITHIN = 0.0
signals.end_with_terminal()
print("stuck", flush=True)
threading.Event().wait()
"""


@pytest.mark.skipif(sys.platform != "linux", reason="only Linux tells of it in this way")
def test_it_ends_with_its_terminal_whatever_it_waits_for() -> None:
    master, slave = os.openpty()
    process = subprocess.Popen([sys.executable, "-c", STUCK], stdin=slave, stdout=subprocess.PIPE)
    os.close(slave)
    try:
        assert process.stdout is not None
        assert process.stdout.readline() == b"stuck\n"
        assert process.poll() is None, "its terminal is there"
        os.close(master)
        assert process.wait(60) == 128 + signal.SIGHUP
    finally:
        process.kill()
        process.wait()
        if process.stdout is not None:
            process.stdout.close()


def test_ctrl_z_gives_the_terminal_back_and_fg_takes_it_again() -> None:
    with terminal(stand()) as shown:
        shown.wait_for_text("node-07")
        shown.press(b"\x1a")

        def is_stopped() -> bool:
            shown.read()
            status = Path(f"/proc/{shown.process.pid}/stat").read_text()
            return status.rpartition(")")[2].split()[0] == "T"

        if sys.platform == "linux":
            eventually(is_stopped, 60)
        eventually(lambda: shown.read() and given_back(shown.written), 60)  # it wrote, then stopped
        before = len(shown.written)
        os.kill(shown.process.pid, signal.SIGCONT)
        eventually(lambda: shown.read() and ENTER in shown.written[before:], 60)
        shown.press(b"q")
        assert shown.end() == 0
        assert given_back(shown.written)


def test_a_crash_gives_the_terminal_back_and_leaves_a_traceback_without_secrets(
    tmp_path: Path,
) -> None:
    with terminal(stand("broken"), CRASHES=str(tmp_path)) as shown:
        assert shown.end() == 1
        assert given_back(shown.written)
        assert "the traceback is in" in shown.text
        assert "local-secret" not in shown.text
    (file,) = tmp_path.iterdir()
    written = file.read_text()
    assert "RuntimeError: no use: ***" in written
    assert "in start" in written
    assert "local-secret" not in written.replace('secret = "local-secret"', "")


def test_nothing_foreign_reaches_the_terminal() -> None:
    with terminal(stand("hostile"), (120, 40)) as shown:
        shown.wait_for_text("red [bold]")
        for keys in (
            b"1",
            b"\r",
            b"\x1b",
            b"2",
            b"3",
            b"\r",
            b"v",
            b"\x1b",
            b"4",
            b"5",
            b"?",
            b"\x1b",
            b":",
            b"\x1b",
        ):
            shown.press_and_watch(keys)
        shown.process.terminate()
        shown.end()
        rest = KNOWN.sub(b"", shown.written)
        # What is left after all that the toolkit itself sends: text, and line ends of the terminal.
        assert not re.findall(rb"[\x00-\x06\x0b\x0c\x0e-\x1a\x1c-\x1f\x7f]", rest)
        assert b"\x1b" not in rest, [
            rest[at.start() : at.start() + 20] for at in re.finditer(b"\x1b", rest)
        ][:5]
        assert not re.findall(
            "[\x80-\x9f\u202a-\u202e\u2066-\u2069]", rest.decode(errors="replace")
        )


def test_without_colour_no_colour_is_sent() -> None:
    with terminal(stand(), NO_COLOR="1") as shown:
        shown.wait_for_text("node-07")
        shown.press_and_watch(b"/")
        shown.press_and_watch(b"x")
        shown.press_and_watch(b"\x1b")
        shown.press_and_watch(b"D")
        shown.wait_for_text("Stop node-00")
        assert COLOURS.findall(shown.written) == []
        assert b"\x1b[" in shown.written


def test_the_clipboard_is_written_when_asked_for() -> None:
    with terminal(stand()) as shown:
        shown.wait_for_text("node-07")
        shown.press(b"c")
        shown.wait_for(b"\x1b]52;c;bm9kZS0wMC0x")


def test_what_is_typed_before_the_screen_is_there_is_done() -> None:
    with terminal(stand()) as shown:
        assert not shown.is_raw, "the terminal itself makes a new line of the enter"
        shown.press(b":job 4811\r")
        shown.wait_for_text("Job #4811")


def test_an_escape_and_a_key_in_one_read_are_both_done() -> None:
    with terminal(stand()) as shown:
        shown.wait_for_text("node-07")
        shown.press(b":job 4811\r")
        shown.wait_for_text("Job #4811")
        shown.press(b"\x1bD")
        shown.wait_for_text("Stop node-00")


def test_an_escape_and_a_number_in_one_read_are_both_done() -> None:
    with terminal(stand()) as shown:
        shown.wait_for_text("node-07")
        shown.press(b":job 4811\r")
        shown.wait_for_text("Job #4811")
        shown.press(b"\x1b4")
        shown.wait_for_text("left and right look back")


@pytest.mark.parametrize(
    ("command", "said"),
    [
        ("/nothing/there", "/nothing/there cannot be started"),
        # A ctrl+c reaches every process of the terminal, and is the pager's.
        ("sh -c 'kill -INT $PPID; echo seen'", "Job #"),
    ],
)
def test_the_screen_is_back_after_a_pager_however_that_went(command: str, said: str) -> None:
    with terminal(stand(), PAGER=command) as shown:
        shown.wait_for_text("node-07")
        shown.press_and_watch(b"3")
        shown.press_and_watch(b"\r")
        before = len(shown.written)
        shown.press(b"P")
        eventually(lambda: shown.read() and ENTER in shown.written[before:], 60)
        eventually(
            lambda: shown.read() and said in KNOWN.sub(b"", shown.written[before:]).decode(), 60
        )
        shown.press_and_watch(b"q")
        shown.press(b"q")
        assert shown.end() == 0
        assert given_back(shown.written)


def test_m_lets_go_of_the_mouse_and_takes_it_back() -> None:
    with terminal(stand()) as shown:
        shown.wait_for_text("node-07")
        before = len(shown.written)
        shown.press(b"m")
        eventually(lambda: shown.read() and MOUSE_OFF[0] in shown.written[before:], 60)
        before = len(shown.written)
        shown.press(b"m")
        eventually(lambda: shown.read() and b"\x1b[?1000h" in shown.written[before:], 60)


@pytest.mark.parametrize("which", ["stdin", "stdout", "stderr", "dumb"])
def test_without_a_terminal_it_writes_one_snapshot_and_no_escapes(
    which: str, mongo_uri: str, database: str
) -> None:
    command = [
        sys.executable,
        "-m",
        "tontine",
        "observe",
        "--uri",
        mongo_uri,
        "--database",
        database,
    ]
    if which == "dumb":
        with terminal(command, TERM="dumb") as shown:
            assert shown.end() == 0
            written = shown.written
    else:
        replaced = {"stdin": "</dev/null", "stdout": "| cat", "stderr": "2>/dev/null"}[which]
        line = " ".join(f"'{part}'" for part in command) + " " + replaced
        with terminal(["bash", "-c", f"set -o pipefail; {line}"]) as shown:
            assert shown.end() == 0
            written = shown.written
    assert b"epoch 0" in written
    assert re.sub(rb"\x1b\[[0-9;]*m", b"", written).find(b"\x1b") < 0
    if which in ("stdout", "dumb"):
        assert b"\x1b" not in written


def test_a_closed_pipe_ends_it_quietly(mongo_uri: str, database: str) -> None:
    command = (
        f"{sys.executable} -m tontine observe --uri '{mongo_uri}' --database {database} "
        "--once --json | true"
    )
    run = subprocess.run(
        ["bash", "-c", command], cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert run.stderr == ""
