"""The characters that stand for things, and what stands for them on terminals that have only ASCII.
Pure."""

from __future__ import annotations

from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Glyphs:
    """One set of characters; every one is a single cell wide."""

    node: dict[str, str]
    job: dict[str, str]
    cell: dict[str, str]
    """By the codes of `records.share.CELLS`."""
    lane: dict[str, str]
    """By the codes of `records.timeline.Lane`."""
    sparks: str
    parts: str
    """A bar's last cell, from nothing to full."""
    corners: str
    """Top left, top right, bottom left, bottom right."""
    across: str
    down: str
    cursor: str
    more: str
    arrow: str
    alert: str
    mark: str
    lost: str
    unrecorded: str
    dot: str
    epoch: str
    thumb: str
    up: str
    told: str
    """Before what has just happened."""
    hands: str
    """Left, right, up, down: the arrows on the keys."""


UNICODE = Glyphs(
    node={
        "initializing": "◌",
        "waiting": "○",
        "working": "●",
        "paused": "‖",
        "silent": "◇",
        "gone": "⊗",
        "dead": "✕",
    },
    job={
        "queued": "·",
        "claimed": "◔",
        "working": "●",
        "done": "✓",
        "failed": "✗",
        "cancelled": "⊘",
        "hole": " ",
    },
    cell={
        "q": "·",
        "l": "◦",
        "c": "◔",
        "r": "●",
        "d": "✓",
        "f": "✗",
        "x": "⊘",
        "?": "?",
        "h": "_",
        " ": " ",
    },
    lane={"w": "━", "-": "─", "p": "=", "i": "·", "s": "┄", "g": "┈", "x": "x", "?": "?", " ": " "},
    sparks="▁▂▃▄▅▆▇█",
    parts="▏▎▍▌▋▊▉█",
    corners="╭╮╰╯",
    across="─",
    down="│",
    cursor="▸",
    more="…",
    arrow="→",
    alert="▲",
    mark="◆",
    lost="?",
    unrecorded="░",
    dot="·",
    epoch="│",
    thumb="┃",
    up="↻",
    told="»",
    hands="←→↑↓",
)

ASCII = Glyphs(
    node={
        "initializing": "~",
        "waiting": "o",
        "working": "*",
        "paused": "=",
        "silent": "?",
        "gone": "X",
        "dead": "x",
    },
    job={
        "queued": ".",
        "claimed": "c",
        "working": "*",
        "done": "+",
        "failed": "x",
        "cancelled": "/",
        "hole": " ",
    },
    cell={
        "q": ".",
        "l": ",",
        "c": "c",
        "r": "*",
        "d": "+",
        "f": "x",
        "x": "/",
        "?": "?",
        "h": "_",
        " ": " ",
    },
    lane={"w": "#", "-": "-", "p": "=", "i": ".", "s": "~", "g": "X", "x": "x", "?": "?", " ": " "},
    sparks="_.:-=+*#",
    parts="#",
    corners="++++",
    across="-",
    down="|",
    cursor=">",
    more="~",
    arrow="->",
    alert="!",
    mark="^",
    lost="?",
    unrecorded="%",
    dot="-",
    epoch="|",
    thumb="#",
    up="r",
    told=">",
    hands="<>^v",
)
