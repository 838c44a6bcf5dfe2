"""The order of a plan's steps: what comes before what, also through steps that were added while it
ran. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping
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

    def next_of(self, name: str) -> tuple[str, ...]:
        """The steps that may begin when this one has ended: what comes after a step comes after
        those that it added, too."""
        return self._next[name]

    @cached_property
    def _next(self) -> dict[str, tuple[str, ...]]:
        found: dict[str, tuple[str, ...]] = {}
        for name in self.steps:
            line = []  # it, who added it, who added that ...: a thousand of them are possible
            one: str | None = name
            while one is not None and one in self.steps and one not in found:
                line.append(one)
                one = self.steps[one].parent
            for one in reversed(line):
                inherited = found.get(self.steps[one].parent or "", ())
                found[one] = tuple(dict.fromkeys((*self.after[one], *inherited)))
        return found

    @cached_property
    def last(self) -> tuple[str, ...]:
        """Steps that nothing comes after; where these have ended, all have."""
        return tuple(
            name
            for name, step in self.steps.items()
            if step.parent not in self.steps and not self.after[name]
        )

    def with_added(self, name: str) -> Iterator[str]:
        """A step, and those that it added, and those that they added: a thousand deep, perhaps."""
        ahead = [name]
        while ahead:
            one = ahead.pop()
            yield one
            ahead += reversed(self.children[one])

    def is_last(self, name: str) -> bool:
        """Whether nothing waits for this step but the plan's end."""
        return not self.next_of(name)

    @cached_property
    def _later(self) -> dict[str, frozenset[str]]:
        """Each made of those after it, which are made first."""
        found: dict[str, frozenset[str]] = {}
        for start in self.steps:
            ahead, begun = [start], set[str]()
            while ahead:
                name = ahead[-1]
                direct = (*self._next[name], *self.children[name])
                if name not in found and name not in begun:
                    begun.add(name)
                    ahead += [one for one in direct if one not in found and one not in begun]
                    continue
                ahead.pop()
                further = (found.get(one, frozenset()) for one in direct)
                found[name] = frozenset(direct).union(*further) - {name}
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
