"""How soon others go on with what a killed node ran, in leases: `benchmarks.inherit`, as a part."""

from __future__ import annotations

from ..contender import TONTINE
from ..inherit import measure
from ..scene import Scene


def run(scene: Scene) -> None:
    plan = scene.plan
    killed, _ = measure(plan.kills, 0, plan.lease)
    for took in killed:
        scene.record.add(
            "recovery", "kill -9 to the job's start elsewhere", TONTINE, took / plan.lease, "leases"
        )
