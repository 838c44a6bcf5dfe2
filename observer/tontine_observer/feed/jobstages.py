"""The stages of a job: those that are done, as the job keeps them, and those to come, as nodes
announce them. Pure."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence

from tontine.diagnose.why import Evidence
from tontine.diagnose.why.stages import stage_names
from tontine.records.stage import StageDone

from ..records.clean import Cleaner
from ..records.job import JobRow, StageRow


def told_stages(
    done: Sequence[StageDone],
    row: JobRow,
    found: Evidence,
    names: Mapping[str, str],
    clean: Cleaner,
) -> Iterator[StageRow]:
    """`names` are those of nodes, by their ids."""
    for stage in done:
        yield StageRow(
            clean.title(stage.name),
            "done",
            stage.attempt,
            stage.ms,
            stage.bytes,
            stage.parts,
            clean.name(stage.version),
            clean.name(names.get(stage.node, stage.node)),
        )
    for place, name in enumerate(to_come(done, stage_names(found, found.task))):
        # Of the last stage a job keeps nothing but its result.
        is_here = place == 0 or row.state == "done"
        yield StageRow(clean.title(name), row.state if is_here else "")


def to_come(done: Sequence[StageDone], names: Sequence[str]) -> Sequence[str]:
    """The stages after those that are done; none where the code has others by now."""
    is_same = [stage.name for stage in done] == list(names[: len(done)])
    return names[len(done) :] if is_same else ()
