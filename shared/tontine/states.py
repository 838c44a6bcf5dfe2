"""Named states: values that an operator sets and tasks read, like prices or a list of tenants. A
job sees one version of each, the one that its worker had when the job began."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from typing import Any

from .errors import NoState
from .snapshot import current_states

NOTHING: Any = object()
"""No default: None may be one."""


class State:
    """A named state of a module: `prices = shop.state("prices")`, and in a task `prices.value`."""

    def __init__(self, module: str, name: str, default: Any = NOTHING) -> None:
        self.key = f"{module}/{name}"
        """As `tontine state set` names it."""
        self._default = default
        self._standing_in: list[Any] = []

    def __repr__(self) -> str:
        return f"<state {self.key}>"

    @property
    def value(self) -> Any:
        """What it was when the running job began; the default if there was none, else `NoState`."""
        if self._standing_in:
            return self._standing_in[-1]
        states = current_states()
        if states is not None and states.version(self.key) is not None:
            return states.value(self.key)
        if self._default is NOTHING:
            raise NoState(
                f"there is no state {self.key}: `tontine state set {self.key} FILE` sets it, and "
                "nodes have it within a minute"
            )
        return self._default

    @property
    def version(self) -> int | None:
        """The number of what `value` is; None for a default."""
        states = current_states()
        return None if states is None or self._standing_in else states.version(self.key)

    @contextlib.contextmanager
    def standing_in(self, value: Any) -> Iterator[Any]:
        """In a test: this is its value, in all threads of this process, until the block ends."""
        self._standing_in.append(value)
        try:
            yield value
        finally:
            self._standing_in.remove(value)
