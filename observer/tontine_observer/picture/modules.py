"""Versions of modules across nodes, and ranges of versions that jobs wait for. Pure."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Mapping, Sequence

from tontine.legible import count
from tontine.records.task_key import fits, has_range, module_of, name_of, range_of

from ..records.ledger import VersionRow, Wanted
from ..records.loaded import ModuleRow
from ..records.node import NodeRow

WORST_FIRST = ("broken", "refused", "loading", "draining", "serving")
NOBODY, WANTED = "-", "wanted"

Having = Sequence[tuple[str, ModuleRow]]
"""Names of nodes, and the module as each has it."""


def version_rows(nodes: Iterable[NodeRow], wanted: Mapping[str, Wanted]) -> tuple[VersionRow, ...]:
    """What live nodes have, by module and version; after each module, which of its versions jobs
    wait for and no member offers."""
    living = [node for node in nodes if node.state != "dead"]
    having: dict[tuple[str, str], list[tuple[str, ModuleRow]]] = {}
    for node in living:
        for module in node.modules:
            having.setdefault((module.name, module.version), []).append((node.name, module))
    found = [_version(*version, those) for version, those in having.items()]
    found += [
        _wanted(key, those, living)
        for key, those in wanted.items()
        if has_range(key) and not is_offered(key, living)
    ]
    return tuple(sorted(found, key=lambda row: (row.module, bool(row.wanted), row.version)))


def is_offered(key: str, nodes: Iterable[NodeRow]) -> bool:
    """Whether a member has the task of a key, in a version inside its range."""
    name = name_of(key)
    return any(
        module.is_offered and name in module.tasks and fits(key, module.version)
        for node in nodes
        if node.rank is not None and node.state != "dead"
        for module in node.modules
    )


def _version(module: str, version: str, having: Having) -> VersionRow:
    states = Counter(one.state for _, one in having)
    worst = min(states, key=_badness)
    digests = sorted({one.digest for _, one in having if one.digest})
    notes = [_differing(digests, having)] if len(digests) > 1 else []
    notes += [f"{node}: {one.error}" for node, one in having if one.error]
    return VersionRow(
        module=module,
        version=version or NOBODY,
        state=worst,
        nodes=tuple(sorted({node for node, _ in having})),
        others=tuple(f"{states[one]} {one}" for one in states if one != worst),
        tasks=tuple(sorted({task for _, one in having for task in one.tasks})),
        digests=tuple(digests),
        note="; ".join(notes),
    )


def _badness(state: str) -> int:
    """A state that nobody knows is the worst."""
    return WORST_FIRST.index(state) if state in WORST_FIRST else -1


def _differing(digests: Sequence[str], having: Having) -> str:
    """Who has which files of the same version."""
    by_digest = [
        f"{digest[:6]} {', '.join(sorted({node for node, one in having if one.digest == digest}))}"
        for digest in digests
    ]
    return f"different files: {'; '.join(by_digest)}"


def _wanted(key: str, wanted: Wanted, nodes: Iterable[NodeRow]) -> VersionRow:
    module, task = module_of(key), name_of(key)
    there = {
        one.version
        for node in nodes
        for one in node.modules
        if one.name == module and one.is_offered and task in one.tasks
    }
    jobs = "jobs wait" if wanted.is_partial else _waiting(wanted.jobs)
    who = f"there is {', '.join(sorted(there))}" if there else "no node has the task"
    return VersionRow(
        module=module,
        version=range_of(key) or NOBODY,
        state=WANTED,
        tasks=(task,),
        note=f"{jobs} for {task}; {who}",
        wanted=wanted,
    )


def _waiting(jobs: int) -> str:
    return f"{count(jobs, 'job')} {'waits' if jobs == 1 else 'wait'}"
