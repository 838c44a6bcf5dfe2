"""What `jobs`, `retry`, `cancel` and `purge` have in common: filters as options, and changing many
jobs at once.

They are counted first and said; a person is asked, a script has to say `--yes`.
"""

from __future__ import annotations

import signal
import sys
from collections.abc import Callable, Iterable, Iterator
from contextlib import contextmanager
from dataclasses import dataclass
from types import FrameType
from typing import TYPE_CHECKING, Any

import click

from ..config import StoreConfig
from ..errors import ConfigError
from ..filter import Filter
from ..legible import count, legible
from ..records.states import JobState
from .complete import complete_nodes, complete_schedules, complete_tasks
from .options import Command, opened
from .output import note, write_json
from .progress import Meter

if TYPE_CHECKING:
    from ..changed import Changed
    from ..store.call import Operation, Store

COUNTED_AT_MOST = 1_000_000
REASONS_SHOWN = 5


def filter_options(states: Iterable[JobState]) -> Callable[[Command], Command]:
    """Options that say which jobs, given to the command as keywords of `Filter.of`."""
    choice = click.Choice([state.value for state in JobState if state in frozenset(states)])
    options = [
        click.option(
            "--state", type=choice, multiple=True, help="Only jobs in this state; may be repeated."
        ),
        click.option(
            "--task",
            help="Only jobs of this task, like shop.resize or shop.*",
            shell_complete=complete_tasks,
        ),
        click.option("--key", help="Only jobs with this key, like welcome-ada or welcome-*"),
        click.option(
            "--error",
            help="Only jobs whose error is of this type, or matches a pattern like *refused*",
        ),
        click.option(
            "--schedule", help="Only jobs of this schedule.", shell_complete=complete_schedules
        ),
        click.option(
            "--node",
            help="Only jobs that this node, a name or an id, holds or held last.",
            shell_complete=complete_nodes,
        ),
        click.option(
            "--since",
            metavar="TIME",
            help="Not longer ago: 2h, 7d, or 2030-01-31T06:00 (local time).",
        ),
        click.option(
            "--until", metavar="TIME", help="Longer ago: 2h, 7d, or 2030-01-31T06:00 (local time)."
        ),
    ]

    def add(command: Command) -> Command:
        for option in reversed(options):
            command = option(command)
        return command

    return add


def changing_options(command: Command) -> Command:
    """What a command has that changes many."""
    options = [
        click.option("--all", "every", is_flag=True, help="Every job that it can be done to."),
        click.option("--dry-run", is_flag=True, help="Only say how many jobs that would be."),
        click.option("--yes", "-y", is_flag=True, help="Do not ask."),
    ]
    for option in reversed(options):
        command = option(command)
    return command


def filter_of(options: dict[str, Any]) -> Filter:
    """The filter of what `filter_options` gave."""
    return Filter.of(**{**options, "state": options.get("state") or None})


def is_asked() -> bool:
    """Whether somebody is there who can be asked."""
    return sys.stdin.isatty()


def agrees(question: str) -> bool:
    """What the person at the terminal says."""
    return click.confirm(question, err=True)


@dataclass(frozen=True, slots=True)
class BulkCommand:
    """What is done to many: its words and the operation. `counted` is what it really means, for the
    count."""

    name: str
    verb: str
    past: str
    filter: Filter
    counted: Callable[[Filter], Operation[Filter]]
    change: Callable[[Filter, Callable[[int], None]], Operation[Changed]]
    caution: str = ""


def change_many(
    config: StoreConfig, deed: BulkCommand, *, dry_run: bool, yes: bool, as_json: bool
) -> None:
    """Count, ask, change and tell."""
    from ..store import find

    with opened(config) as store:
        meant = store.run(deed.counted(deed.filter))
        number = store.run(find.count(meant, COUNTED_AT_MOST))
        told = {"action": deed.name, "matched": number, "dry_run": dry_run}
        if dry_run or not number:
            _tell(
                told,
                (
                    f"{_headline(meant, number)}: "
                    f"{'nothing was changed' if number else 'nothing to do'}"
                ),
                as_json,
            )
            return
        _make_sure(_headline(meant, number), deed, number, yes=yes)
        changed = _change(store, deed, meant, number)
        _tell({**told, **_numbers(changed)}, _outcome(deed, changed), as_json)
    _explain(changed)
    raise click.exceptions.Exit(int(changed.refused > 0))


def _headline(meant: Filter, number: int) -> str:
    return meant.words(
        f"more than {COUNTED_AT_MOST:,}"
        if number > COUNTED_AT_MOST
        else f"{number:,}"
        if number
        else "no"
    )


def _make_sure(headline: str, deed: BulkCommand, number: int, *, yes: bool) -> None:
    if yes:
        return
    verb = deed.verb.format("it" if number == 1 else "them")
    if not is_asked():
        raise ConfigError(f"{headline}: give --yes to {verb}, or --dry-run to count only")
    if not agrees(f"{headline}: {deed.caution}{verb}?"):
        note("nothing was changed")
        raise click.exceptions.Exit(1)


def _change(store: Store, deed: BulkCommand, meant: Filter, number: int) -> Changed:
    done = 0

    with Meter(deed.name, number) as meter, _stopping() as is_stopped:

        def hear(so_far: int) -> None:
            nonlocal done
            done = so_far
            meter.reach(min(so_far, number))
            if is_stopped():
                raise KeyboardInterrupt

        try:
            return store.run(deed.change(meant, hear))
        except KeyboardInterrupt:
            more = "" if is_stopped() == 1 else ", and perhaps some more"
            meter.say(
                f"stopped: {count(done, 'job')} {deed.past}{more}; the others are as they were"
            )
            raise


@contextmanager
def _stopping() -> Iterator[Callable[[], int]]:
    """Let the first Ctrl-C end it after the batch that is being written, so that it can be said
    what was done."""
    pressed = 0

    def press(number: int, frame: FrameType | None) -> None:
        nonlocal pressed
        pressed += 1
        if pressed > 1:
            signal.default_int_handler(number, frame)

    before = signal.signal(signal.SIGINT, press)
    try:
        yield lambda: pressed
    finally:
        signal.signal(signal.SIGINT, before)


def _outcome(deed: BulkCommand, changed: Changed) -> str:
    parts = [f"{count(changed.count, 'job')} {deed.past}"]
    if changed.running:
        parts.append(
            f"{changed.running:,} of them still running: their nodes were asked to end them"
        )
    if changed.refused:
        parts.append(f"{changed.refused:,} could not be")
    return ", ".join(parts)


def _numbers(changed: Changed) -> dict[str, Any]:
    return {
        "changed": changed.count,
        "running": changed.running,
        "refused": changed.refused,
        "reasons": [{"seq": seq, "why": why} for seq, why in changed.reasons.items()],
    }


def _explain(changed: Changed) -> None:
    for seq, why in list(changed.reasons.items())[:REASONS_SHOWN]:
        note(f"job {seq} stays as it is: {legible(why, 300)}")
    if changed.refused > REASONS_SHOWN:
        note(f"... and {changed.refused - REASONS_SHOWN:,} more: --json tells the first hundred")


def _tell(told: dict[str, Any], words: str, as_json: bool) -> None:
    if as_json:
        write_json(told)
    else:
        click.echo(words)
