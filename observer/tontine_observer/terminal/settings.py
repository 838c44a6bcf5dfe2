"""How one observer's screen is set up: flags, the environment and a file of keys become this,
once."""

from __future__ import annotations

import functools
import os
from collections.abc import Callable
from dataclasses import dataclass, field
from datetime import tzinfo
from pathlib import Path
from typing import Any, TypeVar

import click

from tontine.config import home

from ..draw.themes import DARK, MONO, THEMES, Theme
from ..stage.commands import COMMANDS, Command
from .keys import read_keys

Decorated = TypeVar("Decorated", bound=Callable[..., Any])
KEYS = "observer.toml"


@dataclass(frozen=True, slots=True)
class Settings:
    """What a user chooses before the screen opens."""

    theme: Theme = DARK
    is_ascii: bool = False
    commands: tuple[Command, ...] = COMMANDS
    exports: Path = field(default_factory=Path)
    """Where exported panes and screens are written."""
    crashes: Path = field(default_factory=Path)
    """Where a crash leaves its traceback."""
    screenshot: Path | None = None
    """Draw once into this file instead of on the terminal."""
    size: tuple[int, int] = (160, 48)
    """Of a screenshot."""
    pager: str = "less"
    """The program that shows long texts."""
    zone: tzinfo | None = None
    """Of the times shown; None is where the user is."""


def screen_options(command: Decorated) -> Decorated:
    """How the screen looks, given to the command as `screen`."""

    @click.option(
        "--theme",
        type=click.Choice([*THEMES]),
        help="Colours; NO_COLOR means mono. [default: dark]",
    )
    @click.option(
        "--ascii",
        "is_ascii",
        is_flag=True,
        help="Draw with ASCII only, also where wide characters differ.",
    )
    @click.option(
        "--keys",
        type=click.Path(path_type=Path, dir_okay=False),
        help=f"Keys. [default: {KEYS} in its home]",
    )
    @click.option(
        "--screenshot",
        type=click.Path(path_type=Path, dir_okay=False),
        help="Draw once, as SVG or .txt.",
    )
    @click.option(
        "--size", default="160x48", show_default=True, help="Columns and rows of a screenshot."
    )
    @functools.wraps(command)
    def with_screen(
        *args: Any,
        theme: str | None,
        is_ascii: bool,
        keys: Path | None,
        screenshot: Path | None,
        size: str,
        **options: Any,
    ) -> Any:
        # https://no-color.org: present and not empty.
        usual = MONO if os.environ.get("NO_COLOR") else DARK
        screen = Settings(
            theme=THEMES[theme] if theme else usual,
            is_ascii=is_ascii,
            commands=read_keys(keys or home() / KEYS, is_needed=keys is not None),
            crashes=home() / "crashes",
            screenshot=screenshot,
            pager=os.environ.get("PAGER") or "less",
            size=_size(size),
        )
        return command(*args, screen=screen, **options)

    return with_screen  # type: ignore[return-value]


def _size(text: str) -> tuple[int, int]:
    width, _, height = text.lower().partition("x")
    if not (
        width.isdecimal()
        and height.isdecimal()
        and 10 <= int(width) <= 1000
        and 3 <= int(height) <= 500
    ):
        raise click.BadParameter(f"{text!r} is no size: write it like 80x24", param_hint="--size")
    return int(width), int(height)
