"""Judges the roster and the record of its epochs."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from typing import Any

from ...records.job import is_text
from ...records.offer import ModuleOffer
from ...records.roster import Roster
from .invariant import Finding

Members = tuple[str, ...]


def fault(epoch: Any, members: Any) -> str:
    """Why these cannot be a roster's; empty when they can."""
    if not isinstance(epoch, int) or isinstance(epoch, bool) or epoch < 0:
        return f"the epoch is {epoch!r}"
    if not isinstance(members, list) or not all(is_text(member) for member in members):
        return f"the members of epoch {epoch} are no list of node ids"
    twice = sorted({member for member in members if members.count(member) > 1})
    return f"twice in epoch {epoch}: {', '.join(twice)}" if twice else ""


def kinds_fault(kinds: Any, members: Any) -> str:
    """Why it is not certain what each member offers; empty when it is. Ids that are no members' are
    ignored by all, and a member in no kind is old software."""
    if kinds is None:
        return ""
    if not isinstance(kinds, list):
        return "its kinds are no list"
    placed: list[Any] = []
    for number, kind in enumerate(kinds):
        if not isinstance(kind, Mapping):
            return f"kind {number} is none"
        of, modules = kind.get("of"), kind.get("modules")
        if not isinstance(of, list) or not all(is_text(one) for one in of):
            return f"kind {number} is of no list of node ids"
        if not isinstance(modules, list) or None in map(_module, modules):
            return f"kind {number} has modules that are none"
        placed += [one for one in of if one in members]
    twice = sorted({one for one in placed if placed.count(one) > 1})
    return f"two places for what they offer: {', '.join(twice)}" if twice else ""


def _module(document: Any) -> ModuleOffer | None:
    return ModuleOffer.from_document(document) if isinstance(document, Mapping) else None


def roster_of(document: Mapping[str, Any] | None) -> Roster | None:
    """The roster, if the document is one."""
    if document is None:
        return Roster()
    wrong = fault(document.get("epoch"), document.get("members"))
    return None if wrong else Roster.from_document(document)


def judge_roster(document: Mapping[str, Any] | None) -> Iterator[Finding]:
    if document is not None and (wrong := fault(document.get("epoch"), document.get("members"))):
        yield Finding("S5", wrong)
    elif document is not None:
        yield from judge_kinds(document)


def judge_kinds(document: Mapping[str, Any]) -> Iterator[Finding]:
    if wrong := kinds_fault(document.get("kinds"), document["members"]):
        yield Finding("MI1", f"epoch {document['epoch']}: {wrong}")


def judge_epochs(events: Sequence[Mapping[str, Any]], roster: Roster | None) -> Iterator[Finding]:
    """The recorded epochs against each other and the roster, which must have been read after them.

    Not every epoch is recorded, nor in order, since a node may be slow to note what it did; but
    whoever wins an epoch notes it once.
    """
    epochs: dict[int, Members] = {}
    for event in events:
        epoch, members = event.get("epoch"), event.get("members")
        if wrong := fault(epoch, members):
            yield Finding("S5", f"recorded: {wrong}")
        elif epoch in epochs:
            yield Finding("S5", f"epoch {epoch} was recorded twice")
        else:
            epochs[int(epoch or 0)] = tuple(members or ())
    if roster is not None:
        yield from _judge_current(epochs, roster)
    for epoch, members in sorted(epochs.items()):
        before = epochs.get(epoch - 1)
        if before is not None and not is_step(before, members):
            fact = f"epoch {epoch} is neither a join to nor a leave from epoch {epoch - 1}"
            yield Finding("S5", f"{fact}: {shown(before)}, then {shown(members)}")


def _judge_current(epochs: dict[int, Members], roster: Roster) -> Iterator[Finding]:
    newest = max(epochs, default=0)
    if newest > roster.epoch:
        yield Finding(
            "S5", f"the roster is at epoch {roster.epoch}, but epoch {newest} was recorded"
        )
    recorded = epochs.setdefault(roster.epoch, roster.members)
    if recorded != roster.members:
        yield Finding(
            "S5", f"epoch {roster.epoch} is {shown(roster.members)}, recorded as {shown(recorded)}"
        )


def is_step(before: Members, after: Members) -> bool:
    """Whether one node joined, some left, or all stayed and one offers something else (MO1)."""
    if len(after) > len(before):
        return after[:-1] == before
    stayed = set(after)
    return after == tuple(member for member in before if member in stayed)


def shown(members: Members) -> str:
    """The first of them, for a message."""
    return f"[{', '.join(members[:10])}{', ...' if len(members) > 10 else ''}]"
