"""`tontine doctor`: check the deployment, one line a check."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

import click
from rich.text import Text

from ..config import StoreConfig
from ..diagnose.doctor import backlog, nodes, plans, schedules, server
from ..diagnose.doctor.verdict import Judgement, Verdict, fail, unknown
from ..errors import ConfigError, NotPermitted, StoreError, StoreUnavailable
from ..legible import count, legible
from .options import ANSWER_WITHIN, json_option, store_options
from .output import console, note, write_json

if TYPE_CHECKING:
    from ..store.call import Operation, Store

LOOK_AGAIN_AFTER = 2.8
"""Seconds: a node beats every two by default, and its claim loop moves every second."""

_OF_A_LOOK = ("find", "listCollections", "listIndexes")
_LOOKS = {
    Verdict.OK: ("✓", "green"),
    Verdict.WARN: ("!", "yellow"),
    Verdict.FAIL: ("✗", "red"),
    Verdict.UNKNOWN: ("?", "dim"),
}


@dataclass(frozen=True, slots=True)
class Check:
    """What to read, in which database (default: the queue's own), and how to judge it."""

    name: str
    read: Callable[[], Operation[Any]]
    judge: Callable[[Any], Judgement]
    database: str = ""


def _checks(database: str) -> list[Check]:
    from ..diagnose.doctor import read
    from ..store import schema

    return [
        Check("topology", read.hello, server.judge_topology),
        Check("members", read.member_health, server.judge_members, "admin"),
        Check("version", read.version, server.judge_version),
        Check("compatibility", read.compatibility, server.judge_compatibility, "admin"),
        Check("rights", lambda: read.rights(database), server.judge_rights),
        Check("inbox", read.inbox, server.judge_inbox),
        Check("change streams", lambda: read.open_stream(database), server.judge_streams),
        Check("majority write", read.round_trip, server.judge_round_trip),
        Check("write concern", read.default_write_concern, server.judge_write_concern, "admin"),
        Check("oplog", read.oplog, server.judge_oplog, "local"),
        Check("clock", read.clock_ahead, server.judge_clock),
        Check("schema", read.schema_version, backlog.judge_schema),
        Check("indexes", schema.index_faults, backlog.judge_indexes),
        Check("validators", read.validator_faults, backlog.judge_validators),
        Check("samples", schema.keeps_samples, backlog.judge_samples),
        Check("retention", read.kept, backlog.judge_retention),
        Check("tasks", read.unclaimable, backlog.judge_tasks),
        Check("schedules", read.survey, schedules.judge_schedules),
        Check("plans", read.plans, plans.judge_plans),
        Check("failures", read.recent, backlog.judge_failures),
        Check("waiting", read.waits, backlog.judge_waits),
    ]


_NODE_CHECKS: dict[str, Callable[[nodes.Looks], Judgement]] = {
    "nodes": nodes.judge_nodes,
    "roster": nodes.judge_roster,
    "membership": nodes.judge_membership,
    "heartbeats": nodes.judge_beats,
    "claim loops": nodes.judge_ticks,
    "numbering": nodes.judge_numbering,
    "held jobs": nodes.judge_held,
    "workers": nodes.judge_crashes,
    "inside": nodes.judge_inside,
    "agreement": nodes.judge_agreement,
}


@click.command()
@click.option("--quick", is_flag=True, help="Look at the nodes once, not twice some seconds apart.")
@json_option
@store_options
def doctor(quick: bool, as_json: bool, store: StoreConfig) -> None:
    """Check the deployment: the MongoDB, the collections, the nodes, the queue.

    Each check is ok, warn, fail, or unknown when this user may not look. Exit code 1 if one fails.
    It only reads, but for one small document that measures a write and is removed.
    """
    with _reached(store) as opened_store:
        judgements = dict(_examine(opened_store, quick))
    for name, judgement in judgements.items():
        if as_json:
            facts = {
                "verdict": judgement.verdict,
                "sentence": judgement.sentence,
                "advice": judgement.advice,
            }
            write_json({"check": name, **facts})
        else:
            _write(name, judgement)
    failed = sum(judgement.verdict is Verdict.FAIL for judgement in judgements.values())
    if not as_json:
        warned = sum(judgement.verdict is Verdict.WARN for judgement in judgements.values())
        note(f"{count(len(judgements), 'check')}: {failed} failed, {count(warned, 'warning')}")
    raise click.exceptions.Exit(int(failed > 0))


@contextmanager
def _reached(config: StoreConfig) -> Iterator[Store]:
    """The store, if its server answers; whether it is a fit one is for the checks to tell."""
    from ..store.connect import check, open_store
    from ..store.read import hurried

    store = open_store(config)
    try:
        try:
            store.run(hurried(check(config), ANSWER_WITHIN))
        except ConfigError as refusal:
            if isinstance(refusal.__cause__, StoreUnavailable):
                raise
        yield store
    finally:
        store.database.client.close()


def _examine(store: Store, quick: bool) -> Iterator[tuple[str, Judgement]]:
    from ..diagnose.doctor import read

    queue = store.database.name
    looks = _tried(lambda: [store.run(read.look())], queue)
    began = time.monotonic()
    for check in _checks(store.database.name):
        yield check.name, _made(store, check)
    if isinstance(looks, Judgement):
        yield from dict.fromkeys(_NODE_CHECKS, looks).items()
        return
    if looks[0].live and not quick:
        time.sleep(max(0.0, LOOK_AGAIN_AFTER - (time.monotonic() - began)))
        again = _tried(lambda: [store.run(read.look())], queue)
        looks += again if isinstance(again, list) else []
    for name, judge in _NODE_CHECKS.items():
        yield name, judge(looks)


def _made(store: Store, check: Check) -> Judgement:
    from ..store.call import Store

    where = Store(store.database.client[check.database]) if check.database else store
    answer = _tried(lambda: [where.run(check.read())], store.database.name)
    return check.judge(answer[0]) if isinstance(answer, list) else answer


def _tried(read: Callable[[], list[Any]], queue: str) -> list[Any] | Judgement:
    """What was read, or the judgement that nothing could be."""
    try:
        return read()
    except NotPermitted as refusal:
        return unknown(
            "this user may not look", f"run it as a user with {_role_for(refusal, queue)}"
        )
    except StoreUnavailable as error:
        return fail(f"MongoDB did not do it in time: {error}", "is a majority of the members up?")
    except StoreError as error:
        return unknown(f"it could not be read: {error}")


def _role_for(refusal: NotPermitted, queue: str) -> str:
    """The least role that the refused look needs: the queue's own for what is in it, the server's
    for the rest."""
    if refusal.database != queue:
        return "the role clusterMonitor"
    if refusal.action in _OF_A_LOOK:
        return "the role read, or tontineObserver of `tontine init --roles`"
    return "the role readWrite: it writes a document and removes it"


def _write(name: str, judgement: Judgement) -> None:
    glyph, colour = _LOOKS[judgement.verdict]
    out = console()
    out.print(
        Text.assemble(
            (f"{glyph} {judgement.verdict.value:<8}", colour),
            (f"{name:<15} ", "bold"),
            legible(judgement.sentence),
        )
    )
    if judgement.advice:
        out.print(Text(f"{'':<26}→ {legible(judgement.advice)}", style="dim"))
