"""Why nobody at all can claim a job now."""

from __future__ import annotations

from collections.abc import Collection

from ...legible import count
from ...lookalike import near_tasks
from ...records.job import nobodys_task
from ...records.states import Desired, NodeState
from ...records.task_key import module_of, name_of, range_of
from ...rules.health import is_silent, known_tasks
from .evidence import Evidence, Finding
from .unready import not_ready
from .words import names, these

START = "start a node: `tontine node MODULE`"
_DOCTOR = "`tontine doctor` checks the deployment"


def find_obstacle(e: Evidence) -> Finding | None:
    """The one reason why no node can claim the job; None when one can."""
    return nobody(e) or no_task(e) or _nobody_able(e)


def nobody(e: Evidence) -> Finding | None:
    """No node that could claim anything."""
    if not e.live:
        return Finding("no-node", "No node is alive.", START)
    if not e.beating:
        oldest = min(node.beat_age or 0.0 for node in e.live)
        return Finding(
            "all-silent",
            f"No node beats: the last heartbeat, of {names(e.live)}, was {oldest:.0f} s ago, and "
            "nobody else is there "
            "to inherit.",
            START,
        )
    if e.working:
        return None
    paused = [node for node in e.beating if node.desired is Desired.PAUSED]
    if paused:
        return Finding(
            "all-paused",
            f"No node claims anything: {these(paused, 'is', 'are')} paused.",
            f"`tontine resume {paused[0].name if len(paused) == 1 else '--all'}`",
        )
    starting = [node for node in e.beating if node.state is NodeState.INITIALIZING]
    if starting:
        return Finding("starting", f"{these(starting, 'is', 'are')} still loading modules.")
    return Finding(
        "roster-empty",
        f"The roster is empty: {these(e.beating, 'beats but has', 'beat but have')} not joined.",
        _DOCTOR,
    )


def no_task(e: Evidence) -> Finding | None:
    """No live node has the task."""
    known = known_tasks(e.nodes)
    if name_of(e.task) in known:
        return _no_version(e)
    if finding := not_ready(e):
        return finding
    others = f"{these(e.live, 'has', 'have')} {count(len(known), 'other task')}"
    return Finding(
        "unknown-task",
        f"No live node has the task {e.task}: {others}.",
        _name_another(e.task, known),
    )


def _no_version(e: Evidence) -> Finding | None:
    """Live nodes have the task, and none of them in a version inside the job's range."""
    wanted = range_of(e.task)
    if wanted is None or any(node.serves(e.task) for node in e.live):
        return None
    if finding := not_ready(e):
        return finding
    module = module_of(e.task)
    having: dict[str, list[str]] = {}
    for node in e.live:
        for name, version in node.modules:
            if name == module:
                having.setdefault(version, []).append(node.name)
    there = " and ".join(f"{version} on {', '.join(on)}" for version, on in sorted(having.items()))
    return Finding(
        "no-version",
        f"no live node has {module} in {wanted} (there are {there})",
        f"start a node with {module} in such a version, or `tontine cancel` it and submit another",
    )


def _name_another(task: str, known: Collection[str]) -> str:
    near = near_tasks(name_of(task), known)
    meant = f"is {' or '.join(near)} meant? " if near else ""
    cancel = "`tontine cancel` it and submit the right one"
    if reason := nobodys_task(task):
        return f"{reason}. {meant}{cancel}"
    return f"{meant}start a node with its module, or {cancel}"


def _nobody_able(e: Evidence) -> Finding | None:
    """Some live node has the task, but none that claims."""
    if any(node.id in e.roster.members_of(e.task) for node in e.able):
        return None
    if members := [node for node in e.able if node.id in e.roster]:
        return not_ready(e) or Finding(
            "not-offered",
            f"{these(members, 'has', 'have')} the task {e.task}, and the roster does not say so: "
            "either it will within seconds, or that is a node of an earlier release, which claims "
            "by number alone.",
        )
    having = [node for node in e.live if node.serves(e.task)]
    paused = [node for node in having if node.desired is Desired.PAUSED]
    if paused:
        return Finding(
            "able-paused",
            (
                f"Only {these(having, 'has', 'have')} the task {e.task}, and "
                f"{these(paused, 'is', 'are')} paused."
            ),
            f"`tontine resume {paused[0].name}`",
        )
    away = ", ".join(
        f"{node.name} is {'silent' if is_silent(node) else node.state.value}" for node in having
    )
    return Finding("able-away", f"No member that beats has the task {e.task}: {away}.", START)
