"""`tontine module`: which modules nodes have, and asking them to load, drop or load anew."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from datetime import datetime
from typing import Any

import click

from ..config import StoreConfig, seconds
from ..errors import ConfigError
from ..legible import count, legible
from ..records.loaded import (
    ABSENT,
    BROKEN,
    REFUSED,
    SERVING,
    Loaded,
    contexts_in,
    loaded_in,
    texts_in,
)
from ..records.want import Want, read_wants
from ..store.call import Store
from .ask import asking_options
from .complete import complete_announced, complete_module_words
from .many import agrees, is_asked
from .options import json_option, opened, store_options
from .output import note, write_json, write_table

_COLUMNS = ("MODULE", "VERSION", "STATE", "NODE", "CONTEXT", "TASKS", "SOURCE", "DIGEST", "ERROR")
_VERSIONS = ("VERSION", "FIRST SEEN", "TASKS", "AUTHORS", "DIGEST")
_LOOK_EVERY = 0.1
_DIGEST_SHOWN = 12

Record = Mapping[str, Any]


@click.group()
def module() -> None:
    """The modules of nodes: list them, and change them while nodes run.

    A node loads only what it was started with, or what `available` in its settings file lists.
    """


@module.command(name="ls")
@click.argument("name", required=False, metavar="[MODULE]", shell_complete=complete_announced)
@json_option
@store_options
def ls(name: str | None, as_json: bool, store: StoreConfig) -> None:
    """List the modules of all live nodes; of one MODULE also every version that was ever announced,
    with its authors.

    STATE is serving; loading (wanted, and no worker is ready yet); draining (dropped or replaced,
    and jobs of it still run); broken (it cannot be loaded, or its workers lack a task: ERROR says
    why, and what was loaded before goes on); refused (this node may not load it).
    """
    from ..store import modules

    with opened(store) as opened_store:
        records = opened_store.run(modules.find_nodes(None))
        known = opened_store.run(modules.versions(name)) if name is not None else []
    found = [
        (record, one) for record in records for one in loaded_in(record) if name in (None, one.name)
    ]
    if name is not None and not found and not known:
        raise ConfigError(f"no node has ever announced a module {legible(name, 100)!r}")
    if as_json:
        for record, one in found:
            write_json(_told(record, one))
        for document in known:
            write_json(_told_version(document))
        return
    if found:
        write_table(_COLUMNS, [_row(*one) for one in found], right=("TASKS",), cut=("ERROR",))
    else:
        note("no live node has it" if name else "no live node has a module")
    if known:
        click.echo()
        write_table(_VERSIONS, map(_version, known), right=("TASKS",), cut=("AUTHORS",))


def _told(record: Record, one: Loaded) -> dict[str, Any]:
    who = {"node": _name(record), "_id": record["_id"]}
    what = {field: getattr(one, field) for field in Loaded.__slots__}
    return {**who, **{field: value for field, value in what.items() if value}}


def _told_version(document: Record) -> dict[str, Any]:
    """A version that was announced, whoever has it now: a row without a node."""
    texts = {field: texts_in(document, field) for field in ("authors", "tasks")}
    told = {"name": document.get("module"), "version": document.get("version"), **texts}
    return {**told, "digest": document.get("digest"), "seen_at": document.get("seen_at")}


def _row(record: Record, one: Loaded) -> tuple[Any, ...]:
    return (
        one.name,
        one.version or "-",
        one.state,
        _name(record),
        one.context or "-",
        len(one.tasks),
        one.source or "-",
        one.digest[:_DIGEST_SHOWN] or "-",
        legible(one.error, 200),
    )


def _version(document: Record) -> tuple[Any, ...]:
    seen = document.get("seen_at")
    authors = ", ".join(texts_in(document, "authors")) or "-"
    return (
        str(document.get("version", "")),
        f"{seen:%Y-%m-%d %H:%M}" if isinstance(seen, datetime) else "-",
        len(texts_in(document, "tasks")),
        authors,
        str(document.get("digest", ""))[:_DIGEST_SHOWN] or "-",
    )


@module.command()
@click.argument("words", nargs=-1, metavar="NODE SOURCE", shell_complete=complete_module_words)
@click.option("--context", help="The context that is to have it. [default: the first]")
@asking_options
def add(
    *,
    words: tuple[str, ...],
    context: str | None,
    every: bool,
    wait: bool,
    within: str,
    as_json: bool,
    store: StoreConfig,
) -> None:
    """Ask a node to load SOURCE as well: what Python can import, one of its modules, or a file.

    NODE is a name or an id; with --all there is none. It must have been started with SOURCE, or
    `available` in its settings file must list it.

    \b
    Examples:
      tontine module add web-1 etl.tasks
      tontine module add --all etl.tasks --context batch --wait
    """
    from ..store import modules

    node, (source,) = _read_words(words, every, ["SOURCE"])
    limit = seconds(within)
    with opened(store) as opened_store:
        records = _able(opened_store.run(modules.find_nodes(node)))
        for record in records:
            _refuse_source(record, source, context)
        opened_store.run(modules.want(_ids(records), Want(source, context)))

        def is_done(record: Record) -> bool | None:
            states = {one.state for one in loaded_in(record) if one.source == source}
            if states & {BROKEN, REFUSED}:
                return False
            return True if SERVING in states else None

        ends = _wait(opened_store, records, is_done, limit) if wait else {}
    _tell(records, ends, f"load {legible(source, 100)}", as_json, wait=wait)


@module.command()
@click.argument("words", nargs=-1, metavar="NODE MODULE", shell_complete=complete_module_words)
@click.option("--yes", "-y", is_flag=True, help="Do not ask, whoever else has it.")
@asking_options
def rm(
    *,
    words: tuple[str, ...],
    yes: bool,
    every: bool,
    wait: bool,
    within: str,
    as_json: bool,
    store: StoreConfig,
) -> None:
    """Ask a node to drop MODULE: it claims nothing more of it, gives back what has not begun and
    lets what runs end.

    NODE is a name or an id; with --all there is none. It drops the source that brought the module,
    and with it all others that this source has.
    """
    from ..store import modules

    node, (name,) = _read_words(words, every, ["MODULE"])
    limit = seconds(within)
    with opened(store) as opened_store:
        live = opened_store.run(modules.find_nodes(None))
        chosen = {one["_id"] for one in opened_store.run(modules.find_nodes(node))}
        records = _able([one for one in live if one["_id"] in chosen])
        having = [one for one in records if _sources(one, name)]
        if not having:
            raise ConfigError(_told_lacking(records, name))
        sources = {source for one in having for source in _sources(one, name)}
        for doubt in _doubts(opened_store, live, having, name, sources):
            _ask(doubt, yes)
        opened_store.run(modules.want_no_more(_ids(having), sources))

        def is_done(record: Record) -> bool | None:
            return None if any(one.source in sources for one in loaded_in(record)) else True

        ends = _wait(opened_store, having, is_done, limit) if wait else {}
    _tell(having, ends, f"drop {legible(name, 100)}", as_json, wait=wait)


@module.command()
@click.argument("words", nargs=-1, metavar="NODE", shell_complete=complete_module_words)
@asking_options
def reload(
    *,
    words: tuple[str, ...],
    every: bool,
    wait: bool,
    within: str,
    as_json: bool,
    store: StoreConfig,
) -> None:
    """Ask a node for new workers, which load its modules anew: after their files changed.

    NODE is a name or an id; with --all there is none. Old workers finish what they run. Where the
    new files cannot be loaded, the old workers stay, and `module ls` says why.
    """
    from ..store import modules

    node, _ = _read_words(words, every, [])
    limit = seconds(within)
    with opened(store) as opened_store:
        records = _able(opened_store.run(modules.find_nodes(node)))
        before = {one["_id"]: _number(one.get("reload")) for one in records}
        opened_store.run(modules.ask_to_reload(_ids(records)))

        def is_done(record: Record) -> bool | None:
            heard, fulfilled = (_number(record.get(one)) for one in ("reloading", "reloaded"))
            if fulfilled > before[record["_id"]]:
                return True
            is_broken = any(one.state == BROKEN for one in loaded_in(record))
            # What was broken when it was asked tells nothing of what is loaded now.
            return False if is_broken and heard > before[record["_id"]] else None

        ends = _wait(opened_store, records, is_done, limit) if wait else {}
    _tell(records, ends, "load its modules anew", as_json, wait=wait)


def _read_words(
    words: Sequence[str], every: bool, expected: Sequence[str]
) -> tuple[str | None, Sequence[str]]:
    """The node, or None for all of them, and what comes after it."""
    names = [*([] if every else ["NODE"]), *expected]
    if len(words) != len(names):
        told = " ".join(names) or "nothing more"
        hint = "" if every else ", or --all instead of NODE"
        raise click.UsageError(f"give {told}{hint}")
    return (None, words) if every else (words[0], words[1:])


def _able(records: Sequence[Record]) -> list[Record]:
    """Those that can be asked: nodes of earlier releases do not read what is wanted."""
    if not records:
        note("no node is alive")
    for record in records:
        if read_wants(record.get("wants")) is None:
            raise ConfigError(
                f"{_name(record)} runs a release that cannot change its modules: start it anew"
            )
    return list(records)


def _refuse_source(record: Record, source: str, context: str | None) -> None:
    started, available = (texts_in(record, field) for field in ("started_with", "available"))
    if source not in (*started, *available):
        raise ConfigError(
            f"{_name(record)} may not load {legible(source, 100)!r}: it was started with "
            f"{_listed(started)}, and 'available' lists {_listed(available)}"
        )
    names = [one.name for one in contexts_in(record)]
    if context is not None and names and context not in names:
        raise ConfigError(
            f"{_name(record)} has no context {legible(context, 60)!r}: it has {_listed(names)}"
        )
    there = _context_of(record, source)
    if None not in (context, there) and context != there:
        raise ConfigError(
            f"{_name(record)} has {legible(source, 100)!r} in its context {legible(there, 60)} "
            "already: a module belongs to one; drop it there first, with `tontine module rm`"
        )


def _context_of(record: Record, source: str) -> str | None:
    """The context that has a source, or is to have it; None when that is not wanted."""
    wants = [want for want in read_wants(record.get("wants")) or () if want.source == source]
    if not wants:
        return None
    loaded = [one.context for one in loaded_in(record) if one.source == source and one.context]
    names = [one.name for one in contexts_in(record)]
    return next(filter(None, [wants[0].context, *loaded, *names]), None)


def _sources(record: Record, name: str) -> list[str]:
    """What brought a module to a node, as far as it is still wanted there."""
    wanted = {want.source for want in read_wants(record.get("wants")) or ()}
    found = {one.source for one in loaded_in(record) if name in (one.name, one.source)}
    return sorted(found & wanted)


def _told_lacking(records: Sequence[Record], name: str) -> str:
    who = _name(records[0]) if len(records) == 1 else "no live node"
    has = sorted({one.name for record in records for one in loaded_in(record)})
    verb = "has no module" if len(records) == 1 else "has a module"
    there = f": there is {_listed(has)}" if has else ""
    return f"{who} {verb} {legible(name, 100)!r}{there}"


def _doubts(
    store: Store,
    live: Sequence[Record],
    having: Sequence[Record],
    name: str,
    sources: set[str],
) -> Iterator[str]:
    """What somebody should know before they are dropped."""
    gone = [one for record in having for one in loaded_in(record) if one.source in sources]
    others = sorted({one.name for one in gone} - {name})
    if others:
        yield f"{_listed(sorted(sources))} also brought {_listed(others)}: they go with it"
    leaving = {record["_id"] for record in having}
    kept = {
        task
        for record in live
        if record["_id"] not in leaving
        for one in loaded_in(record)
        if one.state not in ABSENT
        for task in one.tasks
    }
    lost = sorted({task for one in gone for task in one.tasks} - kept)
    waiting = _queued(store, lost) if lost else 0
    if lost:
        verb = "will wait: no other node has it"
        yield f"{count(waiting, 'queued job')} of {legible(name, 100)} {verb}"


def _queued(store: Store, tasks: Sequence[str]) -> int:
    from ..store.stats import count_queued

    counts = store.run(count_queued(tasks))
    return sum(counts.get(task, 0) for task in tasks)


def _ask(doubt: str, yes: bool) -> None:
    if yes:
        note(doubt)
        return
    if not is_asked():
        raise ConfigError(f"{doubt}: give --yes to drop it")
    if not agrees(f"{doubt}: drop it?"):
        note("nothing was changed")
        raise click.exceptions.Exit(1)


def _wait(
    store: Store,
    records: Sequence[Record],
    is_done: Callable[[Record], bool | None],
    limit: float,
) -> dict[Any, bool | None]:
    """How each of these ended up, at the latest when the time is up; one that died did not."""
    from ..store import modules

    until = time.monotonic() + limit
    while True:
        live = {one["_id"]: one for one in store.run(modules.find_nodes(None))}
        ends = {
            record["_id"]: is_done(live[record["_id"]]) if record["_id"] in live else False
            for record in records
        }
        if time.monotonic() >= until or None not in ends.values():
            return ends
        time.sleep(_LOOK_EVERY)


def _tell(
    records: Sequence[Record],
    ends: Mapping[Any, bool | None],
    what: str,
    as_json: bool,
    *,
    wait: bool,
) -> None:
    for record in records:
        is_done = ends.get(record["_id"])
        if as_json:
            write_json(
                {"_id": record["_id"], "node": _name(record), "asked": what, "done": is_done}
            )
        elif not wait:
            click.echo(f"asked {_name(record)} to {what}")
        elif is_done:
            click.echo(f"{_name(record)} did: {what}")
        else:
            note(f"{_name(record)} did not {what}: `tontine module ls` says how far it is")
    if wait and not all(ends.values()):
        raise click.exceptions.Exit(1)


def _listed(names: Sequence[str]) -> str:
    return ", ".join(legible(name, 100) for name in names) or "nothing"


def _name(record: Record) -> str:
    return legible(record.get("name", record["_id"]), 100)


def _ids(records: Sequence[Record]) -> list[Any]:
    return [record["_id"] for record in records]


def _number(value: Any) -> int:
    return value if isinstance(value, int) else 0
