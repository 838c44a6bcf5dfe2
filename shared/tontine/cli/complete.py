"""What the shell completes: names from the store and from the disk.

It asks the store briefly, starts nothing and never complains.
"""

from __future__ import annotations

from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import TYPE_CHECKING, Any

import click
from click.shell_completion import CompletionItem

from ..config import StoreConfig
from ..legible import legible
from ..records.loaded import loaded_in, texts_in
from ..records.node import Sighting
from ..rules.health import known_tasks

if TYPE_CHECKING:
    from ..store.call import Operation

WITHIN = 1.0


def complete_nodes(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The names of live nodes, without those already on the line."""
    named = context.params.get("nodes") or ()
    return _matching((node.name for node in _live_nodes(context)), incomplete, named)


def complete_tasks(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The tasks that live nodes have."""
    return _matching(known_tasks(_live_nodes(context)), incomplete, ())


def complete_schedules(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The names of schedules."""
    from ..store.schedules import read_schedules

    return _matching((one.name for one in _answers(context, read_schedules())), incomplete, ())


def complete_announced(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The names of modules that live nodes have."""
    names = (one.name for record in _live_records(context) for one in loaded_in(record))
    return _matching(names, incomplete, ())


def complete_module_words(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """A node first, unless all are meant; then what it may load, or what it has."""
    words = context.params.get("words") or ()
    command = context.info_name
    if not words and not context.params.get("every"):
        return _matching((node.name for node in _live_nodes(context)), incomplete, ())
    records = [
        record
        for record in _live_records(context)
        if not words or words[0] in (record.get("name"), record["_id"])
    ]
    if command == "add":
        fields = ("started_with", "available")
        names = [one for record in records for field in fields for one in texts_in(record, field)]
    else:
        names = [one.name for record in records for one in loaded_in(record)]
    return _matching(names if command != "reload" else (), incomplete, ())


def complete_states(context: click.Context, _: click.Parameter, incomplete: str) -> list[str]:
    """The names of states."""
    from ..store.states import list_states

    found = _answers(context, list_states())
    return _matching((one.key for one in found if not one.is_removed), incomplete, ())


def complete_modules(
    _: click.Context, __: click.Parameter, incomplete: str
) -> list[CompletionItem]:
    """What `tontine node` takes from here: modules by dotted names, .py files, and files elsewhere
    by the shell."""
    names: list[str] = []
    if "/" not in incomplete:
        with suppress(OSError):
            names = _matching([*_dotted(incomplete), *_files(Path(), "*.py")], incomplete, ())
    return [CompletionItem(name) for name in names] or [CompletionItem(incomplete, type="file")]


def complete_arguments(_: click.Context, __: click.Parameter, incomplete: str) -> list[str]:
    """The JSON files that `@` can name."""
    if not incomplete.startswith("@"):
        return []
    directory = Path(incomplete[1:].rpartition("/")[0] or ".")
    with suppress(OSError):
        return _matching((f"@{name}" for name in _files(directory, "*.json")), incomplete, ())
    return []


def complete_files(_: click.Context, __: click.Parameter, incomplete: str) -> list[CompletionItem]:
    """Files, by the shell."""
    return [CompletionItem(incomplete, type="file")]


def _dotted(incomplete: str) -> Iterator[str]:
    """Importable names in the directory that the dots before the last one lead to."""
    parent, _, _ = incomplete.rpartition(".")
    directory = Path(*parent.split(".")) if parent else Path()
    for path in directory.iterdir():
        is_module = path.suffix == ".py" and parent  # here, the file's own name is offered instead
        if (
            path.stem.isidentifier()
            and path.stem != "__init__"
            and (is_module or (path / "__init__.py").is_file())
        ):
            yield f"{parent}.{path.stem}" if parent else path.stem


def _files(directory: Path, pattern: str) -> Iterator[str]:
    return (str(path) for path in directory.glob(pattern) if path.is_file())


def _matching(names: Iterable[str], incomplete: str, without: Iterable[str]) -> list[str]:
    left = set(names) - set(without)
    return sorted(name for name in left if name.startswith(incomplete) and name == legible(name))


def _live_nodes(context: click.Context) -> Iterator[Sighting]:
    yield from map(Sighting.from_document, _live_records(context))


def _live_records(context: click.Context) -> Iterator[dict[str, Any]]:
    from ..store.read import read_nodes

    yield from _answers(context, read_nodes(dead=False))


def _answers(context: click.Context, steps: Operation[list[Any]]) -> Iterator[Any]:
    # A shell that completes must stay silent whatever happens: no completion is the only complaint
    # it understands.
    with suppress(Exception):
        yield from _ask(_config(context), steps)


def _config(context: click.Context) -> StoreConfig:
    uri, database, file = (context.params.get(name) for name in ("uri", "database", "config_file"))
    return StoreConfig.of(uri, database, file=file)


def _ask(config: StoreConfig, steps: Operation[list[Any]]) -> list[Any]:
    from ..embedded import server as embedded
    from ..store.connect import open_store
    from ..store.read import hurried

    if config.uri is None:
        running = embedded.status()
        if running is None:
            return []
        config = StoreConfig(running.uri, config.database)
    store = open_store(config)
    try:
        return store.run(hurried(steps, WITHIN))
    finally:
        store.database.client.close()
