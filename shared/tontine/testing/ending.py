"""How an attempt of an eager queue ends: the worker's report of it, and what the store's settlement
makes of that."""

from __future__ import annotations

from datetime import datetime, timedelta
from typing import Any

import bson

from .. import verdict
from ..around import End, Judge
from ..current import CurrentJob
from ..module import Task
from ..records.job import ERRORS_KEPT, JobError
from ..records.states import FINAL, JobState
from ..staging import StageRefused

Document = dict[str, Any]


def judge_of(task: Task, document: Document, job: CurrentJob) -> Judge:
    """What a worker would say of an attempt's end."""

    def of_error(error: BaseException) -> verdict.NoResult:
        if isinstance(error, StageRefused):
            return error.end
        if reason := task.misfit_inside(error):
            return verdict.ended("refused", "InvalidArguments", reason)
        return verdict.of_error(task, document, error, cancelled=job.cancelled, limit=None)

    def of_result(result: Any) -> End:
        if job.cancelled:
            return verdict.ended(
                "cancelled", "Cancelled", "it saw that it was cancelled, and ended"
            )
        return verdict.encode(result)

    return Judge(of_error, of_result)


def write_end(document: Document, end: End, now: datetime) -> None:
    """Write down how an attempt ended: what the store's settlement does, on a document in
    memory."""
    document["errors"] = errors_so_far(document)
    document.pop("error", None)
    if isinstance(end, bytes):
        result = bson.decode(end, verdict.CODEC)["r"]
        document |= {"state": JobState.DONE.value, "result": result, "finished_at": now}
        return
    document["error"] = JobError(end.type, end.message, end.traceback).to_document()
    if end.kind in ("failed", "retry"):
        document["fails"] += 1
    if end.kind == "retry":
        document |= {"state": JobState.QUEUED.value, "run_at": now + timedelta(seconds=end.delay)}
        document.pop("started_at")
        document.pop("progress", None)
    else:
        state = JobState.CANCELLED if end.kind == "cancelled" else JobState.FAILED
        document |= {"state": state.value, "finished_at": now}


def errors_so_far(document: Document) -> list[Document]:
    last = [document["error"]] if document.get("error") else []
    return [*document.get("errors", []), *last][-ERRORS_KEPT:]


def is_final(document: Document) -> bool:
    return document["state"] in FINAL
