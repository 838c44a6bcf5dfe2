"""`tontine submit --plan FILE`: insert a plan's document, and on wish see it to its end."""

from __future__ import annotations

from typing import TYPE_CHECKING, Any

import click

from ..records.states import PlanState
from .arguments import read_object
from .output import json_text, note, write_json
from .plan import facts, follow_plan, read_both
from .unknown import warn_of_unknown

if TYPE_CHECKING:
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
    seq = found.seq or 0
    told = f"plan {seq}{' was there already' if existed else ''}"
    if wait:
        note(told)
    elif as_json:
        write_json({"_id": found.id, "seq": seq, "state": found.state, "existed": existed})
    else:
        click.echo(told)
    for task in sorted({step.task for step in found.steps.values()}):
        warn_of_unknown(store, task)
    if not wait:
        return 0
    status = follow_plan(store, seq)
    if as_json:
        write_json(facts(*read_both(store, seq)))
    elif status.state is PlanState.DONE and status.result is not None:
        click.echo(json_text(status.result))
    elif status.error is not None:
        note(f"plan {seq} is {status.state}: {status.error}")
    return int(status.state is not PlanState.DONE)
