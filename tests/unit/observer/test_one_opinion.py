"""Doctor and the observer look at the same deployment: weight and sentence are the same."""

from __future__ import annotations

from dataclasses import dataclass
from datetime import timedelta
from typing import Any

import pytest

from tests.unit.observer.test_board import NOW, draw, node, snapshot
from tontine.diagnose.doctor import backlog, nodes
from tontine.diagnose.doctor.backlog import Unclaimable, Unnumbered
from tontine.diagnose.doctor.nodes import NodesSeen
from tontine.diagnose.doctor.verdict import Judgement, Verdict
from tontine.records.node import Sighting
from tontine.records.roster import Roster
from tontine.records.states import NodeState
from tontine.rules.complaint import Weight
from tontine_observer.records.alert import Alert

LEASE = 20.0
VERDICTS = {
    Weight.BAD: Verdict.FAIL,
    Weight.WARNING: Verdict.WARN,
    Weight.NOTICE: Verdict.WARN,
}


@dataclass(frozen=True, slots=True)
class Seen:
    """A node as both are told of it."""

    name: str
    beat_age: float = 1.0
    state: NodeState = NodeState.WORKING

    @property
    def document(self) -> dict[str, Any]:
        until = NOW + timedelta(seconds=LEASE - self.beat_age)
        return node(self.name, self.state.value, lease=LEASE, lease_until=until)

    @property
    def sighting(self) -> Sighting:
        return Sighting(
            f"{self.name}-1", self.name, state=self.state, beat_age=self.beat_age, lease=LEASE
        )


def alert_of(seen: tuple[Seen, ...], members: tuple[str, ...], waiting: int) -> Alert:
    taken = snapshot(
        *(one.document for one in seen), members=members, counts={"queued": waiting, "working": 0}
    )
    return draw(taken).alerts[0]


def look(seen: tuple[Seen, ...], members: tuple[str, ...], waiting: int) -> NodesSeen:
    sightings = tuple(one.sighting for one in seen)
    raw = Unnumbered((), None, NOW)
    return NodesSeen(NOW, sightings, Roster(1, members), {}, raw, waiting)


def agree(alert: Alert, judged: Judgement) -> None:
    assert (VERDICTS[alert.weight], alert.text) == (judged.verdict, judged.sentence)
    assert alert.advice == judged.advice


DEAD, PAUSED, STARTING = NodeState.DEAD, NodeState.PAUSED, NodeState.INITIALIZING
ADA = Seen("ada")


@pytest.mark.parametrize(
    ("seen", "members", "waiting", "judge", "weight"),
    [
        ((), (), 0, nodes.judge_nodes, Weight.NOTICE),
        ((), (), 3, nodes.judge_nodes, Weight.BAD),
        ((Seen("ada", 90.0, DEAD),), (), 0, nodes.judge_nodes, Weight.WARNING),
        ((Seen("ada", 90.0, DEAD),), (), 3, nodes.judge_nodes, Weight.BAD),
        ((Seen("ada", 30.0),), ("ada-1",), 0, nodes.judge_nodes, Weight.BAD),
        ((Seen("ada", 30.0),), ("ada-1",), 3, nodes.judge_nodes, Weight.BAD),
        ((Seen("ada", 12.0),), ("ada-1",), 3, nodes.judge_nodes, Weight.BAD),
        ((Seen("ada", 1.0, PAUSED),), (), 3, nodes.judge_nodes, Weight.BAD),
        ((Seen("ada", 1.0, STARTING),), (), 3, nodes.judge_nodes, Weight.NOTICE),
        ((ADA, Seen("bea", 12.0)), ("ada-1", "bea-1"), 0, nodes.judge_beats, Weight.WARNING),
        ((ADA, Seen("bea", 90.0)), ("ada-1", "bea-1"), 0, nodes.judge_beats, Weight.BAD),
        ((ADA, Seen("bea", 90.0, DEAD)), ("ada-1", "bea-1"), 0, nodes.judge_roster, Weight.BAD),
    ],
)
def test_nodes_are_judged_alike(
    seen: tuple[Seen, ...], members: tuple[str, ...], waiting: int, judge: Any, weight: Weight
) -> None:
    alert, seen_now = alert_of(seen, members, waiting), look(seen, members, waiting)
    assert alert.weight is weight
    agree(alert, judge([seen_now, seen_now]))


@pytest.mark.parametrize(
    "waiting", [{"shop.nop": 3}, {"shop.nop": 3, "a.b": 1}, {f"a.{one}": 1 for one in range(9)}]
)
def test_tasks_that_nobody_has_are_judged_alike(waiting: dict[str, int]) -> None:
    modules = [{"name": "shop", "version": "1", "tasks": ["shop.noop"]}]
    queued = sum(waiting.values())
    taken = snapshot(node("ada", modules=modules), unknown=waiting, counts={"queued": queued})
    agree(
        draw(taken).alerts[0],
        backlog.judge_tasks(Unclaimable(waiting, frozenset({"shop.noop"}), 10_000)),
    )
