"""What a node is asked to load, to drop and to load anew while it runs (MO3, MO5).

Each is a level: every look compares what is wanted with what is there, and does what is next. What
is dropped is claimed no more before anything else is done about it; its workers are replaced when
nothing of it is in the offer or in the table.
"""

from __future__ import annotations

import logging
from collections.abc import Callable, Sequence

from tontine.legible import legible
from tontine.records.task_key import name_of
from tontine.records.want import Want

from ..claims import Claims
from ..config import NodeConfig
from .contexts import Contexts
from .dispatch import Dispatcher

log = logging.getLogger(__name__)


class Changes:
    """One node's modules as they are wanted, and how far it is with them."""

    def __init__(
        self, config: NodeConfig, contexts: Contexts, claims: Claims, wants: Sequence[Want]
    ) -> None:
        self.refused: dict[Want, str] = {}
        """What it may not load, and why."""
        self.reloading = self.reloaded = 0
        """The last wish for new workers that was heard, and the last that was fulfilled."""
        self.is_offered: Callable[[str], bool] = lambda _: False
        """Whether the roster says that this node has a module."""
        self._config = config
        self._contexts = contexts
        self._claims = claims
        self._wants = tuple(wants)
        self._targets: dict[str, int] = {}
        """The generation that a wish for new workers is fulfilled by, by context."""
        for dispatcher in contexts:
            self._begin_with(dispatcher)

    @property
    def wants(self) -> tuple[Want, ...]:
        """What was wanted last."""
        return self._wants

    @property
    def dropped(self) -> frozenset[str]:
        """Modules that are on their way out."""
        gone = {name for one in self._contexts for name in one.dropped}
        return frozenset(gone.difference(*(_served(one) for one in self._contexts)))

    def doubled(self, dispatcher: Dispatcher) -> dict[str, str]:
        """Modules of a context that one before it has already, by the name of that one: a module
        belongs to one context of a node (MC2)."""
        found: dict[str, str] = {}
        for other in self._contexts:
            if other is dispatcher:
                break
            for module in other.modules:
                found.setdefault(module["name"], other.context.name)
        own = {module["name"] for module in dispatcher.modules}
        return {name: context for name, context in found.items() if name in own}

    def _begin_with(self, dispatcher: Dispatcher) -> None:
        """The next incarnation of a process keeps what was wanted of the one before."""
        sources = self._sources_of(dispatcher)
        if sources != dispatcher.pool.context.modules:
            dispatcher.pool.replace_workers(sources)

    def follow(self, wants: Sequence[Want] | None, reload: int) -> None:
        """Take the next step towards what is wanted; nothing here waits."""
        if wants is not None:
            self._wants = tuple(wants)
        self.refused = {
            want: reason for want in self._wants if (reason := self._refusal(want)) is not None
        }
        for dispatcher in self._contexts:
            self._follow_in(dispatcher)
        self._follow_reload(reload)

    def _follow_in(self, dispatcher: Dispatcher) -> None:
        wanted, loaded = self._sources_of(dispatcher), dispatcher.pool.context.modules
        unwanted = [source for source in loaded if source not in wanted]
        # By what workers have, not by what the next are started with: as long as one that has it
        # serves, it must not serve that (MI4).
        dropped = dispatcher.modules_beside(wanted)
        dispatcher.drop(dropped | self.doubled(dispatcher).keys())
        if added := [source for source in wanted if source not in loaded]:
            log.info("loading", extra={"event": "loading", "sources": added})
            dispatcher.replace_workers([*loaded, *added])
        elif unwanted and not any(map(self._is_in_use, dropped)):
            log.info("dropped", extra={"event": "dropped", "sources": unwanted})
            dispatcher.replace_workers([source for source in loaded if source in wanted])

    def _is_in_use(self, module: str) -> bool:
        """Whether the roster still says that it is here, or a job of it is in the table. One that
        was claimed by its number alone may be of any."""
        prefix = f"{module}."
        return self.is_offered(module) or any(
            not entry.task or name_of(entry.task).startswith(prefix) for entry in self._claims
        )

    def _follow_reload(self, reload: int) -> None:
        if reload > self.reloading:
            self.reloading = reload
            self._targets = {
                one.context.name: one.replace_workers() for one in self._contexts if one.is_needed
            }
        if all(
            one.pool.serving >= self._targets.get(one.context.name, 0)
            for one in self._contexts
            if one.is_needed
        ):
            self.reloaded = self.reloading

    def _sources_of(self, dispatcher: Dispatcher) -> tuple[str, ...]:
        name = dispatcher.context.name
        return tuple(
            want.source
            for want in self._wants
            if self.context_of(want) == name and self._refusal(want) is None
        )

    def context_of(self, want: Want) -> str:
        """The context that is to have it."""
        if want.context is not None:
            return want.context
        started = [one.name for one in self._config.contexts if want.source in one.modules]
        return (started or [self._config.contexts[0].name])[0]

    def _refusal(self, want: Want) -> str | None:
        """Why it may not be loaded: who may write to the database may not choose code."""
        contexts = [one.name for one in self._config.contexts]
        if want.context is not None and want.context not in contexts:
            return f"there is no context {legible(want.context, 60)!r} here: {', '.join(contexts)}"
        if want.source in self._config.loadable:
            return None
        return f"it was not started with {legible(want.source, 100)!r}, nor is that in 'available'"


def _served(dispatcher: Dispatcher) -> set[str]:
    return {module["name"] for module in dispatcher.modules} - dispatcher.dropped
