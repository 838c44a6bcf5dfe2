"""`tontine submit --plan FILE`: insert a plan's document, and on wish see it to its end."""

from __future__ import annotations

from functools import partial
from typing import TYPE_CHECKING, Any

import click

from ..records.states import PlanState
from ..rules.plan_check import odd_fields
from .arguments import read_object
from .output import json_text, note, write_json
from .plan import facts, follow_plan
from .unknown import warn_of_unknown

if TYPE_CHECKING:
    from ..records.plan import PlanRecord
    from ..records.plan_status import PlanStatus
    from ..store.call import Store

_LIKE = '\'{"steps": {"get": {"task": "shop.get"}}}\''


def read_plan_file(name: str) -> dict[str, Any]:
    """The document of a plan in a file, or from stdin."""
    text = name if name == "-" else f"@{name}"
    return read_object(text, "--plan", "a plan's steps", _LIKE)


def submit_plan(
    store: Store, document: dict[str, Any], *, wait: bool, as_json: bool, **given: str | None
) -> int:
    """Insert it; the exit code."""
    from ..store.plans.control import submit

    given = {name: value for name, value in given.items() if value is not None}
    found, existed = store.run(submit({**document, **given}))
    named = f"plan {found.seq}" if found.seq is not None else "a plan without a number yet"
    told = f"{named}{' was there already' if existed else ''}"
    if wait:
        note(told)
    elif as_json:
        write_json({"_id": found.id, "seq": found.seq, "state": found.state, "existed": existed})
    else:
        click.echo(told)
    for odd in odd_fields(document):
        note(odd)
    for task in found.tasks:
        warn_of_unknown(store, task)
    if not wait:
        return 0
    look = partial(_read_both, store, found.id)
    try:
        status = follow_plan(store, look)
    except KeyboardInterrupt:
        note(f"no longer waiting: {named} goes on")
        raise
    if as_json:
        write_json(facts(*look()))
    elif status.state is PlanState.DONE and status.result is not None:
        click.echo(json_text(status.result))
    elif status.error is not None:
        note(f"plan {status.seq} is {status.state}: {status.error}")
    return int(status.state is not PlanState.DONE)


def _read_both(store: Store, id: Any) -> tuple[PlanRecord, PlanStatus]:
    """A plan, and how it stands: by its `_id`, as its number comes, or may change, when a node
    accepts it."""
    from ..store.plans.read import read_by_id
    from ..store.plans.status import read_status_by_id

    status = store.run(read_status_by_id(id))  # first, as in `read_both`
    return store.run(read_by_id(id)), status
