"""Arithmetic on colours written #rrggbb: contrast as WCAG counts it, and mixing. Pure."""

from __future__ import annotations


def parts(colour: str) -> tuple[int, int, int]:
    return int(colour[1:3], 16), int(colour[3:5], 16), int(colour[5:7], 16)


def mix(colour: str, other: str, share: float) -> str:
    """The colour with `share` of the other in it."""
    mixed = (
        round(one + (two - one) * share)
        for one, two in zip(parts(colour), parts(other), strict=True)
    )
    return "#" + "".join(f"{part:02x}" for part in mixed)


def contrast(colour: str, ground: str) -> float:
    """From 1, the same, to 21, black on white."""
    light, dark = sorted((_luminance(colour), _luminance(ground)), reverse=True)
    return (light + 0.05) / (dark + 0.05)


def _luminance(colour: str) -> float:
    red, green, blue = (_linear(part / 255) for part in parts(colour))
    return 0.2126 * red + 0.7152 * green + 0.0722 * blue


def _linear(part: float) -> float:
    return part / 12.92 if part <= 0.04045 else ((part + 0.055) / 1.055) ** 2.4


def dimmed(colour: str, ground: str, least: float = 4.5) -> str:
    """The colour as near to its ground as it can be and still be read."""
    for share in (0.55, 0.45, 0.35, 0.25, 0.15):
        faded = mix(colour, ground, share)
        if contrast(faded, ground) >= least:
            return faded
    return colour


def readable(colour: str, ground: str, strong: str, least: float = 4.5) -> str:
    """The colour, with as much of the strongest one in it as its ground demands."""
    for share in (0.0, 0.2, 0.4, 0.6, 0.8):
        lifted = mix(colour, strong, share)
        if contrast(lifted, ground) >= least:
            return lifted
    return strong
