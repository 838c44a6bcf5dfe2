"""The `tontine` command. Each command is a file beside this one; `node` and `observe` are found by
entry point."""

from __future__ import annotations

import contextlib
import difflib
import importlib
import io
import os
import sys
from importlib.metadata import entry_points
from typing import NoReturn

import click
from click.core import ParameterSource

from ..errors import ConfigError, TontineError, UnknownJob, UnknownNode, UnknownPlan
from ..uri import hide_all

_COMMANDS = {
    "submit": "submit",
    "jobs": "jobs",
    "job": "job",
    "nodes": "nodes",
    "plan": "plan",
    "plans": "plan",
    "pause": "ask",
    "resume": "ask",
    "stop": "ask",
    "retry": "amend",
    "cancel": "amend",
    "purge": "purge",
    "schedule": "schedule",
    "state": "state",
    "stats": "stats",
    "metrics": "metrics",
    "module": "module",
    "why": "why",
    "doctor": "doctor",
    "audit": "audit",
    "init": "init",
    "bench": "bench",
    "config": "config",
    "db": "db",
    "demo": "demo",
}


_NOT_ON_WINDOWS = (
    "bench",
    "demo",
    "node",
)  # they run nodes, whose workers need process groups and signals

# One line each in `tontine --help`, where the first sentence of a command's own text would be cut
# off.
_BRIEFLY = {
    "audit": "Check the invariants in the documents.",
    "bench": "Measure this deployment.",
    "cancel": "End queued or running jobs, or a plan.",
    "config": "Show every setting, and who said so.",
    "db": "The embedded MongoDB: start, stop, status, uri.",
    "demo": "See it work, with nothing else set up.",
    "doctor": "Check the deployment.",
    "init": "Make the database ready; say how long jobs are kept.",
    "job": "Show one job whole, or what it printed.",
    "jobs": "List jobs.",
    "metrics": "Serve the cluster to Prometheus.",
    "module": "Modules of running nodes: ls, add, rm, reload.",
    "node": "Run one node in the foreground.",
    "nodes": "List nodes, their states and shares.",
    "observe": "Watch the nodes and the queue.",
    "pause": "Ask nodes to pause.",
    "plan": "Show one plan as a tree of its steps.",
    "plans": "List plans.",
    "purge": "Remove finished jobs.",
    "resume": "Ask paused nodes to go on.",
    "retry": "Put finished jobs back in the queue; go on with a plan.",
    "schedule": "Recurring jobs: add, ls, on, off, run, rm.",
    "state": "Named states: set, get, ls, rm.",
    "stats": "Show what tasks have counted.",
    "stop": "Ask nodes to stop.",
    "submit": "Insert jobs, or a plan.",
    "why": "Tell why a job or a plan is where it is.",
}


class _Commands(click.Group):
    """Loads a command only when it is used, so that `tontine` starts quickly."""

    def list_commands(self, ctx: click.Context) -> list[str]:  # noqa: ARG002
        return sorted(
            {*_COMMANDS, *(point.name for point in entry_points(group="tontine.commands"))}
        )

    def get_command(self, ctx: click.Context, name: str) -> click.Command | None:  # noqa: ARG002
        found: object
        if sys.platform == "win32" and name in _NOT_ON_WINDOWS:
            found = _refused_on_windows(name)
        elif name in _COMMANDS:
            found = getattr(importlib.import_module(f"{__name__}.{_COMMANDS[name]}"), name)
        else:
            points = entry_points(group="tontine.commands", name=name)
            found = next(iter(points)).load() if points else None
        if not isinstance(found, click.Command):
            return None
        found.short_help = _BRIEFLY.get(name)
        return found

    def resolve_command(
        self, ctx: click.Context, args: list[str]
    ) -> tuple[str | None, click.Command | None, list[str]]:
        try:
            return super().resolve_command(ctx, args)
        except click.UsageError:
            near = difflib.get_close_matches(args[0], self.list_commands(ctx), 1)
            hint = (
                f": did you mean `tontine {near[0]}`?" if near else ": `tontine --help` lists them"
            )
            raise click.UsageError(f"there is no command {args[0]!r}{hint}") from None


