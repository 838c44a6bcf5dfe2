"""How one observer's screen is set up; flags and the environment become this, once."""

from __future__ import annotations

from dataclasses import dataclass, field
from pathlib import Path

from .keys import COMMANDS, Command
from .look.themes import DARK, Theme


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user chooses before the screen opens."""

    theme: Theme = DARK
    is_ascii: bool = False
    is_animated: bool = True
    commands: tuple[Command, ...] = COMMANDS
    exports: Path = field(default_factory=Path)
    """Where exported panes and screens are written."""
    crashes: Path = field(default_factory=Path)
    """Where a crash leaves its traceback."""
