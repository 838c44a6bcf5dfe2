"""One module belongs to one context of a node (MC2): two files may hold modules of one name."""

from __future__ import annotations

from collections.abc import Iterable

from tontine.errors import ConfigError

from .dispatch import Dispatcher


def refuse_shared(dispatchers: Iterable[Dispatcher]) -> None:
    """Raise where workers of two contexts have the same module, each from what its context was
    started with."""
    found: dict[str, tuple[str, str]] = {}
    for dispatcher in dispatchers:
        context = dispatcher.context
        for module in dispatcher.modules:
            name, source = str(module["name"]), str(module.get("source"))
            if source not in context.modules:
                continue
            other, place = found.setdefault(name, (context.name, source))
            if other != context.name:
                raise ConfigError(
                    f"two contexts have the module {name}: {other} from {place!r} and "
                    f"{context.name} from {source!r}; a module belongs to one context"
                )
