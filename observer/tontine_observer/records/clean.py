"""Text from the store, made safe once, on entry: control and bidi characters visible, length
capped, secrets hidden.

Pure. Everything that is drawn, exported, recorded or served has passed through here.
"""

from __future__ import annotations

import re
from collections.abc import Mapping, Sequence
from dataclasses import dataclass
from datetime import datetime
from functools import lru_cache
from typing import Any
from unicodedata import category

from tontine.errors import ConfigError
from tontine.legible import legible, legible_lines

NAME_KEPT, TEXT_KEPT, PAGE_KEPT = 120, 300, 100_000
HIDDEN = "***"

_SECRET_KEY = re.compile(
    r"passw(or)?d|secret|token|api[-_]?key|authori[sz]ation|credential|private[-_]?key", re.I
)
_SECRET_TEXT = (
    # Bounded everywhere: on a long text without a match, anything else would take the square of its
    # length.
    re.compile(r"(?P<before>[a-z][a-z0-9+.-]{0,20}://[^\s:/@]{1,200}:)[^\s@/]{1,500}(?=@)", re.I),
    re.compile(
        r"(?P<before>\b(?:passw(?:or)?d|secret|token|api[-_]?key)\b\s*[=:]\s*)[^\s,;&\"']+", re.I
    ),
    re.compile(r"(?P<before>\b(?:Bearer|Basic)\s+)[A-Za-z0-9._~+/=-]{8,}"),
)


@dataclass(frozen=True, slots=True)
class Cleaner:
    """Cleans text, with the patterns of a deployment's own secrets beside the usual ones."""

    patterns: tuple[re.Pattern[str], ...] = ()

    @classmethod
    def of(cls, patterns: Sequence[str]) -> Cleaner:
        """From what a user typed."""
        try:
            return cls(tuple(re.compile(pattern) for pattern in patterns))
        except re.error as error:
            raise ConfigError(f"--redact takes regular expressions: {error}") from error

    def name(self, value: Any) -> str:
        """A short word: an id, a state, a task."""
        return (
            _name(value)
            if type(value) is str and len(value) <= NAME_KEPT
            else _visible(legible(value, NAME_KEPT))
        )

    def title(self, value: Any) -> str:
        """The name of something that has a row of its own: also an empty one is seen."""
        return self.name(value) or '""'

    def text(self, value: Any, limit: int = TEXT_KEPT) -> str:
        """One line that may hold a secret."""
        # Cut before the patterns run: they are linear, but a megabyte is long.
        return legible(self.redacted(str(value)[: 4 * limit]), limit)

    def lines(self, value: Any) -> str:
        """Several lines, such as a traceback."""
        return legible_lines(self.redacted(str(value)[:PAGE_KEPT]))

    def redacted(self, text: str) -> str:
        """The text without what looks like a secret."""
        for pattern in _SECRET_TEXT:
            text = pattern.sub(rf"\g<before>{HIDDEN}", text)
        for pattern in self.patterns:
            text = pattern.sub(HIDDEN, text)
        return text

    def value(self, value: Any, depth: int = 8) -> Any:
        """A payload for people: secrets hidden by their key or their looks, every text clean."""
        if isinstance(value, Mapping):
            if depth == 0:
                return "…"
            return {
                self.name(key): HIDDEN if is_secret(key) else self.value(inner, depth - 1)
                for key, inner in value.items()
            }
        if isinstance(value, list | tuple):
            return [self.value(inner, depth - 1) for inner in value] if depth else "…"
        if value is None or isinstance(value, bool | int | float | datetime):
            return value
        return legible(self.redacted(str(value)[:PAGE_KEPT]), PAGE_KEPT)


@lru_cache(maxsize=4096)
def _name(value: str) -> str:
    """States, tasks and nodes come again and again."""
    return _visible(legible(value, NAME_KEPT))


def _visible(text: str) -> str:
    """The text, or its codes where nothing of it could be seen: blanks, fillers, marks on
    nothing."""
    if any(_BLANK.get(character, category(character)) not in _UNSEEN for character in text):
        return text
    return "".join(f"\\u{ord(character):04x}" for character in text)


_UNSEEN = frozenset({"Cc", "Cf", "Cn", "Mc", "Me", "Mn", "Zl", "Zp", "Zs"})
_BLANK = dict.fromkeys("\u115f\u1160\u2800\u3164\uffa0", "Zs")
"""Letters and symbols that are drawn as nothing."""


def is_secret(key: object) -> bool:
    """Whether what goes by that name is nobody's business."""
    return _SECRET_KEY.search(str(key)[:NAME_KEPT]) is not None
