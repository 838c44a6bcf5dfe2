"""How fast a backlog of no-ops is worked off by two worker processes, with its results stored."""

from __future__ import annotations

from tontine.errors import TontineError

from ..contender import Drainer
from ..progress import say
from ..scene import Scene


def measure_of(size: int) -> str:
    return f"{size:,} jobs"


def run(scene: Scene) -> None:
    plan = scene.plan
    for size in plan.sizes:
        runners: list[Drainer] = [scene.tontine, scene.bare, *scene.rivals]
        runners = [one for one in runners if size <= plan.everyone_up_to or not one.is_slow]
        if (
            size > 10 * plan.everyone_up_to
        ):  # what is asked there is only whether we stay as fast as we were
            runners = runners[:2]
        for number in range(plan.rounds):
            # Another one begins each time, so that nobody always follows the same one.
            turn = number % len(runners)
            for runner in [*runners[turn:], *runners[:turn]]:
                _once(scene, runner, size, number)


def _once(scene: Scene, runner: Drainer, size: int, number: int) -> None:
    where = f"drain {size:,}, round {number + 1} of {scene.plan.rounds}, {runner.name}"
    try:
        found = runner.drain(size)
    except TontineError as error:
        say(f"{where}: {error}")
        scene.record.leave_out(f"{where}: {error}")
        return
    say(f"{where}: {found.drained:,.0f} jobs/s, filled with {found.filled:,.0f} jobs/s")
    scene.record.add("drain", measure_of(size), runner.name, found.drained, "jobs/s")
    if runner.name != "bare loop":
        scene.record.add("fill", measure_of(size), runner.name, found.filled, "jobs/s")
    if found.calls is not None:
        scene.record.add(
            "drain", f"store calls per job, {measure_of(size)}", runner.name, found.calls, "calls"
        )
