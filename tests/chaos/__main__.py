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
from tontine.cli.output import json_text


def _kinds(only: str | None) -> list[str]:
    if only is None:
        return list(KINDS)
    wanted = [name.strip() for name in only.split(",")]
    for name in wanted:
        if name not in KINDS:
            raise click.UsageError(f"there is no fault {name!r}; there are: {', '.join(KINDS)}")
    return wanted


@click.command(context_settings={"help_option_names": ["-h", "--help"]})
@click.option("--seed", default=1, show_default=True, help="The same seed makes the same plan.")
@click.option("--minutes", default=10.0, show_default=True, help="How long faults happen; calm and audit come after.")
@click.option("--nodes", default=5, show_default=True, help="Nodes at the start; others come and go.")
@click.option("--lease", default=6.0, show_default=True, help="The nodes' lease in seconds.")
@click.option("--every", default=1.5, show_default=True, help="Seconds from fault to fault, on average.")
@click.option("--only", metavar="KIND,...", help="Only these kinds of faults.")
@click.option("--plan", "only_plan", is_flag=True, help="Show the plan and end.")
@click.option("--json", "as_json", is_flag=True, help="The figures as JSON.")
@click.option("--quiet", is_flag=True, help="No line for each fault.")
@click.option("--keep", type=click.Path(file_okay=False, path_type=Path), help="Where to leave logs and records.")
def chaos(
    seed: int,
    minutes: float,
    nodes: int,
    lease: float,
    every: float,
    only: str | None,
    only_plan: bool,
    as_json: bool,
    quiet: bool,
    keep: Path | None,
) -> None:
    """Real nodes on a real replica set of three, under faults drawn from a seed; then calm, and an audit of everything.

    Exit code 0: nothing lost, nothing settled twice, nothing stuck. 1: violations, listed. The directory with logs is
    kept after violations.

    \b
    Faults:
    """
    kinds = _kinds(only)
    if shutil.which("cc") is None:
        click.echo("chaos: all clocks are right in this run, wrong ones need a C compiler (cc)", err=True)
    plan = draw(seed, 60 * minutes, nodes, lease, every, kinds)
    if only_plan:
        click.echo("\n".join(faults_of(plan)))
        return
    directory = keep or Path(tempfile.mkdtemp(prefix="tontine-chaos-"))
    directory.mkdir(parents=True, exist_ok=True)
    signal.signal(signal.SIGTERM, lambda *_: sys.exit(143))  # so that no process is left behind
    began = time.monotonic()
    say = (lambda _: None) if quiet else (lambda text: click.echo(text, err=True))
    verdict = run(plan, seed, 60 * minutes, lease, directory, say)
    figures = {"seed": seed, "minutes": minutes, **verdict.figures, "violations": len(verdict.violations)}
    if as_json:
        click.echo(json_text(figures))
    else:
        for name, figure in figures.items():
            click.echo(f"{name:<30} {figure}")
    for violation in verdict.violations:
        click.echo(f"VIOLATED {violation}", err=True)
    if verdict.violations:
        click.echo(f"chaos: seed {seed}: {len(verdict.violations)} violations; see {directory}", err=True)
    else:
        click.echo(f"chaos: seed {seed}: nothing lost, nothing settled twice, nothing stuck", err=True)
        click.echo(f"chaos: took {time.monotonic() - began:.0f} s", err=True)
        if keep is None:
            shutil.rmtree(directory, ignore_errors=True)
    sys.exit(1 if verdict.violations else 0)


if chaos.help is not None:
    chaos.help += "".join(f"  {name:<15} {kind.what}\n" for name, kind in KINDS.items())

if __name__ == "__main__":
    chaos()
