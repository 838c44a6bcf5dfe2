"""A pseudo-terminal with a process on it, and what that process wrote."""

from __future__ import annotations

import fcntl
import os
import pty
import re
import select
import signal
import struct
import subprocess
import sys
import termios
import time
from collections.abc import Iterator, Sequence
from contextlib import contextmanager, suppress
from pathlib import Path

ROOT = Path(__file__).resolve().parents[2]
ENTER, LEAVE = b"\x1b[?1049h", b"\x1b[?1049l"
MOUSE_OFF = (b"\x1b[?1000l", b"\x1b[?1003l")

# Everything the toolkit sends by itself: colours, places, modes, questions to the terminal,
# keyboard protocol, titles.
KNOWN = re.compile(
    rb"\x1b\[[0-9;:]*m"  # styles
    rb"|\x1b\[\d*(?:;\d*)?H"  # go to
    rb"|\x1b\[\?\d+(?:;\d+)*[hl]"  # modes on and off
    rb"|\x1b\[\?\d+\$p"  # questions about modes
    rb"|\x1b\[[<>=]\d*u"  # keyboard protocol
    rb"|\x1b\[\d*[JKABCDc]"
    rb"|\x1b\[>?\d*[cq]"
    rb"|\x1b\[\d* q"
    rb"|\x1b\]22;[a-z-]*\x07"  # the shape of the pointer
    rb"|\x1b\]52;c;[A-Za-z0-9+/=]*\x07"  # the clipboard, when asked for
)


class Terminal:
    """One process and its terminal."""

    def __init__(self, process: subprocess.Popen[bytes], master: int) -> None:
        self.process = process
        self.master = master
        self.written = b""

    def read(self, within: float = 0.05) -> bool:
        """Take what it wrote; False when there is nothing more to come."""
        ready, _, _ = select.select([self.master], [], [], within)
        if not ready:
            return True
        try:
            data = os.read(self.master, 65536)
        except OSError:
            return False
        self.written += data
        return bool(data)

    def wait_for(self, words: bytes, within: float = 90.0) -> None:
        """Wait until it has written this."""
        until = time.monotonic() + within
        while words not in self.written:
            assert time.monotonic() < until, f"{words!r} was not written: {self.written[-2000:]!r}"
            assert self.read() or words in self.written, f"it ended: {self.written[-2000:]!r}"

    def wait_for_text(self, words: str, within: float = 90.0) -> None:
        until = time.monotonic() + within
        while words not in self.text:
            assert time.monotonic() < until, f"{words!r} is not shown: {self.text[-2000:]!r}"
            self.read()

    @property
    def text(self) -> str:
        """What it wrote, without the sequences."""
        return KNOWN.sub(b"", self.written).decode(errors="replace")

    def press(self, keys: bytes) -> None:
        os.write(self.master, keys)

    def press_and_watch(self, keys: bytes, within: float = 60.0) -> None:
        """Press a key and wait until the screen has answered: an escape and what follows it must
        not become one key."""
        before, until = len(self.written), time.monotonic() + within
        self.press(keys)
        while len(self.written) == before:
            assert time.monotonic() < until, f"{keys!r} changed nothing"
            self.read()
        while select.select([self.master], [], [], 0.3)[0]:
            self.read()

    def end(self, within: float = 60.0) -> int:
        """Wait until it has ended; its exit code."""
        until = time.monotonic() + within
        while self.process.poll() is None:
            assert time.monotonic() < until, "it does not end"
            self.read()
        while self.read(0.2) and select.select([self.master], [], [], 0)[0]:
            pass
        return self.process.returncode

    @property
    def is_raw(self) -> bool:
        """Whether the terminal is in the mode of a screen: keys are not echoed."""
        return not termios.tcgetattr(self.master)[3] & termios.ECHO


@contextmanager
def terminal(
    command: Sequence[str], size: tuple[int, int] = (80, 24), **environment: str
) -> Iterator[Terminal]:
    """A process on a terminal of its own."""
    master, slave = pty.openpty()
    fcntl.ioctl(slave, termios.TIOCSWINSZ, struct.pack("HHHH", size[1], size[0], 0, 0))
    known = {
        key: value
        for key, value in os.environ.items()
        if key not in ("NO_COLOR", "COLUMNS", "LINES", "TERM")
    }
    process = subprocess.Popen(
        command,
        stdin=slave,
        stdout=slave,
        stderr=slave,
        cwd=ROOT,
        env=known
        | {"TERM": "xterm-256color", "COLORTERM": "truecolor", "LANG": "C.UTF-8"}
        | environment,
        start_new_session=True,
        preexec_fn=lambda: fcntl.ioctl(0, termios.TIOCSCTTY, 0),  # noqa: PLW1509
    )
    os.close(slave)
    shown = Terminal(process, master)
    try:
        yield shown
    finally:
        with suppress(ProcessLookupError):
            os.kill(process.pid, signal.SIGCONT)
            process.terminate()  # so that it ends what it has started
        with suppress(subprocess.TimeoutExpired):
            process.wait(20)
        process.kill()
        process.wait()
        os.close(master)


def stand(kind: str = "still") -> list[str]:
    """The command of a screen that stands still."""
    return [sys.executable, "-m", "tests.screens.stand", kind]
