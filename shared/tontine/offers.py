"""What the records of live nodes say of tasks and declared schedules, tolerant of anything in them.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass, field
from typing import Any

from .legible import legible
from .records.node import Announced, modules_in
from .records.schedule import Schedule, rank_of
from .records.task_key import fits, name_of


@dataclass(frozen=True, slots=True)
class Offers:
    """Tasks and in which versions they are there, the newest of each module, and which modules
    declare a schedule."""

    tasks: dict[str, set[str]] = field(default_factory=dict)
    versions: dict[str, str] = field(default_factory=dict)
    schedules: dict[str, set[str]] = field(default_factory=dict)
    newest: dict[str, set[str]] = field(default_factory=dict)
    """What the newest version of a module declares, by module."""

    @classmethod
    def of(cls, nodes: Iterable[Mapping[str, Any]]) -> Offers:
        """From records as they are stored."""
        offers = cls()
        for node in nodes:
            for module in modules_in(node):
                offers._add(module)
        return offers

    def _add(self, module: Announced) -> None:
        for task in module.tasks:
            self.tasks.setdefault(task, set()).add(module.version)
        for schedule in module.schedules:
            self.schedules.setdefault(schedule, set()).add(module.name)
        known = self.versions.get(module.name)
        if known is None or rank_of(module.version) > rank_of(known):
            self.versions[module.name] = module.version
            self.newest[module.name] = set(module.schedules)
        elif module.version == known:
            self.newest[module.name] |= module.schedules

    def _has(self, key: str) -> bool:
        return any(fits(key, version) for version in self.tasks.get(name_of(key), ()))

    def warnings(self, schedule: Schedule) -> tuple[str, ...]:
        """What somebody should look at."""
        told = []
        if unknown := [one for one in schedule.tasks if not self._has(one)]:
            tasks = "task" if len(unknown) == 1 else "tasks"
            told.append(f"no live node has its {tasks} {legible(', '.join(unknown), 100)}")
        origin = schedule.declared
        if origin is not None and schedule.name not in self.newest.get(
            origin.module, {schedule.name}
        ):
            module = legible(f"{origin.module} {self.versions[origin.module]}", 100)
            told.append(
                f"{module} no longer declares it: `tontine schedule rm "
                f"{legible(schedule.name, 100)}` ends it"
            )
        return tuple(told)

    def still_declared(self, name: str) -> str:
        """About a schedule that was removed all the same."""
        modules = ", ".join(legible(one, 100) for one in sorted(self.schedules.get(name, ())))
        return (
            f"removed, although {modules} declares it: `tontine schedule on "
            f"{legible(name, 100)}` brings it back"
        )
