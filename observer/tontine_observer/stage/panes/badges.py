"""The badges: how true and how fresh what is shown is, and whether anything may be asked. Pure."""

from __future__ import annotations

from ...draw.line import Line
from ...draw.words import age, amount, lag, moment
from ...records.link import ELECTION, Link, Mode
from .scene import Scene


def badges(scene: Scene, room: int = 2) -> Line:
    """From what the user chose to what the data is like; the last one says whether requests can be
    made.

    With room 2 all is said in full, with 1 only what the user chose, with 0 everything in one word.
    """
    line: Line = []
    is_short = room < 2
    for name, text in [*_chosen(scene, room), _link(scene, is_short)]:
        line += [(f" {text} ", f"badge.{name}"), (" ", "text/bar")]
    if scene.fps < 10 and not is_short:
        line += [(f"{scene.fps:.0f} fps ", "muted/bar")]
    if scene.pending:
        line += [(f" {scene.pending} asked ", "badge.sampled"), (" ", "text/bar")]
    is_writable = not scene.picture.link.read_only
    line += [(" RW " if is_writable else " RO ", "badge.rw/bar" if is_writable else "badge.ro")]
    return line


def _chosen(scene: Scene, room: int) -> list[tuple[str, str]]:
    """What the user did to the picture: frozen it, or gone back in time."""
    at = moment(scene.picture.at, scene.zone)
    if scene.view.at is not None:
        back = "" if scene.now is None else f" -{age((scene.now - scene.view.at).total_seconds())}"
        return [("past", f"PAST {at}{back}" if room else "PAST")]
    if not scene.view.is_frozen:
        return []
    if not room:
        return [("frozen", "FROZEN")]
    behind = ""
    if scene.behind:
        behind = f", {amount(scene.behind)} behind" if room == 2 else f" +{amount(scene.behind)}"
    return [("frozen", f"FROZEN {at}{behind}")]


def _link(scene: Scene, is_short: bool) -> tuple[str, str]:
    link = scene.picture.link
    match link.mode:
        case Mode.LIVE:
            delay = "" if link.lag is None or is_short else f" {lag(link.lag)}"
            return "live", f"LIVE{delay}"
        case Mode.STALE:
            name = "ELECTION" if link.reason == ELECTION else "STALE"
            retry = "" if link.retry_in is None or is_short else f", {next_try(link)}"
            return "stale", f"{name} {age(link.age)}{retry}"
        case Mode.POLL:
            return "poll", "POLL" if is_short else "POLL 2 s"
        case Mode.SAMPLED:
            return (
                "sampled",
                "SAMPLED" if is_short or not link.rate else f"SAMPLED {amount(round(link.rate))}/s",
            )
        case Mode.REPLAY:
            return "replay", "REPLAY"
    return (
        "wait",
        "CONNECTING" if not link.retry_in or is_short else f"CONNECTING, {next_try(link)}",
    )


def next_try(link: Link) -> str:
    """When the store is asked again; it may take a while to answer, or not to."""
    return f"retry in {link.retry_in:.0f} s" if link.retry_in and link.retry_in >= 0.5 else "trying"
