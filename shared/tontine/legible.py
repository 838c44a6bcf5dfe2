"""Text for people: what a document says, made safe for a terminal, and times and counts as one says
them. Pure."""

from __future__ import annotations

import re
from datetime import datetime
from typing import Any

# C0, DEL, C1, line and paragraph separators, and what turns the direction of text around or joins
# it to its neighbours.
_HIDDEN = (
    "\x00-\x1f\x7f-\x9f\u00ad\u061c\u200b-\u200f\u2028-\u202e\u2060-\u206f\ufeff\ufff9-\ufffb"
    "\ud800-\udfff"
)
_UNSAFE = re.compile(f"[{_HIDDEN}]")
_UNSAFE_IN_LINES = re.compile(
    f"[{_HIDDEN.replace(chr(0) + '-', chr(0) + '-' + chr(9) + chr(11) + '-')}]"
)
_SHORT = {"\n": "\\n", "\t": "\\t", "\r": "\\r", "\x1b": "\\e"}


def legible(value: object, limit: int = 2000) -> str:
    """One line of text from anywhere: control and bidi characters become visible escapes, and it is
    cut at `limit`."""
    text = str(value)
    cut = text if len(text) <= limit else text[: limit - 1] + "…"
    return _UNSAFE.sub(_escape, cut)


def legible_lines(value: object) -> str:
    """The same for text of several lines, such as a traceback: line breaks stay."""
    return _UNSAFE_IN_LINES.sub(_escape, str(value).replace("\t", "    "))


def _escape(match: re.Match[str]) -> str:
    character = match[0]
    if character in _SHORT:
        return _SHORT[character]
    code = ord(character)
    return f"\\x{code:02x}" if code < 256 else f"\\u{code:04x}"


def duration(seconds: float) -> str:
    """A length of time in the one or two units that matter: 0.4 s, 12 s, 3 min, 2 h 5 min, 4 d."""
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f} s"
    if seconds < 120:
        return f"{seconds:.0f} s"
    if seconds < 7200:
        return f"{seconds / 60:.0f} min"
    if seconds < 172800:
        hours, minutes = divmod(round(seconds / 60), 60)
        return f"{hours} h {minutes} min" if minutes else f"{hours} h"
    return f"{seconds / 86400:.0f} d"


def ago(moment: Any, now: datetime) -> str:
    """A moment as seen from `now`: 3 s ago, in 5 min. What is no date is shown as it is."""
    if moment is None:
        return "-"
    if not isinstance(moment, datetime):
        return legible(moment, 40)
    passed = (now - moment).total_seconds()
    if abs(passed) < 1:
        return "now"
    return f"{_whole(passed)} ago" if passed > 0 else f"in {_whole(-passed)}"


def _whole(seconds: float) -> str:
    return f"{seconds:.0f} s" if seconds < 120 else duration(seconds)


def count(number: int, one: str, many: str | None = None) -> str:
    """A number and its noun: 1 job, 12,000 jobs."""
    return f"{number:,} {one if number == 1 else many or one + 's'}"


def amount(size: int) -> str:
    """Bytes as people say them: 512 bytes, 120 kB, 3.5 MB."""
    if size < 1024:
        return count(size, "byte")
    kilobytes = size / 1024
    return f"{kilobytes:.0f} kB" if kilobytes < 1024 else f"{kilobytes / 1024:.1f} MB"
