"""How a node was told to log. It stands alone: workers read it, and load nothing else of their
node's settings."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class LogStyle:
    """How a node was told to log; its workers are told as one word."""

    as_json: bool = False
    verbose: bool = False

    @property
    def word(self) -> str:
        return ("json" if self.as_json else "lines") + ("+verbose" if self.verbose else "")

    @classmethod
    def parse(cls, word: str) -> LogStyle:
        form, _, more = word.partition("+")
        return cls(form == "json", more == "verbose")
