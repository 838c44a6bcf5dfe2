"""Parent and child: a job that a task submits is named after the job that the task runs for.

The name is all that connects them, so a second run of the parent finds what the first has
submitted, and the children of a job are a range of `_id`: no index, and nothing in a job that has
neither.
"""

from __future__ import annotations

from collections.abc import Mapping
from dataclasses import dataclass, field

from .records.job import Job

LONGEST_NAME = 200
COUNTED_AT_MOST = 10_000


@dataclass(frozen=True, slots=True)
class Children:
    """The jobs that one job's task has submitted."""

    states: Mapping[str, int] = field(default_factory=dict)
    """How many are in each state, counted up to a limit and one more."""
    some: tuple[Job, ...] = ()
    """Some of them, those that failed first."""

    @property
    def count(self) -> int:
        return sum(self.states.values())

    @property
    def summary(self) -> str:
        """How far they are: `2 done, 1 failed`."""
        more = (
            f", and more: only {COUNTED_AT_MOST} are counted"
            if self.count > COUNTED_AT_MOST
            else ""
        )
        return ", ".join(f"{number} {state}" for state, number in self.states.items()) + more


def child_id(parent: int, name: str) -> str:
    """The `_id` of a job's child."""
    return f"{parent}/{name}"


def ids_of_children(parent: int) -> dict[str, str]:
    """The condition that the `_id` of every child meets, and no other text: `0` comes right after
    `/`."""
    return {"$gte": f"{parent}/", "$lt": f"{parent}0"}


def name_problem(name: object) -> str | None:
    """Why this cannot name a child among its parent's; None when it can."""
    if not isinstance(name, str) or not name:
        return f"`name` must be a text, not {name!r:.80}"
    if len(name) > LONGEST_NAME:
        return f"`name` has {len(name)} characters, and {LONGEST_NAME} are allowed"
    if name.isascii() and name.isdecimal():
        return f"`name` must not be a number, and is {name!r}: those are given by counting"
    if "\0" in name or not name.isprintable():
        return f"`name` must be printable, and is {name!r:.80}"
    return None
