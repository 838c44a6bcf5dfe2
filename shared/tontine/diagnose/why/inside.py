"""What is wrong inside a node, as far as a job suffers from it."""

from __future__ import annotations

from datetime import datetime

from ...records.node import Sighting

_CLAIMS = ("claiming", "workers", "settling")
"""What a node needs to claim: without an end of what it has, and without workers, it has no room.
"""


def cannot_claim(node: Sighting, now: datetime) -> str:
    """Why a node claims little or nothing, as the predicate of a sentence; empty when nothing is
    known to be wrong."""
    return _told(node, now, *_CLAIMS) or _without_workers(node)


def cannot_end(node: Sighting, now: datetime, *, has_started: bool) -> str:
    """Why a job in a node's hands does not end: what has not started needs a worker, too."""
    if has_started:
        return _told(node, now, "settling")
    return _told(node, now, "settling", "workers") or _without_workers(node)


def cannot_number(node: Sighting, now: datetime) -> str:
    """Why a node gives no numbers."""
    return _told(node, now, "numbering")


def look_into(node: Sighting) -> str:
    return f"`tontine doctor` may tell what to put right; the log of node {node.name} has more"


def _told(node: Sighting, now: datetime, *what: str) -> str:
    troubles = sorted(node.troubles_with(*what), key=lambda one: what.index(one.what))
    return "; and it ".join(one.told(now) for one in troubles)


def _without_workers(node: Sighting) -> str:
    return "" if node.workers else node.lacks_workers
