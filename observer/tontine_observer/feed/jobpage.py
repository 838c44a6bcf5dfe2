"""One job's own page: document, why it is where it is, attempts, errors, progress and lines. Clean
and redacted."""

from __future__ import annotations

from collections.abc import Iterator, Mapping, Sequence
from datetime import UTC, datetime
from typing import Any

from tontine.cli.output import json_text
from tontine.diagnose.why import Evidence, explain
from tontine.diagnose.why import read as evidence
from tontine.legible import duration
from tontine.records.plan import PlanPlace
from tontine.records.stage import saved_in, stages_in
from tontine.store import logs, read
from tontine.store.call import Operation

from ..records.clean import Cleaner
from ..records.job import Attempt, JobPage, JobRow, LogLine
from ..records.rows import job_row
from ..records.values import mapping
from .jobstages import told_stages

LINES_SHOWN = 2000
_SHOWN = {"_id", "args", "result", "error", "errors", "progress", "stages", "saved"}


def read_page(seq: int, clean: Cleaner) -> Operation[JobPage | None]:
    """Everything about one job; None when there is no such job."""
    document = yield from read.read_document(seq)
    if document is None:
        return None
    found = yield from evidence.gather(seq)
    lines = yield from _lines(seq, document["_id"], found.now, clean)
    row = job_row(document["_id"], document, clean)
    names = yield from _names(document, found)
    return JobPage(
        at=found.now,
        row=row,
        owner=clean.name(found.name_of(found.owner_id)) if found.owner_id else "",
        holder=clean.name(found.name_of(row.node)) if row.node else "",
        why=tuple(
            (clean.text(one.sentence, 2000), clean.text(one.advice, 2000)) for one in explain(found)
        ),
        attempts=tuple(_attempts(document, row, clean)),
        logs=lines,
        facts=tuple(
            (clean.name(name), _shown(value, clean))
            for name, value in document.items()
            if name not in _SHOWN
        ),
        args=_payload(document.get("args"), clean),
        result=_payload(document["result"], clean) if "result" in document else "",
        family=tuple((name, clean.text(text)) for name, text in _family(document, found)),
        stages=tuple(told_stages(stages_in(document.get("stages")), row, found, names, clean)),
        saved=_payload(saved_in(document["saved"]), clean) if "saved" in document else "",
    )


def read_log(seq: int, clean: Cleaner) -> Operation[tuple[LogLine, ...]]:
    """What the task of a job has printed so far; none when there is no such job."""
    document = yield from read.read_document(seq)
    if document is None:
        return ()
    return (yield from _lines(seq, document["_id"], datetime.now(UTC), clean))


def _lines(
    seq: int, job: Any, otherwise: datetime, clean: Cleaner
) -> Operation[tuple[LogLine, ...]]:
    found = yield from logs.read_lines(seq, job)
    return tuple(
        (_date(one.at, otherwise), one.attempt, clean.text(one.text, 2000))
        for one in found[-LINES_SHOWN:]
    )


def _names(document: Mapping[str, Any], found: Evidence) -> Operation[dict[str, str]]:
    """The names of the nodes that ran its stages."""
    ids = {stage.node for stage in stages_in(document.get("stages"))}
    known = {node.id: node.name for node in found.nodes}
    return known | (yield from read.read_names(ids - known.keys()))


def _family(document: Mapping[str, Any], found: Evidence) -> Iterator[tuple[str, str]]:
    if (place := PlanPlace.from_document(document.get("plan"))) is not None:
        item = "" if place.item is None else f"[{place.item}]"
        kind = "" if place.kind == "finally" else f"{place.kind} "
        yield "plan", f"#{place.seq}  {kind}{place.step.lstrip('~')}{item}"
    if found.job and found.job.parent is not None:
        parent = (
            f"{found.parent.task}  {found.parent.state.value}" if found.parent else "no longer kept"
        )
        yield "parent", f"#{found.job.parent}  {parent}"
    if found.children.count:
        yield "children", found.children.summary
    for child in found.children.some:
        yield "", f"#{child.seq}  {child.task}  {child.state.value}"
    if more := found.children.count - len(found.children.some):
        yield "", f"and {more} more"


def _date(value: Any, otherwise: datetime) -> datetime:
    return value if isinstance(value, datetime) else otherwise


def _shown(value: Any, clean: Cleaner) -> str:
    if isinstance(value, datetime):
        return value.isoformat(timespec="milliseconds")
    if isinstance(value, Mapping | list):
        return clean.text(json_text(clean.value(value)), 2000)
    return clean.text(value, 2000)


def _payload(value: Any, clean: Cleaner) -> str:
    return clean.lines(json_text(clean.value(value), indent=True))


def _attempts(document: Mapping[str, Any], row: JobRow, clean: Cleaner) -> Iterator[Attempt]:
    """The attempts that left something: errors, oldest first, then the last one."""
    earlier = document.get("errors")
    failures: Sequence[Any] = earlier if isinstance(earlier, list) else []
    last = document.get("error")
    total = len(failures) + (last is not None)
    # Attempts that were given back leave no error: only when none was are errors and attempts one
    # to one.
    is_exact = total == row.attempt - (row.state in ("working", "done"))
    for place, failure in enumerate(failures, 1):
        yield _failure(place if is_exact else 0, failure, clean)
    if last is not None:
        yield _failure(row.attempt if not row.is_open or is_exact else 0, last, clean)
    if row.state == "working":
        started = "running" if row.started_at is not None else "claimed"
        yield Attempt(row.attempt, f"{started} on {row.node}")
    elif row.state == "done":
        ran = f" in {duration(row.ran)}" if row.ran is not None else ""
        yield Attempt(row.attempt, f"done{ran} on {row.node or 'an unknown node'}")


def _failure(number: int, failure: Any, clean: Cleaner) -> Attempt:
    error = mapping(failure)
    if not error:
        return Attempt(number, "failed", clean.text(failure))
    headline = clean.text(f"{error.get('type', '')}: {error.get('message', '')}", 2000)
    return Attempt(number, "failed", headline, clean.lines(error.get("traceback") or ""))
