"""Judges changes of named states: a version only grows, also over a removal (MI7)."""

from __future__ import annotations

from collections.abc import Iterator

from ...records.change import Delta, DeltaKind
from ...records.job import is_whole
from .invariant import Finding


class StateChanges:
    """The version of each state, from the first change that is seen of it."""

    def __init__(self) -> None:
        self._versions: dict[str, int] = {}

    def see(self, change: Delta) -> Iterator[Finding]:
        key = str(change.id)
        was = self._versions.get(key)
        if change.kind is DeltaKind.GONE:
            self._versions.pop(key, None)
            yield Finding("MI7", f"the state {key} was deleted with its version, {_shown(was)}")
        elif change.is_whole or "version" in change.touched:
            yield from self._judge(key, was, change)
        elif change.touched:
            yield Finding("MI7", f"the state {key} changed without a new version: {_shown(was)}")

    def _judge(self, key: str, was: int | None, change: Delta) -> Iterator[Finding]:
        now = change.fields.get("version")
        if not is_whole(now):
            self._versions.pop(key, None)
            yield Finding("MI7", f"the version of the state {key} is {now!r}, after {_shown(was)}")
            return
        self._versions[key] = int(now)
        if was is not None and now <= was:
            yield Finding("MI7", f"the state {key} went from version {was} to {int(now)}")


def _shown(version: int | None) -> str:
    return "not known" if version is None else str(version)
