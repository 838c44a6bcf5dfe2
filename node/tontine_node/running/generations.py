"""Which workers of a context are the newest: those that were asked for last, with the same code
(MO4). Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

Code = frozenset[tuple[str, str, str, tuple[str, ...]]]
"""Of each module its name, version, the digest of its files, and its tasks."""


def code_of(modules: Iterable[Mapping[str, Any]]) -> Code:
    """The code of a worker that says this of its modules."""
    return frozenset(
        (
            str(module.get("name")),
            str(module.get("version", "")),
            str(module.get("digest", "")),
            tuple(module.get("tasks", ())),
        )
        for module in modules
    )


class Generations:
    """Numbers that grow with every change: a worker of a lower one than is wanted is replaced."""

    def __init__(self) -> None:
        self.wanted = 1
        self._code: Code | None = None
        """What the wanted ones have, as soon as one of them has said so."""
        self._said_by = 0

    def ask(self) -> int:
        """New workers are wanted, whatever those that are there have; their number."""
        self.wanted += 1
        self._code = None
        return self.wanted

    def said(self, number: int, order: int, code: Code) -> int:
        """The generation of a worker that was started for `number`, as the `order`th of all, and
        has this code.

        One that was started later than those before it, and has other code, begins a new one; one
        that was started before them has read files that are gone.
        """
        if number < self.wanted:
            return number
        if self._code is None or code == self._code:
            self._code = code
            self._said_by = max(self._said_by, order)
            return number
        if order < self._said_by:
            return number - 1
        self.wanted += 1
        self._code = code
        self._said_by = order
        return self.wanted
