"""The order of a plan's steps: what comes before what, also through steps that were added while it
ran. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from functools import cached_property

from ..records.plan import StepRecord


class PlanGraph:
    """Steps, and what each comes before and after."""

    def __init__(self, steps: Mapping[str, StepRecord]) -> None:
        self.steps = steps
        self.before: dict[str, frozenset[str]] = {
            name: frozenset(step.before & steps.keys()) for name, step in steps.items()
        }
        self.after: dict[str, list[str]] = {name: [] for name in steps}
        self.children: dict[str, list[str]] = {name: [] for name in steps}
        for name, names in self.before.items():
            for earlier in sorted(names):
                self.after[earlier].append(name)
            if (parent := steps[name].parent) in steps:
                self.children[str(parent)].append(name)

    def next_of(self, name: str) -> list[str]:
        """The steps that may begin when this one has ended: what comes after a step comes after
        those that it added, too."""
        found = list(self.after[name])
        parent = self.steps[name].parent
        if parent in self.steps:
            found += [one for one in self.next_of(str(parent)) if one not in found]
        return found

    @cached_property
    def last(self) -> tuple[str, ...]:
        """Steps that nothing comes after; where these have ended, all have."""
        return tuple(
            name
            for name, step in self.steps.items()
            if step.parent not in self.steps and not self.after[name]
        )

    def is_last(self, name: str) -> bool:
        """Whether nothing waits for this step but the plan's end."""
        return not self.next_of(name)

    @cached_property
    def _later(self) -> dict[str, frozenset[str]]:
        found: dict[str, frozenset[str]] = {}
        for name in self.steps:
            seen: set[str] = set()
            ahead = [*self.next_of(name), *self.children[name]]
            while ahead:
                one = ahead.pop()
                if one not in seen:
                    seen.add(one)
                    ahead += [*self.next_of(one), *self.children[one]]
            found[name] = frozenset(seen - {name})
        return found

    def later(self, name: str) -> frozenset[str]:
        """All that comes after a step, directly or through others."""
        return self._later[name]

    def earlier(self, name: str) -> frozenset[str]:
        """All that a step comes after, directly or through others."""
        return frozenset(one for one in self.steps if name in self._later[one])


def find_cycle(before: Mapping[str, Iterable[str]]) -> list[str] | None:
    """Steps that wait for each other, in the order in which they would have to run; the first is
    also the last."""
    waits = {name: sorted(names) for name, names in before.items()}
    finished: set[str] = set()
    for start in sorted(waits):
        path: list[str] = []
        ahead: list[tuple[str, int]] = [(start, 0)]
        while ahead:
            name, place = ahead.pop()
            if place == 0:
                if name in finished or name not in waits:
                    continue
                if name in path:
                    return [name, *reversed(path[path.index(name) :])]
                path.append(name)
            if place < len(waits[name]):
                ahead += [(name, place + 1), (waits[name][place], 0)]
            else:
                path.pop()
                finished.add(name)
    return None
