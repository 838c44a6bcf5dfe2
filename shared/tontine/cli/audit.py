"""`tontine audit`: check the protocol's invariants in the documents, one line an invariant."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import replace
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from ..config import StoreConfig, seconds
from ..diagnose.audit.history import ONLY_WATCHED, WATCHED, History
from ..diagnose.audit.invariant import AuditVerdict, Checked, Conclusion, Finding
from ..diagnose.audit.jobs import KEPT, Suspects, judge_counter, judge_job, judge_seqs, twins
from ..diagnose.audit.nodes import NodesRead, judge_node, judge_return, standing, suspicions
from ..diagnose.audit.plan_counts import PLAN_INVARIANTS
from ..diagnose.audit.plans import judge_name
from ..diagnose.audit.record import Record
from ..diagnose.audit.roster import judge_epochs, judge_roster, roster_of
from ..diagnose.audit.runs import RAN, Runs
from ..errors import NotPermitted, StoreError
from ..legible import count, legible
from .audit_plans import PlanWalk
from .options import json_option, opened, store_options
from .output import console, note, write_json
from .progress import Meter

if TYPE_CHECKING:
    from ..store.call import Operation, Store

LOOK_EVERY = 1.0

_LOOKS = {
    AuditVerdict.OK: ("✓", "green"),
    AuditVerdict.VIOLATED: ("✗", "red"),
    AuditVerdict.UNKNOWN: ("?", "dim"),
}


@click.command()
@click.option(
    "--limit",
    type=click.IntRange(0),
    default=5,
    show_default=True,
    help="Examples of each violation.",
)
@click.option("--watch", "watch_for", metavar="30s", help="Watch every change for so long first.")
@click.option(
    "--runs",
    type=click.Path(exists=True, dir_okay=False, path_type=Path),
    help="A record of what really ran: see above.",
)
@json_option
@store_options
def audit(
    limit: int, watch_for: str | None, runs: Path | None, as_json: bool, store: StoreConfig
) -> None:
    """Check the invariants of the protocol in the documents.

    Each is ok, violated, or unknown when documents cannot show it. It reads every job and plan,
    writes nothing, and may run while nodes do: what may be a matter of two reads at different
    moments is looked at again until it is certain. Exit code 1 if an invariant is violated.

    Documents show where things stand. With --watch it also follows every change for a while, or
    until Ctrl-C, and judges each by the one before it: run it beside a failover test. A job that is
    older than the watch is judged from the second change seen of it, a plan only if it is not.

    With --runs it also compares the documents with a record that your tasks keep of what really
    ran: a line of JSON when they begin and one when they end, {"seq": 7, "attempt": 1, "event":
    "began", "at": 12.5, "pid": 4711}, where event is began or ended and at is in seconds of one
    clock. It must be the record of all nodes; tasks may go on writing it. Jobs of which it says
    nothing are not compared.
    """
    duration = None if watch_for is None else seconds(watch_for)
    if duration is not None and duration <= 0:
        raise click.BadParameter("watch for longer than that", param_hint="--watch")
    with opened(store) as opened_store:
        tally = Checked(limit)
        if duration is not None:
            watch(opened_store, tally, duration)
        record = Record(lambda: read_runs(runs)) if runs is not None else None
        conclusions = examine(opened_store, tally, record=record)
    for conclusion in conclusions:
        (_write_json if as_json else _write)(conclusion)
    violated = sum(one.verdict is AuditVerdict.VIOLATED for one in conclusions)
    if not as_json:
        unknown = sum(one.verdict is AuditVerdict.UNKNOWN for one in conclusions)
        note(f"{count(len(conclusions), 'invariant')}: {violated} violated, {unknown} unknown")
    raise click.exceptions.Exit(int(violated > 0))


def read_runs(path: Path) -> Runs:
    """What really ran, by the record that the tasks kept."""
    with path.open(encoding="utf-8", errors="replace") as lines:
        return Runs.read(lines)


def watch(store: Store, tally: Checked, duration: float) -> None:
    """Judge every change for so many seconds, or until Ctrl-C."""
    from ..diagnose.audit import read
    from ..store.names import CLUSTER, JOBS, NODES, PLANS, STATES

    history = History(JOBS, NODES, CLUSTER, PLANS, STATES)
    history.start_from(store.run(read.node_records()), store.run(read.cluster_documents()))
    try:
        _watch(store, tally, duration, history)
    except KeyboardInterrupt:
        note("stopped watching: here is what was seen")
    tally.looked_at(history.changes, *WATCHED, what="change")
    tally.trust(*ONLY_WATCHED)


def _watch(store: Store, tally: Checked, duration: float, history: History) -> None:
    from ..store.stream import changes

    until = time.monotonic() + duration
    with Meter(
        "watching for seconds", int(duration), shown=console(stderr=True).is_terminal
    ) as meter:
        for change in changes(store):
            if change is not None:
                tally.add(history.see(change))
            left = until - time.monotonic()
            if left <= 0:
                return
            meter.reach(int(duration - left))


def examine(
    store: Store, tally: Checked, patience: float | None = None, record: Record | None = None
) -> list[Conclusion]:
    """Every invariant's conclusion; `patience` overrides for how many seconds a suspicion must
    stand."""
    from ..diagnose.audit import read

    first = store.run(read.look())
    _judge_records(store, tally)
    suspects = Suspects(first.live, _tasks(first), first.due_before)
    plans = PlanWalk(store, tally)
    _judge_jobs(store, tally, suspects, record, plans)
    if record is not None:
        _judge_runs(tally, record)
    keys = _tried(tally, ["key"], lambda: _shared_keys(store, tally)) or []
    _tried(tally, PLAN_INVARIANTS, plans.walk)
    _judge_together(store, tally, first, suspects, keys, patience)
    waits = first.patience if patience is None else patience
    _tried(tally, PLAN_INVARIANTS, lambda: plans.conclude(waits))
    return tally.conclusions()


def _judge_runs(tally: Checked, record: Record) -> None:
    total, findings = record.conclude()
    tally.looked_at(total, *RAN, what="run")
    tally.add(findings)
    if total:
        tally.trust("S3")


def _tasks(look: NodesRead) -> frozenset[str]:
    return frozenset(task for node in look.takers for task in node.tasks)


def _judge_records(store: Store, tally: Checked) -> None:
    from ..diagnose.audit import read

    for document in store.run(read.node_records()):
        tally.looked_at(1, "S5", "S6", "L3")
        tally.add(judge_node(document))
    events = _tried(tally, ["S5"], lambda: store.run(read.recorded_epochs())) or []
    roster = store.run(read.roster_document())
    tally.looked_at(len(events) + (roster is not None), "S5")
    tally.looked_at(int(roster is not None), "MI1")
    tally.add(judge_roster(roster))
    tally.add(judge_epochs(events, roster_of(roster)))


def _judge_jobs(
    store: Store, tally: Checked, suspects: Suspects, record: Record | None, plans: PlanWalk
) -> None:
    from ..diagnose.audit import read

    index = store.run(read.seq_index())
    if index is None:
        return  # no collection, no job
    if index.fault:
        tally.add([Finding("S7", index.fault)])
    upto, given, last = store.run(read.highest(index.hint)), 0, None
    is_long = upto > read.CHUNK and console(stderr=True).is_terminal
    with Meter("auditing jobs up to", int(upto), shown=is_long) as meter:
        for chunk in _walked(
            store, "seq", lambda after, beyond: read.jobs(after, beyond, upto, index.hint), 0
        ):
            if chunk[-1]["seq"] > given:
                given = store.run(read.counter())
            tally.looked_at(len(chunk), "S1", "S2", "S4", "S7", "MI3", "MI5", "L1")
            tally.add(judge_seqs(twins(last, chunk, "seq")))
            tally.add(judge_counter(chunk, given))
            for document in chunk:
                tally.add(judge_job(document))
                tally.add(judge_name(document))
                if record is not None:
                    tally.add(record.see(document))
                suspects.see(document)
            last = chunk[-1]
            plans.see_jobs(chunk)
            meter.reach(int(last["seq"]))
    for odd in _tried(tally, ["S7"], lambda: store.run(read.oddly_numbered(KEPT))) or []:
        tally.add([Finding("S7", f"the job with _id {odd['_id']!r} has the seq {odd['seq']!r}")])


def _shared_keys(store: Store, tally: Checked) -> list[str]:
    """Keys that several unfinished jobs seem to have."""
    from ..diagnose.audit import read

    keys: dict[str, None] = {}
    last = None
    for chunk in _walked(store, "key", read.keyed, ""):
        tally.looked_at(len(chunk), "key")
        for _, second in twins(last, chunk, "key"):
            if len(keys) < KEPT:
                keys[second["key"]] = None
        last = chunk[-1]
    return list(keys)


def _walked(
    store: Store,
    field: str,
    read: Callable[[Any, bool], Operation[list[dict[str, Any]]]],
    start: Any,
) -> Iterator[list[dict[str, Any]]]:
    """All documents in the order of a field, a chunk at a time; equal values may lie on both sides
    of a border."""
    from ..diagnose.audit.read import CHUNK

    after, beyond, known = start, False, set[str]()
    while chunk := store.run(read(after, beyond)):
        if fresh := [document for document in chunk if repr(document["_id"]) not in known]:
            yield fresh
        if len(chunk) < CHUNK:
            return
        after = chunk[-1][field]
        beyond = (
            chunk[0][field] == after
        )  # a whole chunk of one value: more of it tells nothing new
        known = {repr(document["_id"]) for document in chunk if document[field] == after}


def _judge_together(
    store: Store,
    tally: Checked,
    first: NodesRead,
    suspects: Suspects,
    keys: list[str],
    patience: float | None,
) -> None:
    """Look until no suspicion is left, or those that are have stood for long enough."""
    from ..diagnose.audit import read

    def look_again() -> NodesRead:
        found = store.run(read.look(suspects.seqs, keys))
        suspects.keep_standing(found.jobs)
        return replace(found, claims=suspects.claims)

    look = look_again()
    tally.looked_at(len(look.raw), "L1")
    until = time.monotonic() + (look.patience if patience is None else patience)
    looks = [suspicions(look)]
    while left := standing(looks):
        if len(looks) > 1 and time.monotonic() >= until:
            break
        time.sleep(max(0.0, min(LOOK_EVERY, until - time.monotonic())))
        look = look_again()
        looks = [left, suspicions(look)]
    tally.add(left.values())
    tally.add(judge_return(first, look))
    if not look.takers and (suspects.open or look.raw):
        tally.doubt("L1", "no node is there to do the jobs that wait")
    if not look.keepers and look.roster.members:
        tally.doubt("L3", "no node is there to keep the roster")


def _tried(tally: Checked, invariants: Sequence[str], read: Callable[[], Any]) -> Any:
    try:
        return read()
    except NotPermitted:
        why = "this user may not look"
    except StoreError as error:
        why = f"it could not be read: {error}"
    for invariant in invariants:
        tally.doubt(invariant, why)
    return None


def _write_json(one: Conclusion) -> None:
    examples = [
        {"seq": found.seq, "node": found.node, "plan": found.plan, "fact": found.fact}
        for found in one.examples
    ]
    facts = {
        "looked_at": one.looked_at,
        "looks": one.looks,
        "violations": one.violations,
        "examples": examples,
        "why": one.why_unknown,
    }
    write_json(
        {"invariant": one.invariant, "sentence": one.sentence, "verdict": one.verdict, **facts}
    )


def _write(one: Conclusion) -> None:
    glyph, colour = _LOOKS[one.verdict]
    looks = ", ".join(count(number, what) for what, number in one.looks.items())
    out, about = console(), f" ({looks or 'nothing to look at'})"
    if one.verdict is AuditVerdict.UNKNOWN:
        about = f": {legible(one.why_unknown)}"
    head = (f"{glyph} {one.verdict.value:<9}", colour), (f"{one.invariant:<4}", "bold")
    out.print(Text.assemble(*head, one.sentence, (about, "dim")))
    for found in one.examples:
        about = f"{found.subject}: " if found.subject else ""
        out.print(Text(f"{'':<15}{legible(about + found.fact, 500)}", style=colour))
    if one.violations > len(one.examples):
        out.print(Text(f"{'':<15}and {one.violations - len(one.examples):,} more", style="dim"))
