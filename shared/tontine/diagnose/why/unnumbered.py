"""Why a job that some driver inserted has no number yet."""

from __future__ import annotations

from collections.abc import Iterator

from ...records.job import Job
from ...records.node import Sighting
from ...rules.health import is_unnumbered_too_long
from .evidence import Evidence, Finding
from .inside import cannot_number, look_into
from .obstacle import START, no_task, nobody
from .words import at, names


def explain_unnumbered(e: Evidence, job: Job) -> Iterator[Finding]:
    """The findings for a job that some driver inserted and no node has numbered yet."""
    if e.refusal:
        yield Finding(
            "will-be-refused", f"It cannot be a job: {e.refusal}.", "insert a corrected document"
        )
    elif e.key_holder:
        yield Finding(
            "key-taken",
            f"Its key {job.key!r} is taken by {_label(e.key_holder)}, which is "
            f"{e.key_holder.state.value}: "
            "it will be refused.",
            f"`tontine why {e.key_holder.seq}` tells about that one",
        )
    waited = (e.now - e.inserted_at).total_seconds() if e.inserted_at else 0.0
    if not e.working:
        yield Finding(
            "unnumbered", "It has no number yet, and no node is there to give it one.", ""
        )
        yield nobody(e) or Finding("no-node", "No node is a member of the roster.", START)
    elif all(cannot_number(node, e.now) for node in e.working):
        yield _nobody_numbers(e, e.working[0], waited)
    elif is_unnumbered_too_long(waited):
        yield Finding(
            "unnumbered-long",
            f"It has no number yet, although it was inserted {at(e.inserted_at, e.now)} and "
            f"{names(e.working)} should have given it one.",
            "`tontine doctor` tells whether a loop is stuck; the node's log tells why",
        )
    else:
        yield Finding("unnumbered", "It has no number yet: nodes number new jobs within a second.")
    if not e.refusal and e.live and (missing := no_task(e)):
        yield missing


def _nobody_numbers(e: Evidence, node: Sighting, waited: float) -> Finding:
    since = (
        f", although it was inserted {at(e.inserted_at, e.now)}"
        if is_unnumbered_too_long(waited)
        else ""
    )
    wrong = f"node {node.name} {cannot_number(node, e.now)}"
    return Finding("numbering-troubled", f"It has no number yet{since}: {wrong}.", look_into(node))


def _label(job: Job) -> str:
    return f"job {job.seq}" if job.is_numbered else f"the job {job.id}"
