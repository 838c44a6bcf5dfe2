"""Keys as people write them, and as Textual names them. Pure."""

from __future__ import annotations

_WRITTEN = {
    "question_mark": "?",
    "slash": "/",
    "colon": ":",
    "left_square_bracket": "[",
    "right_square_bracket": "]",
    "left_curly_bracket": "{",
    "right_curly_bracket": "}",
    "plus": "+",
    "minus": "-",
    "equals_sign": "=",
    "escape": "esc",
    "exclamation_mark": "!",
    "asterisk": "*",
    "pageup": "pgup",
    "pagedown": "pgdn",
    "insert": "ins",
}
_NAMED = {written: named for named, written in _WRITTEN.items()}


def written(key: str) -> str:
    """A key as people write it."""
    return _WRITTEN.get(key, key)


def named(key: str) -> str:
    """A key as Textual names it, whichever way it was written."""
    return _NAMED.get(key, key)
