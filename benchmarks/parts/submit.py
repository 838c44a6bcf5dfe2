"""How fast jobs come in: one call per job, and `submit_many` against a bare `insert_many` of the
same documents."""

from __future__ import annotations

import time
from datetime import UTC, datetime
from typing import Any

from bson import Int64, ObjectId

from tontine.cli.bench import measure
from tontine.errors import TontineError
from tontine.store.call import Call, Operation, Store
from tontine.store.insert import CHUNK, Wish
from tontine.store.names import JOBS

from ..contender import Contender
from ..nodes import fresh_store
from ..progress import say
from ..scene import Scene

SINGLE, MANY, INSERT = "one at a time", "submit_many", "bare insert_many"


def run(scene: Scene) -> None:
    contenders: list[Contender] = [scene.tontine, *scene.rivals]
    for number in range(scene.plan.rounds):
        for contender in contenders:
            if contender.name != "PgQueuer, batch 100":  # a producer knows of no batches
                _single(scene, contender, number)
        with fresh_store(scene.uri) as store:
            _note(scene, MANY, "Tontine", measure.submit(store, scene.plan.many).rate, number)
        with fresh_store(scene.uri) as store:
            _note(scene, MANY, INSERT, _insert(store, scene.plan.many), number)


def _single(scene: Scene, contender: Contender, number: int) -> None:
    try:
        _note(scene, SINGLE, contender.name, contender.submit(scene.plan.singles), number)
    except TontineError as error:
        say(str(error))
        scene.record.leave_out(f"submit, round {number + 1}: {error}")


def _note(scene: Scene, what: str, who: str, rate: float, number: int) -> None:
    say(f"submit {what}, round {number + 1} of {scene.plan.rounds}, {who}: {rate:,.0f} jobs/s")
    scene.record.add("submit", what, who, rate, "jobs/s")


def _insert(store: Store, count: int) -> float:
    """Documents that are ready, in chunks as large as ours, to the same indexes, as durably."""
    wish, now = Wish(measure.NOOP), datetime.now(UTC)
    documents = [
        {"_id": ObjectId(), "seq": Int64(seq), **wish.document(None, now)}
        for seq in range(1, count + 1)
    ]
    began = time.perf_counter()
    for start in range(0, count, CHUNK):
        store.run(_insert_chunk(documents[start : start + CHUNK]))
    return count / (time.perf_counter() - began)


def _insert_chunk(documents: list[dict[str, Any]]) -> Operation[None]:
    yield Call(JOBS, "insert_many", (documents,), {"ordered": False})
