"""What a node serves now: its offer, as the roster shows it to all. Pure."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from dataclasses import dataclass
from typing import Any

from .job import is_text
from .task_key import fits, name_of


@dataclass(frozen=True, slots=True, order=True)
class ModuleOffer:
    """One module: its version, and the tasks of it by their short names, without the module's."""

    name: str
    version: str = ""
    tasks: tuple[str, ...] = ()

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> ModuleOffer | None:
        """What can be read of it; None when that is not even a name."""
        name, version, tasks = (document.get(part) for part in ("name", "version", "tasks"))
        if not is_text(name) or not name:
            return None
        known = [task for task in tasks if is_text(task)] if isinstance(tasks, list) else []
        return cls(name, version if is_text(version) else "", tuple(sorted(set(known))))

    def to_document(self) -> dict[str, Any]:
        return {"name": self.name, "version": self.version, "tasks": list(self.tasks)}

    def has(self, key: str) -> bool:
        """Whether it has the task of a key, in a version inside its range."""
        module, _, short = name_of(key).partition(".")
        return module == self.name and short in self.tasks and fits(key, self.version)

    def names(self) -> list[str]:
        """The whole names of its tasks."""
        return [f"{self.name}.{short}" for short in self.tasks]


@dataclass(frozen=True, slots=True)
class Offer:
    """Modules in the order of their names: two nodes that serve the same say the same."""

    modules: tuple[ModuleOffer, ...] = ()

    @classmethod
    def of(cls, modules: Iterable[ModuleOffer]) -> Offer:
        return cls(tuple(sorted(modules)))

    @classmethod
    def announced(cls, modules: Iterable[Mapping[str, Any]]) -> Offer:
        """All that is in modules as workers announce them, with the whole names of their tasks."""
        found = []
        for module in modules:
            prefix = f"{module['name']}."
            short = sorted({task.removeprefix(prefix) for task in module.get("tasks", ())})
            found.append(ModuleOffer(module["name"], str(module.get("version", "")), tuple(short)))
        return cls.of(found)

    @classmethod
    def from_documents(cls, documents: Any) -> Offer:
        """What can be read of it: whoever wrote it may have written anything."""
        if not isinstance(documents, list):
            return cls()
        read = [ModuleOffer.from_document(one) for one in documents if isinstance(one, Mapping)]
        return cls.of(one for one in read if one is not None)

    def to_documents(self) -> list[dict[str, Any]]:
        return [module.to_document() for module in self.modules]

    def has(self, key: str) -> bool:
        """Whether it serves jobs with this task key."""
        return any(module.has(key) for module in self.modules)

    def names(self) -> set[str]:
        """The names of all its tasks."""
        return {name for module in self.modules for name in module.names()}
