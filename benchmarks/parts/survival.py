"""What becomes of a chain and of a chord when all their workers are killed with -9 in the middle
and others start at once."""

from __future__ import annotations

from ..canvas import Canvas
from ..planned import Plans
from ..progress import say
from ..scene import Scene
from ..workflows import Survived, Workflows, lose
from .plans import chain_of, chord_of


def run(scene: Scene) -> None:
    plan = scene.plan
    contenders: list[Workflows] = [
        Plans(scene.uri),
        *Canvas.usual(scene.rivals),
        *Canvas.hasty(scene.rivals),
    ]
    for one in contenders:
        links, items, seconds = plan.lost_links, plan.lost_items, plan.lost_seconds
        _note(scene, one.name, chain_of(links), lose(one, "chain", links, seconds, plan.watch))
        _note(scene, one.name, chord_of(items), lose(one, "chord", items, seconds, plan.watch))


def _note(scene: Scene, who: str, what: str, survived: Survived) -> None:
    record, watch = scene.record, scene.plan.watch
    if survived.ended_after is None:
        record.leave_out(f"{what}, {who}: had not ended {watch:g} s after its workers were killed")
        say(f"survival, {who}: {what}: not ended after {watch:g} s, {survived.again:+} runs")
        return
    record.add("survival", f"{what}: kill to end", who, survived.ended_after, "s")
    record.add("survival", f"{what}: ran again", who, survived.again, "jobs")
    say(
        f"survival, {who}: {what}: ended after {survived.ended_after:.1f} s, "
        f"{survived.again} ran again"
    )
