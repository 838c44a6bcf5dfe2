"""What cannot be a plan, and why, in one sentence. Nodes and clients say the same. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Iterator, Mapping
from difflib import get_close_matches
from typing import Any

from ..legible import legible
from ..lookalike import PLAN, STEP, lookalikes, tell
from ..records.job import is_text, is_whole, kind_of, nobodys_task
from ..records.job import problem as job_problem
from ..records.plan import (
    LARGEST_PLAN,
    STEPS_AT_MOST,
    Source,
    StepRecord,
    sources_of,
)
from .plan_graph import PlanGraph, find_cycle

_NAME = re.compile(r"[A-Za-z0-9_-]{1,64}")
_LONGEST_DELAY = 100 * 365 * 86400
_FROM_JOBS = ("task", "args", "max_attempts", "timeout")
_OF_STEPS = ("after", "map", "as", "chunk", "at_once", "may_fail", "undo")
"""What neither an undo nor `finally` has: given there, it would be passed over in silence."""

Document = Mapping[str, Any]


def problem(document: Document, size: int = 0) -> str | None:
    """Why a document cannot be a plan; None when it can. `size` is its bytes, where they are
    known."""
    return next(_problems(document, size), None)


def more_problem(steps: Any) -> str | None:
    """Why these cannot be steps that a task adds."""
    return next(_steps_problems(steps), None)


def odd_fields(document: Document) -> Iterator[str]:
    """Fields that mean nothing, and look as if they should: they refuse nothing, as in a job."""
    for odd in lookalikes(document, PLAN).items():
        yield tell(*odd)
    steps = document.get("steps")
    for name, step in steps.items() if isinstance(steps, Mapping) else ():
        for odd in lookalikes(step, STEP).items() if isinstance(step, Mapping) else ():
            yield f"step {legible(name, 80)}: {tell(*odd)}"


def _problems(document: Document, size: int) -> Iterator[str]:
    if size > LARGEST_PLAN:
        yield (
            f"it has {size:,} bytes, and a plan may have {LARGEST_PLAN:,}, which is 1 MB: pass "
            "where the data is, not the data"
        )
    yield from _head_problems(document)
    if "steps" not in document:
        yield "it has no `steps`: name at least one, like {get: {task: …}}"
        return
    yield from _steps_problems(document["steps"])
    steps = document["steps"]
    yield from _finally_problems(document.get("finally"))
    returns = document.get("returns")
    if returns is not None:
        if not is_text(returns):
            yield f"`returns` must be the name of a step, not {kind_of(returns)}"
        elif returns not in steps:
            yield f"`returns` names {_no_step(returns, steps)}"


def _head_problems(document: Document) -> Iterator[str]:
    for name in ("name", "key", "tenant"):
        value = document.get(name)
        if value is not None and (not is_text(value) or not value):
            yield f"`{name}` must be a text, not {kind_of(value)}"
    priority = document.get("priority")
    if priority is not None and not is_whole(priority):
        yield f"`priority` must be a whole number, not {kind_of(priority)}"
    if priority and document.get("tenant") is not None:
        yield "`priority` does not go with `tenant`: tenants take turns"
    if document.get("on_failure") not in (None, "finish", "cancel"):
        yield f'`on_failure` must be "finish" or "cancel", not {kind_of(document["on_failure"])}'


def _steps_problems(steps: Any) -> Iterator[str]:
    if not isinstance(steps, Mapping):
        yield f"`steps` must be an object with the steps by name, not {kind_of(steps)}"
        return
    if not steps:
        yield "it has no `steps`: name at least one, like {get: {task: …}}"
    if len(steps) > STEPS_AT_MOST:
        yield f"it has {len(steps):,} steps, and a plan may have {STEPS_AT_MOST:,}"
    for name, step in steps.items():
        if not _NAME.fullmatch(str(name)):
            yield (
                f"a step cannot be called {legible(name, 80) or '``'}: a name is 1 to 64 letters, "
                "digits, `_` and `-`"
            )
        yield from (f"step {name}: {reason}" for reason in _kind_problems(step))
    records = {name: StepRecord.from_document(name, step) for name, step in steps.items()}
    for record in records.values():
        yield from _reference_problems(record, records)
    if cycle := find_cycle({name: record.before for name, record in records.items()}):
        yield f"steps wait for each other: {' → '.join(cycle)}"
    graph = PlanGraph(records)
    for record in records.values():
        yield from _map_problems(record, records)
        yield from _stream_problems(record, records)
        yield from _argument_problems(record)
        yield from _undo_problems(record, graph)


def _kind_problems(step: Any) -> Iterator[str]:
    """What is of a wrong kind in one step."""
    if not isinstance(step, Mapping):
        yield f"it must be an object like {{task: …}}, not {kind_of(step)}"
        return
    yield from _task_problems(step)
    for name in ("take", "stream"):
        yield from _take_problems(name, step.get(name), lists=name == "take")
    after = step.get("after")
    if after is not None and not (isinstance(after, list) and all(map(is_text, after))):
        yield f"`after` must be an array of steps' names, not {kind_of(after)}"
    over = step.get("map")
    if over is not None and not is_text(over) and not isinstance(over, list):
        yield f'`map` must be a step, like "get" or "get.urls", or an array, not {kind_of(over)}'
    if step.get("as") is not None and not (is_text(step["as"]) and step["as"]):
        yield f"`as` must be the name of an argument, not {kind_of(step['as'])}"
    for name in ("chunk", "at_once"):
        value = step.get(name)
        if value is not None and not (is_whole(value) and value >= 1):
            yield f"`{name}` must be a whole number from 1 on, not {kind_of(value)}"
    may_fail = step.get("may_fail")
    if may_fail is not None and not isinstance(may_fail, bool):
        yield f"`may_fail` must be true or false, not {kind_of(may_fail)}"
    yield from _delay_problems(step)
    undo = step.get("undo")
    if undo is not None:
        yield from (f"its undo: {reason}" for reason in _undo_kinds(undo))


def _undo_kinds(undo: Any) -> Iterator[str]:
    if not isinstance(undo, Mapping):
        yield f"it must be an object like {{task: …}}, not {kind_of(undo)}"
        return
    yield from _task_problems(undo)
    yield from _take_problems("take", undo.get("take"), lists=True)
    if undo.get("stream") is not None:
        yield "it has `stream`, but only steps can stream"
    if undo.get("when") not in (None, "done", "begun"):
        yield f'`when` must be "done" or "begun", not {kind_of(undo["when"])}'
    names = (*_OF_STEPS, "delay", "max_attempts", "timeout")
    yield from (f"it {reason}" for reason in _only_of_steps(undo, names))


def _task_problems(step: Document) -> Iterator[str]:
    """As for a job."""
    fields = {name: step[name] for name in _FROM_JOBS if name in step}
    reason = job_problem(fields, map(str, step)) or nobodys_task(step["task"])
    if reason is not None:
        yield reason


def _take_problems(name: str, value: Any, *, lists: bool) -> Iterator[str]:
    if value is None:
        return
    if not isinstance(value, Mapping):
        yield f"`{name}` must be an object like {{argument: step}}, not {kind_of(value)}"
        return
    for arg, what in value.items():
        listed = lists and isinstance(what, list) and all(map(is_text, what))
        if not is_text(what) and not listed:
            yield f"`{name}.{arg}` must name a step, not {kind_of(what)}"


def _delay_problems(step: Document) -> Iterator[str]:
    delay = step.get("delay")
    is_number = isinstance(delay, int | float) and not isinstance(delay, bool)
    if delay is not None and not (is_number and 0 <= delay <= _LONGEST_DELAY):
        yield f"`delay` must be a number of seconds from 0 to a century, not {kind_of(delay)}"


def _reference_problems(step: StepRecord, steps: Mapping[str, Any]) -> Iterator[str]:
    """Names of steps that are none."""
    named = [("comes after", Source(name)) for name in step.after]
    named += [("takes from", source) for source in sources_of(step.take)]
    named += [("streams", source) for source in step.stream.values()]
    if isinstance(step.over, Source):
        named.append(("maps over", step.over))
    if step.undo is not None:
        named += [("takes from", source) for source in sources_of(step.undo.take)]
    for how, source in named:
        if source.step not in steps:
            yield f"step {step.name} {how} {_no_step(source.step, steps)}"


def _no_step(name: str, steps: Mapping[str, Any]) -> str:
    meant = get_close_matches(name, list(steps), n=1)
    return f"{legible(name, 80)}, which is no step" + (f": is {meant[0]} meant?" if meant else "")


def _map_problems(step: StepRecord, steps: Mapping[str, StepRecord]) -> Iterator[str]:
    if not step.is_mapped:
        given = {"as": step.as_, "chunk": step.chunk > 1, "at_once": step.at_once}
        for name in [name for name, value in given.items() if value]:
            yield f"step {step.name} has `{name}` but maps over nothing"
    elif not step.as_:
        over = step.over if isinstance(step.over, Source) else "an array"
        yield f"step {step.name} maps over {over} without `as`: which argument gets the item?"
    source = steps[step.over.step] if isinstance(step.over, Source) else None
    if step.chunk > 1 and source is not None and source.is_mapped:
        yield (
            f"step {step.name} has `chunk`, which goes only with a map over an array or over the "
            f"result of one job: {source.name} is mapped itself"
        )


def _stream_problems(step: StepRecord, steps: Mapping[str, StepRecord]) -> Iterator[str]:
    for streamed in step.stream.values():
        if streamed.field is not None:
            yield (
                f"step {step.name} streams {streamed}, but only whole results can be streamed: "
                f"name {streamed.step}, and take the field of each"
            )
        if not steps[streamed.step].is_mapped:
            yield (
                f"step {step.name} streams {streamed.step}, but only a mapped step can be "
                "streamed: `take` its result"
            )


def _argument_problems(step: StepRecord) -> Iterator[str]:
    seen: set[str] = set()
    own = [step.as_] if step.is_mapped and step.as_ else []
    for arg in [*step.args, *step.take, *step.stream, *own]:
        if arg in seen:
            yield f"step {step.name} gets {legible(arg, 80)} twice"
        seen.add(arg)
    if step.undo is not None:
        for arg in step.undo.args.keys() & step.undo.take.keys():
            yield f"the undo of step {step.name} gets {legible(arg, 80)} twice"


def _undo_problems(step: StepRecord, graph: PlanGraph) -> Iterator[str]:
    if step.undo is None:
        return
    if step.undo.when == "begun" and step.is_mapped:
        yield (
            f'step {step.name} has an undo with `when: "begun"`, which only a step that is not '
            "mapped can have"
        )
    known = graph.earlier(step.name) | {step.name}
    for source in sources_of(step.undo.take):
        if source.step not in known:
            yield (
                f"the undo of step {step.name} takes from {source.step}, but only from its own "
                "step and from what that comes after can it take"
            )


def _finally_problems(last: Any) -> Iterator[str]:
    if last is None:
        return
    if not isinstance(last, Mapping):
        yield f"`finally` must be an object like {{task: …}}, not {kind_of(last)}"
        return
    for reason in (*_task_problems(last), *_delay_problems(last)):
        yield f"`finally`: {reason}"
    for name in ("take", "stream"):
        if last.get(name) is not None:
            yield (
                f"`finally` has `{name}`, but only steps and undos can take: nothing is certain to "
                "be there when it runs"
            )
    yield from (f"`finally` {reason}" for reason in _only_of_steps(last, _OF_STEPS))


def _only_of_steps(document: Document, names: Iterable[str]) -> Iterator[str]:
    for name in names:
        if document.get(name) is not None:
            yield f"has `{name}`, which only a step can have"
