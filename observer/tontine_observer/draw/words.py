"""Numbers and times in as few characters as say it: 0.4s, 42s, 3m, 1,072, 12k. Pure."""

from __future__ import annotations

from datetime import datetime, tzinfo


def age(seconds: float | None) -> str:
    """A length of time in at most five characters."""
    if seconds is None:
        return "-"
    seconds = max(0.0, seconds)
    if seconds < 9.95:
        return f"{seconds:.1f}s"
    if seconds < 99.5:
        return f"{seconds:.0f}s"
    if seconds < 5970:
        return f"{seconds / 60:.0f}m"
    if seconds < 171000:
        return f"{seconds / 3600:.0f}h"
    return f"{min(seconds / 86400, 9999):.0f}d"


def amount(number: float) -> str:
    """A count in at most seven characters: 1,072, 81,204, 1.2M."""
    if abs(number) < 1_000_000:
        return f"{number:,.0f}"
    for size, unit in ((1e6, "M"), (1e9, "G"), (1e12, "T")):
        if abs(number) < size * 1000:
            return f"{number / size:.1f}{unit}"
    return f"{number:.0e}"


def short(number: float) -> str:
    """A count in at most five characters: 999, 12k, 1.2M."""
    if abs(number) < 10_000:
        return f"{number:.0f}"
    if abs(number) < 1_000_000:
        return f"{number / 1000:.0f}k"
    return amount(number)


def rate(per_second: float | None) -> str:
    """How often a second: 312, 4.2, 0."""
    if per_second is None:
        return "-"
    if 0 < abs(per_second) < 9.95:
        return f"{per_second:.1f}"
    return f"{per_second:,.0f}" if abs(per_second) < 100_000 else short(per_second)


def change(per_second: float | None) -> str:
    """A rate with its sign."""
    if per_second is None:
        return "-"
    sign = "+" if per_second > 0 else ""
    return sign + rate(per_second)


def lag(seconds: float) -> str:
    """A delay: 110ms, 2.4s."""
    return f"{seconds * 1000:.0f}ms" if seconds < 1 else age(seconds)


def moment(at: datetime | None, zone: tzinfo | None = None) -> str:
    """The time of day, in the zone of whoever looks."""
    return "--:--:--" if at is None else f"{at.astimezone(zone):%H:%M:%S}"


def day_and_moment(at: datetime | None, zone: tzinfo | None = None) -> str:
    return "-" if at is None else f"{at.astimezone(zone):%Y-%m-%d %H:%M:%S}"
