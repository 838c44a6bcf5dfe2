"""What the tasks of `etl` noted, against what was stored of it: stages that are done do not run
again, and counters hold what accepted attempts counted."""

from __future__ import annotations

import json
from collections import defaultdict
from collections.abc import Iterable, Iterator, Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Any

from tontine.records.counted import Stat, stats_in
from tontine.records.states import JobState
from tontine.store.stats import sum_counts

if TYPE_CHECKING:
    from tests.chaos.run import Scene

COUNTING = "etl.tally"

Documents = Mapping[str, Mapping[str, Any]]


def _notes(record: Path) -> Iterator[Mapping[str, Any]]:
    """Notes that were cut short by the death of their writer are passed over."""
    for line in record.read_text().splitlines():
        try:
            yield json.loads(line[line.rfind("{") :])
        except ValueError:
            continue


def judge_stages(scene: Scene, documents: Documents) -> Iterator[str]:
    """MI5: a stage that is stored as done did not run in a later attempt."""
    ran: dict[tuple[Any, str], int] = defaultdict(int)
    for note in _notes(scene.crew.stages):
        stage_of = note["seq"], note["stage"]
        ran[stage_of] = max(ran[stage_of], note["attempt"])
    for key, document in documents.items():
        seq = document.get("seq")
        if key in scene.vandal.jobs or seq in scene.load.retried:
            continue
        for stage in document.get("stages") or ():
            name, done_in = stage["name"], stage["attempt"]
            if ran.get((seq, name), 0) > done_in:
                again = ran[seq, name]
                yield f"MI5: job {seq}: stage {name}, done in attempt {done_in}, ran in {again}"


def judge_counts(scene: Scene, documents: Documents) -> Iterator[str]:
    """MI6: what is stored is what the accepted attempt noted, and what nodes tell is no more."""
    noted = {(note["seq"], note["attempt"]): note["rows"] for note in _notes(scene.crew.counts)}
    total = 0
    for key, document in documents.items():
        if document.get("task") != COUNTING or document.get("state") != JobState.DONE:
            continue
        stored = (document.get("counts") or {}).get("rows", 0)
        total += stored
        seq, attempt = document["seq"], document["attempt"]
        if key not in scene.vandal.jobs and stored != noted.get((seq, attempt)):
            said = noted.get((seq, attempt))
            yield f"MI6: job {seq}: {stored} counted in attempt {attempt}, which noted {said}"
    exact = _sum(scene.store.run(sum_counts(COUNTING)))
    if exact != total:
        yield f"MI6: `stats --exact` says {exact}, the jobs have {total}"
    if (told := _told(scene)) > exact:
        yield f"MI6: nodes tell of {told}, which is more than {exact}"


def figures(scene: Scene) -> dict[str, int]:
    return {
        "stages run": sum(1 for _ in _notes(scene.crew.stages)),
        "counted, by the jobs": _sum(scene.store.run(sum_counts(COUNTING))),
        "counted, by the nodes": _told(scene),
    }


def _told(scene: Scene) -> int:
    """What nodes say of themselves; not those whose records somebody scribbled on."""
    records = scene.store.database.nodes.find()
    sound = [one for one in records if repr(one["_id"]) not in scene.vandal.nodes]
    return _sum(stat for record in sound for stat in stats_in(record) if stat.task == COUNTING)


def _sum(stats: Iterable[Stat]) -> int:
    return sum(stat.value for stat in stats if isinstance(stat.value, int))
