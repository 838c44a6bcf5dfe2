"""Judges changes of the roster (S5, MI1) and of the counter of seqs (S7), and remembers who has
offered what (MI3); what else is in `cluster` may come and go."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from ...records.change import Delta, DeltaKind
from ...records.offer import Offer
from ...records.roster import Roster
from .invariant import Finding
from .roster import fault, is_step, judge_kinds, shown

_ROSTER, _COUNTER = "roster", "counter"


class ClusterChanges:
    """The roster and the counter as they were last seen."""

    def __init__(self) -> None:
        self._roster: dict[str, Any] = {}
        self._counter: int | None = None
        self._offers: dict[str, set[Offer]] = {}
        self._is_recalled = False
        """Whether the roster is one from before the first change: epochs may have been missed
        since."""

    def recall(self, document: Mapping[str, Any]) -> None:
        if document["_id"] == _ROSTER:
            self._roster, self._is_recalled = dict(document), True
            self._note_offers()
        elif document["_id"] == _COUNTER:
            self._counter = document.get("seq")

    def has_offered(self, node: str, key: str) -> bool:
        """Whether a node has ever offered a task key, as far as rosters were seen; True where none
        of them told what it offers."""
        offers = self._offers.get(node)
        return offers is None or any(offer.has(key) for offer in offers)

    def _note_offers(self) -> None:
        for kind in Roster.from_document(self._roster).kinds:
            for node in kind.of:
                self._offers.setdefault(node, set()).add(kind.offer)

    def see(self, change: Delta) -> Iterator[Finding]:
        if change.id == _ROSTER:
            yield from self._see_roster(change)
        elif change.id == _COUNTER:
            yield from self._see_counter(change)

    def _see_counter(self, change: Delta) -> Iterator[Finding]:
        if change.kind is DeltaKind.GONE:
            yield Finding("S7", f"the counter was removed at {self._counter}")
            return
        was, now = self._counter, change.fields.get("seq")
        if "seq" in change.removed or (change.is_whole and now is None):
            yield Finding("S7", f"the counter lost its number, {was}")
        if isinstance(now, int):
            if was is not None and now < was:
                yield Finding("S7", f"the counter fell from {was} to {now}")
            self._counter = now

    def _see_roster(self, change: Delta) -> Iterator[Finding]:
        if change.kind is DeltaKind.GONE:
            yield Finding("S5", f"the roster was removed at epoch {self._roster.get('epoch')}")
            return
        before, is_recalled = self._roster, self._is_recalled
        after = dict(change.fields) if change.is_whole else {**before, **change.fields}
        for name in change.removed:
            after[name] = None
        for name in ("members", "kinds"):
            if name not in change.fields and name in change.touched - set(change.removed):
                after.pop(name, None)  # changed in a part only: what they are now is not known
        self._roster, self._is_recalled = after, False
        self._note_offers()
        if (
            "epoch" in after
            and "members" in after
            and (wrong := fault(after["epoch"], after["members"]))
        ):
            yield Finding("S5", wrong)
            return
        if "epoch" in after and "members" in after:
            yield from judge_kinds(after)
        if "epoch" in before:
            yield from _judge_step(before, after, is_recalled)


def _judge_step(
    before: Mapping[str, Any], after: Mapping[str, Any], is_recalled: bool
) -> Iterator[Finding]:
    last, epoch = before["epoch"], after.get("epoch")
    if not isinstance(last, int) or not isinstance(epoch, int):
        return
    if epoch <= last or (epoch != last + 1 and not is_recalled):
        yield Finding("S5", f"epoch {last} was followed by {epoch}")
    elif epoch == last + 1 and "members" in after and isinstance(before.get("members"), list):
        members = tuple(before["members"]), tuple(after["members"])
        if not is_step(*members):
            fact = f"epoch {epoch} is neither a join to nor a leave from epoch {last}"
            yield Finding("S5", f"{fact}: {shown(members[0])}, then {shown(members[1])}")
