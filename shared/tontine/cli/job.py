"""`tontine job`: one job whole."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from datetime import datetime
from typing import Any

import click
from rich.text import Text

from ..config import StoreConfig
from ..errors import UnknownJob
from ..family import Children
from ..legible import ago, amount, count, duration, legible, legible_lines
from ..lookalike import lookalikes, tell
from ..records.job import Job
from ..records.stage import stages_in
from ..records.states import JobState
from .jobs import percent
from .lines import write_lines
from .options import json_option, opened, store_options
from .output import console, job_state, json_text, note, write_json

_ORDER = (
    *(
        "seq",
        "_id",
        "task",
        "state",
        "run_at",
        "priority",
        "key",
        "parent",
        "max_attempts",
        "timeout",
        "cancel",
    ),
    *("attempt", "fails", "lost", "node", "created_at", "started_at", "finished_at"),
)
_LATER = ("progress", "args", "meta", "stages", "saved", "counts", "result", "error", "errors")
_WIDTH = 14


@click.command()
@click.argument("name", metavar="SEQ_OR_ID")
@click.option("--logs", is_flag=True, help="Show what its task printed and logged, instead.")
@click.option("--follow", "-f", is_flag=True, help="With --logs: go on until the job has ended.")
@json_option
@store_options
def job(name: str, logs: bool, follow: bool, as_json: bool, store: StoreConfig) -> None:
    """Show one job whole: its document, and errors with tracebacks.

    \b
    Examples:
      tontine job 17
      tontine job 665f1c0e9b1e8a0001a3c0de    by its _id, also before it has a number
      tontine job 17 --logs                   what the task printed and logged
      tontine job 17 --logs --follow          and what it goes on to print

    Digits are a number first, and an _id if no job has that number.
    """
    from ..store import offspring, read
    from ..store.logs import has_lines
    from ..store.which import read_which

    if follow and not logs:
        raise click.UsageError("--follow goes with --logs")
    with opened(store) as opened_store:
        try:
            document = opened_store.run(read_which(name))
        except UnknownJob as error:
            raise UnknownJob(f"{error}: `tontine jobs` lists the newest") from None
        if logs:
            write_lines(opened_store, Job.from_document(document), follow=follow, as_json=as_json)
            return
        children = opened_store.run(offspring.read_children(Job.from_document(document).seq))
        if as_json:
            write_json(document | ({"children": _as_json(children)} if children.count else {}))
            return
        now = opened_store.run(read.now())
        has_printed = opened_store.run(has_lines(document.get("seq"), document.get("_id")))
    out = console()
    for line in (*_lines(document, now), *_of(children)):
        out.print(line)
    for odd in lookalikes(document).items():
        note(tell(*odd))
    if has_printed:
        note(f"`tontine job {document['seq']} --logs` shows what it printed and logged")
    name = document.get("seq", document["_id"])
    note(f"`tontine why {legible(name, 100)}` tells why it is where it is, and what to do about it")


def _lines(document: Mapping[str, Any], now: datetime) -> Iterator[Text]:
    names = [name for name in _ORDER if name in document]
    names += [name for name in document if name not in _ORDER and name not in _LATER]
    for name in names:
        yield _field(name, _value(name, document[name], now))
    if isinstance(progress := document.get("progress"), Mapping):
        # The last that a task says of itself is seldom 100 %; that it is done says more.
        value = 1.0 if document.get("state") == JobState.DONE else progress.get("value")
        yield _field(
            "progress", Text(legible(f"{percent(value)}  {progress.get('note') or ''}".strip()))
        )
    yield from _stages(document)
    for name in ("args", "meta", "saved", "counts", "result"):
        if name in document:
            yield _field(name, Text(_indented(json_text(document[name], indent=True))))
    for place, error in _earlier(document):
        yield _field("earlier error", Text(f"{place}{_headline(error)}"))
    if "error" in document:
        yield _field("error", Text(_headline(document["error"]), style="red"))
        yield from _traceback(document["error"])


def _stages(document: Mapping[str, Any]) -> Iterator[Text]:
    """Those that are done, without their outputs."""
    for place, stage in enumerate(stages_in(document.get("stages")), 1):
        took, size = duration(stage.ms / 1000), amount(stage.bytes)
        apart = f" in {count(stage.parts, 'part')}" if stage.parts else ""
        facts = f"{place} {stage.name}  done  {took}  {size}{apart}  attempt {stage.attempt}"
        by = "".join(f"  {text}" for text in (stage.version, stage.node) if text)
        yield _field("stages" if place == 1 else "", Text(legible(f"{facts}{by}")))


def _earlier(document: Mapping[str, Any]) -> Iterator[tuple[str, Any]]:
    """The errors before the last, each with its place among all that failed, where none is
    missing."""
    errors = earlier if isinstance(earlier := document.get("errors"), list) else []
    failed = sum(
        number for name in ("fails", "lost") if isinstance(number := document.get(name), int)
    )
    is_whole = len(errors) + ("error" in document) == failed
    for place, error in enumerate(errors, 1):
        yield (f"{place} of {failed}: " if is_whole else ""), error


def _of(children: Children) -> Iterator[Text]:
    """How many jobs it has submitted, and some of them."""
    if children.count:
        yield _field("children", Text(children.summary))
    width = max((len(str(child.seq)) for child in children.some), default=0)
    for child in children.some:
        facts = Text(f"{'':<{_WIDTH}}{child.seq:>{width}}  {legible(child.task, 100)}  ")
        yield Text.assemble(facts, job_state(child.state.value))
    if more := children.count - len(children.some):
        yield Text(f"{'':<{_WIDTH}}and {more} more", style="dim")


def _as_json(children: Children) -> dict[str, Any]:
    some = [
        {"seq": one.seq, "_id": one.id, "task": one.task, "state": one.state.value}
        for one in children.some
    ]
    return {"states": children.states, "some": some}


def _field(name: str, value: Text) -> Text:
    return Text.assemble((f"{legible(name, 40):<{_WIDTH}}", "bold"), value)


def _value(name: str, value: Any, now: datetime) -> Text:
    if name == "state":
        return job_state(value)
    if name == "timeout" and isinstance(value, int | float):
        return Text(duration(value))
    if isinstance(value, datetime):
        return Text(f"{value.astimezone():%Y-%m-%d %H:%M:%S}  {ago(value, now)}")
    if isinstance(value, Mapping | list):
        return Text(_indented(json_text(value, indent=True)))
    return Text(legible(value))


def _indented(text: str) -> str:
    return legible_lines(text).replace("\n", "\n" + " " * _WIDTH)


def _headline(error: Any) -> str:
    if not isinstance(error, Mapping):
        return legible(error)
    return legible(f"{error.get('type', '')}: {error.get('message', '')}")


def _traceback(error: Any) -> Iterator[Text]:
    trace = error.get("traceback") if isinstance(error, Mapping) else None
    if trace:
        yield Text()
        yield Text(legible_lines(trace).rstrip(), style="dim")
