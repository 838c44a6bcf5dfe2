"""Roles become terminal styles: a theme, one set of glyphs, and whether what is shown is out of
date."""

from __future__ import annotations

from rich.color import Color
from rich.style import Style

from .colours import dimmed, readable
from .glyphs import ASCII, UNICODE, Glyphs
from .themes import DARK, ROLES, Kind, Theme, Tone

REVERSED = frozenset({"cursor"})
_PLAIN = Tone()


class Look:
    """The styles of one theme; every role, known or not, on every ground has one."""

    def __init__(
        self, theme: Theme = DARK, *, is_ascii: bool = False, is_dim: bool = False
    ) -> None:
        self.theme = theme
        self.glyphs: Glyphs = ASCII if is_ascii else UNICODE
        self.is_ascii = is_ascii
        self.is_dim = is_dim
        self._styles: dict[str, Style] = {}

    def style(self, role: str) -> Style:
        """The style of a role, or of `role/ground`."""
        found = self._styles.get(role)
        if found is None:
            found = self._styles[role] = self._make(role)
        return found

    def faded(self) -> Look:
        """The same look for what is out of date."""
        return Look(self.theme, is_ascii=self.is_ascii, is_dim=True)

    def _make(self, name: str) -> Style:
        key, _, ground = name.partition("/")
        role = ROLES.get(key, _PLAIN)
        match self.theme.kind:
            case Kind.RGB:
                return self._rgb(role, ground)
            case Kind.ANSI:
                return self._ansi(role, ground)
            case Kind.MONO:
                return self._mono(role, ground)

    def _rgb(self, role: Tone, ground: str) -> Style:
        hues = self.theme.hues
        if role.chip:
            behind = dimmed(hues[role.hue], hues["ground"]) if self.is_dim else hues[role.hue]
            return Style.from_color(Color.parse(hues["ink"]), Color.parse(behind)) + Style(
                bold=role.bold
            )
        behind = hues.get(ground or "ground", hues["ground"])
        colour = (
            hues[role.hue]
            if role.hue == "rule"
            else readable(hues[role.hue], behind, hues["strong"])
        )
        if self.is_dim and role.hue != "rule":
            colour = dimmed(colour, behind)
        attributes = Style(bold=role.bold and not self.is_dim, underline=role.underline)
        return Style.from_color(Color.parse(colour), Color.parse(behind)) + attributes

    def _ansi(self, role: Tone, ground: str) -> Style:
        attributes = _attributes(role, ground, is_dim=self.is_dim or role.dim)
        # Reversed, every hue would be another ground: the row under the cursor is easier to read in
        # one.
        colour = "default" if ground in REVERSED else self.theme.hues.get(role.hue, "default")
        return Style(color=colour, bgcolor="default") + attributes

    def _mono(self, role: Tone, ground: str) -> Style:
        return Style(color="default", bgcolor="default") + _attributes(
            role, ground, is_dim=self.is_dim or role.dim
        )


def _attributes(role: Tone, ground: str, *, is_dim: bool) -> Style:
    is_bold = role.bold or ground in ("bar", "alarm")
    return Style(
        bold=is_bold and not is_dim,
        dim=is_dim,
        underline=role.underline or ground == "shade",
        reverse=role.chip or ground in REVERSED,
    )
