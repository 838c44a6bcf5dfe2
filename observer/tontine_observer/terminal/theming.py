"""Themes as Textual knows them: the same hues for what it draws itself, lines to type in."""

from __future__ import annotations

from dataclasses import replace

from textual.app import App
from textual.theme import BUILTIN_THEMES
from textual.theme import Theme as Palette

from ..draw.style import Look
from ..draw.themes import THEMES, Kind, Theme
from ..stage.stage import Stage


def register(app: App[None]) -> None:
    """Let Textual know of all of them."""
    for theme in THEMES.values():
        app.register_theme(_palette(theme))


def leaves_colours_to_terminal(theme: Theme) -> bool:
    """Converted to RGB, the terminal's colours would not be its own any more."""
    return theme.kind is not Kind.RGB


def name_of(theme: Theme) -> str:
    return f"tontine-{theme.name}"


def wear(app: App[None], stage: Stage, theme: Theme) -> None:
    """Another theme, at once."""
    app.ansi_color = leaves_colours_to_terminal(theme)
    app.theme = name_of(theme)
    stage.set_look(Look(theme, is_ascii=stage.look.is_ascii))
    app.refresh(layout=True)


def _palette(theme: Theme) -> Palette:
    if leaves_colours_to_terminal(theme):
        return replace(BUILTIN_THEMES["ansi-dark"], name=name_of(theme))
    hues = theme.hues
    return Palette(
        name_of(theme),
        primary=hues["blue"],
        background=hues["ground"],
        surface=hues["bar"],
        panel=hues["bar"],
        foreground=hues["text"],
        warning=hues["amber"],
        error=hues["red"],
        success=hues["green"],
        dark=theme.is_dark,
    )
