"""Fills in what was before the observer came: from stored events and from the nodes' samples.
Pure."""

from __future__ import annotations

from collections.abc import Iterable, Iterator, Mapping, Sequence
from typing import Any, Protocol

from ..records.clean import Cleaner
from ..records.pane import Pane
from ..records.timeline import Epoch
from ..records.values import timestamp, whole
from .curves import DONE, FAILED, INCOMING, RETRIED, Curves
from .known import Known
from .nodes import Lives, Move

BIN = 10.0


class Sampled(Protocol):
    """What a sample tells of a node."""

    @property
    def node(self) -> str: ...
    @property
    def name(self) -> str: ...
    @property
    def state(self) -> str: ...
    @property
    def done(self) -> int: ...
    @property
    def failed(self) -> int: ...
    @property
    def retried(self) -> int: ...
    @property
    def seq(self) -> int: ...


Sample = tuple[float, Sampled]
"""When, and what."""
Event = tuple[float, Mapping[str, Any]]
"""When, and its document."""


def remember(known: Known, events: Sequence[Mapping[str, Any]]) -> None:
    """Put what stored events tell of nodes and rosters before what was seen."""
    timed = [(at, event) for event in events if (at := timestamp(event.get("at"))) is not None]
    if not timed:
        return
    clean = known.clean
    known.lives.remember(_moves(timed, clean))
    rosters = list(_rosters(timed, clean))
    known.lives.remember_rosters(rosters)
    known.tally.curves.sampled.add(timed[0][0], known.heard_at)


def _moves(events: Iterable[Event], clean: Cleaner) -> Iterator[Move]:
    for at, event in events:
        if event.get("kind") == "node" and event.get("to"):
            node = event.get("node")
            name = event.get("name") or node
            yield at, clean.name(node), clean.name(name), clean.name(event["to"])


def _rosters(events: Iterable[Event], clean: Cleaner) -> Iterator[Epoch]:
    for at, event in events:
        if event.get("kind") == "roster" and isinstance(event.get("members"), list):
            yield Epoch(at, whole(event.get("epoch")), tuple(map(clean.name, event["members"])))


def tell_events(known: Known, events: Sequence[Mapping[str, Any]]) -> None:
    """A line, or a part of a story, for each event that is none yet."""
    names = known.lives.names()
    epochs = {0: Epoch(0.0, 0, ()), **{one.epoch: one for one in known.lives.epochs}}
    for event in events:
        epoch = whole(event.get("epoch")) if event.get("kind") == "roster" else -1
        if epoch in epochs and epoch - 1 in epochs:
            known.log.roster(epochs[epoch], epochs[epoch - 1], names)
        else:
            known.log.event(event, names)
    known.touch(Pane.CHANGES, Pane.TIME)


def fill_curves(curves: Curves, samples: Sequence[Sample], until: float, queued: int) -> None:
    """What was settled and given out before `until`, and how many jobs must have been waiting
    then."""
    past = [sample for sample in samples if sample[0] < until]
    if len(past) < 2:
        return
    flows: dict[int, dict[str, float]] = {}
    last: dict[str, Sample] = {}
    for at, one in past:
        before = last.get(one.node)
        last[one.node] = (at, one)
        if before is not None and one.done >= before[1].done:
            numbers = {DONE: one.done, FAILED: one.failed, RETRIED: one.retried}
            earlier = {DONE: before[1].done, FAILED: before[1].failed, RETRIED: before[1].retried}
            _spread(flows, before[0], at, {kind: numbers[kind] - earlier[kind] for kind in numbers})
    _given_out(flows, past)
    _write(curves, flows, queued)
    curves.sampled.add(past[0][0], until)


def _given_out(flows: dict[int, dict[str, float]], past: Iterable[Sample]) -> None:
    """Numbers that were given out: the highest that any node knew of grows with them."""
    known: tuple[float, int] | None = None
    for at, one in past:
        if one.seq <= 0:
            continue
        if known is None:
            known = (at, one.seq)
        elif one.seq > known[1]:
            _spread(flows, known[0], at, {INCOMING: one.seq - known[1]})
            known = (at, one.seq)


def _spread(
    flows: dict[int, dict[str, float]], begin: float, end: float, amounts: dict[str, int]
) -> None:
    first, last = int(begin // BIN), int(end // BIN)
    bins = range(first + 1, last + 1) if last > first else range(first, first + 1)
    for kind, amount in amounts.items():
        if amount > 0:
            for place in bins:
                flow = flows.setdefault(place, {})
                flow[kind] = flow.get(kind, 0.0) + amount / len(bins)


def _write(curves: Curves, flows: dict[int, dict[str, float]], queued: int) -> None:
    """From the newest to the oldest: how many waited follows from what came and went since."""
    depth = float(queued)
    for place in sorted(flows, reverse=True):
        for second in range(int(BIN)):
            at = place * BIN + second
            curves.level(at, {"queued": max(0, round(depth))})
            for kind, amount in flows[place].items():
                curves.add(at, kind, amount / BIN)
        depth += (
            flows[place].get(DONE, 0.0)
            + flows[place].get(FAILED, 0.0)
            - flows[place].get(INCOMING, 0.0)
        )


def fill_lives(lives: Lives, samples: Iterable[Sample], until: float, clean: Cleaner) -> None:
    """The states that nodes said they were in before `until`: that they found work or ran out of it
    is not recorded."""
    told = (
        (at, clean.name(one.node), clean.name(one.name), clean.name(one.state))
        for at, one in samples
    )
    lives.fill_in(told, until)
