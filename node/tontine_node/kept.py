"""What outlives an incarnation of a node, in the same process."""

from __future__ import annotations

from dataclasses import dataclass, field

from tontine.records.want import Want

from .config import NodeConfig


@dataclass(slots=True)
class Kept:
    """What the next one begins with."""

    wants: tuple[Want, ...]
    """What was wanted last of the one before, or by the configuration."""
    is_first: bool = True
    """Whether there was none before it: what it cannot load may end the process only then."""
    announced: set[tuple[str, str]] = field(default_factory=set)
    """Modules, by name and version, that the store knows of."""

    @classmethod
    def of(cls, config: NodeConfig) -> Kept:
        """For the first: what it was started with."""
        is_named = len(config.contexts) > 1
        return cls(
            tuple(
                Want(source, context.name if is_named else None)
                for context in config.contexts
                for source in context.modules
            )
        )
