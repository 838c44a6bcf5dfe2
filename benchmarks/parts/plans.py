"""Chains, and maps with a step after all items: Tontine's plans against Celery's canvas, and
against Tontine's own plain jobs."""

from __future__ import annotations

from statistics import median

from tontine.errors import TontineError

from ..canvas import Canvas
from ..contender import TONTINE
from ..planned import Plans
from ..progress import say
from ..scene import Scene
from ..workflows import Workflows, chain, chord

NEXT = "end of one step to start of the next, p50"
START = "submit to start of a plain job, p50"
ITEMS, PLAIN = "items of a map", "the same as plain jobs"


def chain_of(links: int) -> str:
    return f"chain of {links:,}"


def chord_of(items: int) -> str:
    return f"map of {items:,} with fan-in"


def run(scene: Scene) -> None:
    plan, ours = scene.plan, Plans(scene.uri)
    contenders: list[Workflows] = [ours, *Canvas.usual(scene.rivals)]
    for number in range(plan.rounds):
        turn = number % len(contenders)
        for contender in [*contenders[turn:], *contenders[:turn]]:
            where = f"plans, round {number + 1} of {plan.rounds}, {contender.name}"
            try:
                _once(scene, contender, where)
            except TontineError as error:
                say(f"{where}: {error}")
                scene.record.leave_out(f"{where}: {error}")
        _beside_plain_jobs(scene, ours, f"plans, round {number + 1} of {plan.rounds}")


def _once(scene: Scene, contender: Workflows, where: str) -> None:
    plan, record = scene.plan, scene.record
    chained = chain(contender, plan.links)
    gap = median(chained.gaps)
    record.add("plans", chain_of(plan.links), contender.name, chained.rate, "steps/s")
    record.add("plans", NEXT, contender.name, gap, "ms")
    say(f"{where}: {chained.rate:,.0f} steps/s in a chain, {gap:.1f} ms from one to the next")
    rate = chord(contender, plan.items)
    record.add("plans", chord_of(plan.items), contender.name, rate, "items/s")
    say(f"{where}: {rate:,.0f} items/s from submit to what comes after all")


def _beside_plain_jobs(scene: Scene, ours: Plans, where: str) -> None:
    plan, record = scene.plan, scene.record
    start = median(scene.tontine.latency(plan.probes, plan.warm_up))
    record.add("plans", START, TONTINE, start, "ms")
    plain, items = ours.plain(plan.items), ours.items(plan.items)
    record.add("plans", PLAIN, TONTINE, plain, "jobs/s")
    record.add("plans", ITEMS, TONTINE, items, "jobs/s")
    say(f"{where}: {items:,.0f} items/s, {plain:,.0f} plain jobs/s; {start:.1f} ms to a start")
