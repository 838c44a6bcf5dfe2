"""`scripts/chaos`: flags -> a plan -> a run -> a verdict."""

from __future__ import annotations

import shutil
import signal
import sys
import tempfile
import time
from pathlib import Path

import click

from tests.chaos.plan import KINDS, draw
from tests.chaos.run import faults_of, run
from tests.chaos.verdict import Verdict
from tontine.cli.output import json_text
from tontine.errors import ConfigError

_FAULTS = "\n".join(f"  {name:<15} {kind.what}" for name, kind in KINDS.items())
_HELP = f"""Real nodes on a real replica set of three, under faults drawn from a seed; then calm,
and an audit of all.

Exit code 0: nothing lost, nothing settled twice, nothing stuck. 1: violations, which are listed;
the directory with the logs is kept then.

\b
Faults:
{_FAULTS}
"""


def _kinds(context: click.Context, parameter: click.Parameter, only: str | None) -> list[str]:
    wanted = [name.strip() for name in only.split(",")] if only else list(KINDS)
    for name in wanted:
        if name not in KINDS:
            raise click.BadParameter(f"there is no fault {name!r}; there are: {', '.join(KINDS)}")
    return wanted


@click.command(context_settings={"help_option_names": ["-h", "--help"]}, help=_HELP)
@click.option("--seed", default=1, show_default=True, help="The same seed makes the same plan.")
@click.option(
    "--minutes",
    type=click.FloatRange(0, min_open=True),
    default=10.0,
    show_default=True,
    help="How long faults happen; calm and audit come after.",
)
@click.option(
    "--nodes",
    type=click.IntRange(1, 20),
    default=5,
    show_default=True,
    help="At the start; others join.",
)
@click.option(
    "--lease",
    type=click.FloatRange(2, 60),
    default=6.0,
    show_default=True,
    help="The nodes' lease in seconds.",
)
@click.option(
    "--every",
    type=click.FloatRange(0.1),
    default=1.5,
    show_default=True,
    help="Seconds from fault to fault, on average.",
)
@click.option(
    "--only", "kinds", metavar="KIND,...", callback=_kinds, help="Only these kinds of faults."
)
@click.option("--plan", "only_plan", is_flag=True, help="Show the plan and end.")
@click.option("--json", "as_json", is_flag=True, help="The figures as JSON.")
@click.option("--quiet", is_flag=True, help="No line for each fault.")
@click.option(
    "--keep",
    type=click.Path(file_okay=False, path_type=Path),
    help="Where to leave logs and records.",
)
def chaos(
    seed: int,
    minutes: float,
    nodes: int,
    lease: float,
    every: float,
    kinds: list[str],
    only_plan: bool,
    as_json: bool,
    quiet: bool,
    keep: Path | None,
) -> None:
    plan = draw(seed, 60 * minutes, nodes, lease, every, kinds)
    if only_plan:
        click.echo("\n".join(faults_of(plan)))
        return
    if shutil.which("cc") is None:
        click.echo(
            "chaos: all clocks are right in this run, wrong ones need a C compiler (cc)", err=True
        )
    directory = keep or Path(tempfile.mkdtemp(prefix="tontine-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    if any(directory.iterdir()):
        raise click.UsageError(f"{directory} is not empty: choose a new directory")
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no process is left behind
    began = time.monotonic()
    say = (lambda _: None) if quiet else (lambda text: click.echo(text, err=True))
    try:
        verdict = run(plan, seed, 60 * minutes, lease, directory, say)
    except ConfigError as error:
        raise click.ClickException(str(error)) from None
    _tell({"seed": seed, "minutes": minutes}, verdict, as_json)
    if verdict.violations:
        click.echo(
            f"chaos: seed {seed}: {len(verdict.violations)} violations; see {directory}", err=True
        )
        sys.exit(1)
    click.echo(f"chaos: seed {seed}: nothing lost, nothing settled twice, nothing stuck", err=True)
    click.echo(f"chaos: took {time.monotonic() - began:.0f} s", err=True)
    if keep is None:
        shutil.rmtree(directory, ignore_errors=True)


def _tell(wishes: dict[str, float], verdict: Verdict, as_json: bool) -> None:
    figures = {
        **wishes,
        **verdict.figures,
        "violations": verdict.violations if as_json else len(verdict.violations),
    }
    if as_json:
        click.echo(json_text(figures))
    else:
        for name, figure in figures.items():
            click.echo(f"{name:<30} {figure}")
    for violation in verdict.violations:
        click.echo(f"VIOLATED {violation}", err=True)


if __name__ == "__main__":
    chaos()
