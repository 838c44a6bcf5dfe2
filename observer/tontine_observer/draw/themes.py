"""Themes: the hues of each, and what hue a role has. States keep one hue everywhere, chosen to
survive colour blindness; a glyph and a word always say the same. Pure."""

from __future__ import annotations

from dataclasses import dataclass, field
from enum import StrEnum


class Kind(StrEnum):
    """How a theme reaches the terminal."""

    RGB = "rgb"
    ANSI = "ansi"
    """The terminal's own 16 colours."""
    MONO = "mono"
    """Bold, dim, underlined and reversed text only."""


@dataclass(frozen=True, slots=True)
class Theme:
    """The hues of one theme. Grounds that are reversed take no colour."""

    name: str
    title: str
    kind: Kind
    is_dark: bool = True
    hues: dict[str, str] = field(default_factory=dict)


DARK = Theme(
    "dark",
    "dark",
    Kind.RGB,
    True,
    {
        "ground": "#10151d",
        "bar": "#1c2533",
        "panel": "#19212d",
        "cursor": "#1e3c5e",
        "shade": "#1d2836",
        "text": "#d5dde8",
        "strong": "#ffffff",
        "muted": "#9fadbf",
        "faint": "#8593a6",
        "rule": "#3d4b5f",
        "green": "#36d0a0",
        "blue": "#6fb7f2",
        "amber": "#f2b93b",
        "red": "#ff8264",
        "pink": "#df9fd8",
        "cyan": "#5fd3e3",
        "ink": "#0b0f15",
        "alarm": "#4a1d17",
    },
)

LIGHT = Theme(
    "light",
    "light",
    Kind.RGB,
    False,
    {
        "ground": "#fcfbf8",
        "bar": "#e9e6de",
        "panel": "#f1efe9",
        "cursor": "#cfe3f7",
        "shade": "#e9e9e4",
        "text": "#1e2832",
        "strong": "#000000",
        "muted": "#4a5763",
        "faint": "#596571",
        "rule": "#b9b5aa",
        "green": "#00654a",
        "blue": "#0a559a",
        "amber": "#7a4d00",
        "red": "#a82c06",
        "pink": "#84317a",
        "cyan": "#005f6b",
        "ink": "#ffffff",
        "alarm": "#fbdcd2",
    },
)

CONTRAST = Theme(
    "contrast",
    "high contrast",
    Kind.RGB,
    True,
    {
        "ground": "#000000",
        "bar": "#000000",
        "panel": "#000000",
        "cursor": "#003a75",
        "shade": "#2b2b2b",
        "text": "#ffffff",
        "strong": "#ffffff",
        "muted": "#f0f0f0",
        "faint": "#e0e0e0",
        "rule": "#ffffff",
        "green": "#2dffb3",
        "blue": "#8fd0ff",
        "amber": "#ffd84d",
        "red": "#ffa894",
        "pink": "#ffc2f7",
        "cyan": "#7df3ff",
        "ink": "#000000",
        "alarm": "#5c0f00",
    },
)

TERMINAL = Theme(
    "terminal",
    "the terminal's 16 colours",
    Kind.ANSI,
    True,
    {
        "text": "default",
        "strong": "default",
        "muted": "default",
        "faint": "default",
        "rule": "bright_black",
        "green": "green",
        "blue": "blue",
        "amber": "yellow",
        "red": "red",
        "pink": "magenta",
        "cyan": "cyan",
    },
)

MONO = Theme("mono", "no colour", Kind.MONO)

THEMES = {theme.name: theme for theme in (DARK, LIGHT, CONTRAST, TERMINAL, MONO)}


@dataclass(frozen=True, slots=True)
class Tone:
    """What a role looks like: its hue, its attributes, and the hue of its own ground if it has
    one."""

    hue: str = "text"
    bold: bool = False
    dim: bool = False
    underline: bool = False
    chip: bool = False
    """Dark text on a ground of its hue."""


NODE_HUES = {
    "initializing": "pink",
    "waiting": "blue",
    "working": "green",
    "paused": "amber",
    "silent": "amber",
    "gone": "red",
    "dead": "muted",
}
JOB_HUES = {
    "queued": "blue",
    "claimed": "cyan",
    "working": "cyan",
    "done": "green",
    "failed": "amber",
    "cancelled": "pink",
    "hole": "faint",
}
BADGE_HUES = {
    "live": "green",
    "stale": "red",
    "frozen": "blue",
    "past": "pink",
    "poll": "amber",
    "sampled": "amber",
    "ro": "amber",
    "rw": "muted",
    "replay": "cyan",
    "wait": "muted",
    "election": "amber",
}

ROLES: dict[str, Tone] = {
    "text": Tone(),
    "strong": Tone("strong", bold=True),
    "muted": Tone("muted"),
    "faint": Tone("faint", dim=True),
    "rule": Tone("rule", dim=True),
    "rule.focus": Tone("blue", bold=True),
    "title": Tone("text", bold=True),
    "title.focus": Tone("blue", bold=True),
    "head": Tone("faint"),
    "head.sort": Tone("text", bold=True),
    "key": Tone("blue", bold=True),
    "brand": Tone("green", bold=True),
    "good": Tone("green"),
    "warn": Tone("amber"),
    "bad": Tone("red"),
    "bad.strong": Tone("red", bold=True),
    "info": Tone("blue"),
    "alert": Tone("red", bold=True),
    "notice": Tone("amber", bold=True),
    "spark": Tone("blue"),
    "spark.in": Tone("blue"),
    "spark.out": Tone("green"),
    "spark.bad": Tone("red"),
    "spark.depth": Tone("amber"),
    "epoch": Tone("amber", bold=True),
    "time": Tone("pink", bold=True),
    "match": Tone("amber", underline=True),
    "button": Tone("text"),
    "choice": Tone("blue", chip=True, bold=True),
    "danger": Tone("red", chip=True, bold=True),
    **{f"node.{state}": Tone(hue, bold=state == "gone") for state, hue in NODE_HUES.items()},
    **{
        f"job.{state}": Tone(hue, bold=state == "failed", dim=state == "hole")
        for state, hue in JOB_HUES.items()
    },
    **{
        f"badge.{name}": Tone(hue, chip=name != "rw", bold=True) for name, hue in BADGE_HUES.items()
    },
}