def _refused_on_windows(name: str) -> click.Command:
    """A command that is listed, takes anything, and says where it works."""

    @click.command(name, context_settings={"ignore_unknown_options": True}, add_help_option=False)
    @click.argument("anything", nargs=-1, type=click.UNPROCESSED)
    def refuse(anything: tuple[str, ...]) -> None:  # noqa: ARG001
        raise ConfigError(
            f"`tontine {name}` does not run on Windows: run nodes on Linux or macOS, in a "
            "container or in WSL 2; "
            f"submitting and looking at jobs works here"
        )

    return refuse


@click.group(
    cls=_Commands,
    context_settings={"help_option_names": ["-h", "--help"], "max_content_width": 100},
)
@click.version_option(package_name="tontine")
def tontine() -> None:
    """Identical nodes share one job queue in MongoDB: no leader, no broker, and survivors inherit.

    \b
    First steps:
      tontine demo                            see it work, with nothing else set up
      tontine node shop.tasks                 run a node with your tasks
      tontine submit shop.resize '{"image": "a.png"}' --wait
      tontine observe                         watch the nodes and the queue

    Shell completion: `eval "$(_TONTINE_COMPLETE=bash_source tontine)"` (or zsh_source,
    fish_source).
    """


def main() -> NoReturn:
    """Run the command; errors are one line on stderr: 2 for a user's, 1 for a failure, 130 for
    Ctrl-C."""
    _write_any_text()
    try:
        code = tontine.main(standalone_mode=False)
        _leave(code if isinstance(code, int) else 0)
    except click.exceptions.NoArgsIsHelpError as error:
        click.echo(error.ctx.get_help() if error.ctx else "")
        _leave(0)
    except click.ClickException as error:
        context = getattr(error, "ctx", None)
        where = (
            f" ({_variable(error)}see `{context.command_path} --help`)"
            if context is not None
            else ""
        )
        _end(f"{error.format_message().rstrip('.')}{where}", 2)
    except (ConfigError, UnknownJob, UnknownNode, UnknownPlan) as error:
        _end(str(error), 2)
    except TontineError as error:
        _end(str(error), 1)
    except (KeyboardInterrupt, click.Abort):
        _leave(130)
    except BrokenPipeError:
        _leave(0)
    except SystemExit as ending:
        _leave(ending.code if isinstance(ending.code, int) else 1)


def _write_any_text() -> None:
    """Let no character end a command: pipes on Windows have an encoding from before Unicode, and so
    may a terminal."""
    for stream in (sys.stdout, sys.stderr):
        if isinstance(stream, io.TextIOWrapper):
            if sys.platform == "win32" and not stream.isatty():
                stream.reconfigure(encoding="utf-8")  # JSON is UTF-8, whoever reads it
            stream.reconfigure(errors="backslashreplace")


def _variable(error: click.ClickException) -> str:
    """Which variable of the environment the refused value comes from, if one."""
    if not isinstance(error, click.BadParameter) or error.ctx is None or error.param is None:
        return ""
    if error.ctx.get_parameter_source(error.param.name or "") is not ParameterSource.ENVIRONMENT:
        return ""
    return f"{error.param.envvar or f'TONTINE_{error.param.name}'.upper()} says so; "


def _end(message: str, code: int) -> NoReturn:
    # A usage error quotes what was typed, and that may be a URI in the wrong place.
    click.echo(f"tontine: {' '.join(hide_all(message).split())}", err=True)
    _leave(code)


def _leave(code: int) -> NoReturn:
    # pymongo would join its monitor threads for more than half a second, which one feels after
    # every command.
    for stream in (sys.stdout, sys.stderr):
        with contextlib.suppress(OSError, ValueError):
            stream.flush()
    os._exit(code)
