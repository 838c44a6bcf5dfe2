"""docs/settings.md lists every setting there is: flags, variables, keys and defaults as the code
has them."""

from __future__ import annotations

import re
from pathlib import Path

import click

from tontine.cli.options import Duration, Megabytes, own_parameters
from tontine.settings import (
    CONTEXT_KEYS,
    FORMER_NAMES,
    KEYS,
    MEMORY,
    NODE_KEYS,
    SWITCH,
    TEXT,
    TEXTS,
    TIME,
    WHOLE,
)
from tontine.variables import KNOWN
from tontine_node.command import node

PAGE = (Path(__file__).resolve().parents[2] / "docs" / "settings.md").read_text()
ROWS = [
    [cell.strip() for cell in line.strip("|").split("|")]
    for line in PAGE.splitlines()
    if line.startswith("| ")
]
NOT_SET_BY_HAND = {"TONTINE_WORKER", "TONTINE_TEST_URI"}
FORMER = {f"TONTINE_{key.upper()}" for key in FORMER_NAMES}
TABLE = {row[2].strip("`"): row for row in ROWS[2:] if len(row) == 4}


def test_every_key_of_a_file_has_a_row() -> None:
    wanted = [
        *(key for key in KEYS if key not in ("node", "contexts")),
        *(f"node.{key}" for key in own_parameters(node)),
    ]
    assert [key for key in TABLE if key] == wanted


def test_every_key_of_a_context_has_a_row() -> None:
    assert [row[0].strip("`") for row in ROWS if len(row) == 3][2:] == list(CONTEXT_KEYS)


def test_what_is_known_of_the_table_of_nodes_is_what_the_command_takes() -> None:
    """Who reads a file checks all of it, and must not need the node for that."""
    assert list(NODE_KEYS) == list(own_parameters(node))
    kinds = {
        Duration: TIME,
        Megabytes: MEMORY,
        click.types.IntParamType: WHOLE,
        click.types.BoolParamType: SWITCH,
    }
    for key, parameter in own_parameters(node).items():
        is_many = parameter.nargs == -1 or getattr(parameter, "multiple", False)
        wanted = TEXTS if is_many else kinds.get(type(parameter.type), TEXT)
        assert NODE_KEYS[key] == wanted, key


def test_every_variable_of_the_page_is_known() -> None:
    assert {
        row[1].strip("`") for row in ROWS[2:] if len(row) == 4 and row[1]
    } | NOT_SET_BY_HAND | FORMER == KNOWN


def test_flags_variables_and_defaults_of_nodes_are_those_of_the_command() -> None:
    context = click.Context(node)
    for key, parameter in own_parameters(node).items():
        flags, variable, _, default = TABLE[f"node.{key}"]
        if isinstance(parameter, click.Option):
            words = [
                word
                for word in (*parameter.opts, *parameter.secondary_opts)
                if word.startswith("--")
            ]
            assert re.findall(r"`([^`]+)`", flags) == words
        assert variable == f"`TONTINE_{key.upper()}`"
        assert parameter.envvar is None or f"TONTINE_{key.upper()}" in parameter.envvar
        usual = parameter.get_default(context)
        if isinstance(usual, str | int) and usual != "":
            assert default == (str(usual).lower() if isinstance(usual, bool) else str(usual))
