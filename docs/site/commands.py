"""The page of all commands, made from the commands themselves: usage, help, and every option with
its default."""

from __future__ import annotations

import inspect
import re
from collections.abc import Iterator
from textwrap import dedent
from typing import Any

import click
from sphinx.application import Sphinx

from tontine.cli import tontine

PAGE = "cli"
BAR = r"\|"
"""As a table has it, also in code."""
SHARED = ("uri", "database", "config_file")
"""Options that nearly all commands have: told once."""


def read_page(_: Sphinx, page: str, source: list[str]) -> None:
    """Put all commands behind the page's own text."""
    if page == PAGE:
        source[0] += "\n" + "\n".join(described())


def described() -> Iterator[str]:
    """The Markdown of all commands."""
    root = click.Context(tontine, info_name="tontine", **tontine.context_settings)
    for context in commands(root):
        yield from _described(context)


def commands(context: click.Context) -> Iterator[click.Context]:
    """Every command below this one, by name, each in a context of its own."""
    group = context.command
    if not isinstance(group, click.Group):
        return
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if command is not None and not command.hidden:
            below = click.Context(command, parent=context, info_name=name)
            yield below
            yield from commands(below)


def _described(context: click.Context) -> Iterator[str]:
    command = context.command
    depth = context.command_path.count(" ") + 1
    yield f"{'#' * depth} {context.command_path}\n"
    yield f"```text\n{' '.join(command.get_usage(context).removeprefix('Usage: ').split())}\n```\n"
    yield from paragraphs(command.help or "")
    options = [
        one
        for one in command.get_params(context)
        if isinstance(one, click.Option) and not one.hidden
    ]
    own = [one for one in options if one.name not in SHARED and "--help" not in one.opts]
    if own:
        yield from _table(own, context)
    if any(one.name in SHARED for one in options):
        yield "And [the options of all commands](#options-of-all-commands).\n"


def paragraphs(text: str) -> Iterator[str]:
    """A help text as Markdown; what click leaves as it is written becomes a block."""
    for part in re.split(r"\n\s*\n", inspect.cleandoc(text.partition("\f")[0])):
        if part.startswith("\b"):
            yield from _kept(part.removeprefix("\b").strip("\n"))
        elif part:
            yield f"{plain(' '.join(part.split()))}\n"


def _kept(part: str) -> Iterator[str]:
    first, _, rest = part.partition("\n")
    if first.endswith(":"):
        yield f"{plain(first)}\n"
        part = rest
    yield f"```text\n{dedent(part)}\n```\n"


def plain(text: str) -> str:
    """Text that Markdown shows as it is written, but for code between backticks."""
    parts = re.split(r"(`[^`]*`)", text)
    return "".join(
        one if one.startswith("`") else re.sub(r"([\\*_<>\[\]|])", r"\\\1", one) for one in parts
    )


def _table(options: list[click.Option], context: click.Context) -> Iterator[str]:
    yield "| option | meaning |\n| --- | --- |"
    for option in options:
        names, meaning = option.get_help_record(context) or ("", "")
        words = plain(" ".join(meaning.split())) + _default(option, meaning)
        yield f"| `{names.replace('|', BAR)}` | {words} |"
    yield ""


def _default(option: click.Option, meaning: str) -> str:
    """The default of an option that does not tell it itself; that a flag is not set needs no
    word."""
    default = option.default
    if option.is_flag or "default:" in meaning or not isinstance(default, str | int | float):
        return ""
    return f" \\[default: {plain(str(default))}\\]"


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", read_page)
    return {"parallel_read_safe": True}
