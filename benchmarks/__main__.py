"""`scripts/bench`: measure Tontine, its limit and its peers on this machine."""

from __future__ import annotations

import importlib
import sys
import traceback
from collections.abc import Callable
from contextlib import ExitStack
from importlib.util import find_spec
from pathlib import Path

import click

from tontine.errors import TontineError

from . import report, rivals, servers, targets
from .plan import PARTS, Plan, full, quick
from .plot import draw
from .progress import say
from .record import Record
from .scene import Scene
from .servers import versions

RESULTS = Path(__file__).with_name("results")
_RIVALROUS = ("drain", "submit", "latency", "plans", "survival")


def _some(
    known: tuple[str, ...],
) -> Callable[[click.Context, click.Parameter, str], tuple[str, ...]]:
    """Names separated by commas, or `all`, or `none`."""

    def chosen(_: click.Context, __: click.Parameter, value: str) -> tuple[str, ...]:
        names = {"all": known, "none": ()}.get(value, tuple(value.split(",")))
        for name in names:
            if name not in known:
                raise click.BadParameter(f"{name!r} is none of {', '.join(known)}")
        return tuple(name for name in known if name in names)

    return chosen


def _sizes(_: click.Context, __: click.Parameter, value: str | None) -> tuple[int, ...] | None:
    """Numbers separated by commas."""
    if value is None:
        return None
    try:
        sizes = tuple(sorted({int(one) for one in value.split(",")}))
    except ValueError as error:
        raise click.BadParameter(f"{value!r} is not a list of numbers like 20000,200000") from error
    if sizes[0] < 100:
        raise click.BadParameter("a backlog of less than 100 jobs tells nothing")
    return sizes


@click.command()
@click.option(
    "--only",
    callback=_some(PARTS),
    default="all",
    show_default=True,
    help=f"Of {', '.join(PARTS)}.",
)
@click.option(
    "--peers",
    callback=_some(rivals.SCRIPTS),
    default="all",
    show_default=True,
    help=f"Of {', '.join(rivals.SCRIPTS)}.",
)
@click.option(
    "--rounds", type=click.IntRange(1, 100), help="How often to measure.  [default: 5; quick: 1]"
)
@click.option(
    "--sizes",
    callback=_sizes,
    help="Backlogs to drain.  [default: 20000,200000,1000000; quick: 500,1000]",
)
@click.option(
    "--quick", "is_quick", is_flag=True, help="Small counts, to see that everything works."
)
@click.option(
    "--out",
    type=click.Path(file_okay=False, path_type=Path),
    default=RESULTS,
    help="Where to put JSON and plot.",
)
@click.option(
    "--install-servers",
    is_flag=True,
    help="Install redis-server and postgresql with apt-get, and end.",
)
def bench(
    only: tuple[str, ...],
    peers: tuple[str, ...],
    rounds: int | None,
    sizes: tuple[int, ...] | None,
    is_quick: bool,
    out: Path,
    install_servers: bool,
) -> None:
    """Measure Tontine, the bare loop of its store calls, and its peers, on servers of this run's
    own.

    The whole takes about an hour and a half. Leave the machine alone meanwhile: ratios hold,
    seconds do not.
    """
    servers.stop_when_told()
    try:
        if install_servers:
            servers.install()
            return
        _bench(
            only, peers, quick(rounds, sizes) if is_quick else full(rounds, sizes), is_quick, out
        )
    except TontineError as error:
        raise click.ClickException(str(error)) from error


def _bench(
    only: tuple[str, ...], peers: tuple[str, ...], plan: Plan, is_quick: bool, out: Path
) -> None:
    record = Record()
    with ExitStack() as stack:
        scene = Scene(stack.enter_context(servers.mongodb()), plan, record)
        if set(only) & set(_RIVALROUS):
            scene.rivals = rivals.enter(stack, peers, record)
        for what in record.left_out:
            say(f"left out: {what}")
        record.versions = versions(scene.uri)
        for part in only:
            _run(part, scene)
            _save(record, plan, out)
    verdicts = targets.judge(record, plan)
    report.write(record, verdicts, is_quick=is_quick)
    _draw(out)
    if not record.series:
        sys.exit(1)


def _run(part: str, scene: Scene) -> None:
    """One part; what goes wrong in it does not take hours of others' figures with it."""
    try:
        importlib.import_module(f"benchmarks.parts.{part}").run(scene)
    except Exception as error:  # noqa: BLE001 - whatever it was, the other parts are to be measured
        traceback.print_exc()
        scene.record.leave_out(f"{part} ended early: {error}")


def _save(record: Record, plan: Plan, out: Path) -> None:
    report.save(report.document(record, targets.judge(record, plan), plan), out)


def _draw(out: Path) -> None:
    if find_spec("matplotlib") is None:
        say(f"wrote {out / 'bench.json'}; no plot without the extra `bench`")
        return
    import orjson

    is_drawn = draw(orjson.loads((out / "bench.json").read_bytes()), out / "bench.svg")
    plot = f" and {out / 'bench.svg'}" if is_drawn else "; nothing of it is plotted"
    say(f"wrote {out / 'bench.json'}{plot}")


if __name__ == "__main__":
    bench()
