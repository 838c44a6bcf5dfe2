"""The site: what its build refuses, how links of the repo's files become links of pages, and the
page of commands."""

from __future__ import annotations

import os
import re
import subprocess
import sys
from pathlib import Path

import click

from docs.site import commands
from docs.site.pages import DOCS, ROOT, with_links
from tontine.cli import tontine

PLANTED = """# Planted

[a page that is not there](nowhere.md), [a heading that is not](#nowhere), and [one of another
page](other.md#nowhere).

[What is there](other.md#a-heading) is not told of.

```{eval-rst}
.. autoclass:: planted.Silent

.. autofunction:: planted.told
```
"""
CODE = '''
import tontine.records.job


class Silent:
    def wordless(self): ...

    def told(self):
        """Words."""


def told() -> "tontine.records.job.Unknown":
    """Words."""
'''


FAULTS = [
    "nowhere.md is linked to, and is not there",
    "local id not found in doc 'other': 'nowhere'",
    "'myst' cross-reference target not found: 'nowhere'",
    "other.md: WARNING: document isn't included in any toctree",
    "planted.Silent has no docstring",
    "planted.Silent.wordless has no docstring",
    "reference target not found: tontine.records.job.Unknown",
    "tontine.Client is on no page of docs/api/",
]


def test_the_build_refuses_what_leads_nowhere_or_says_nothing(tmp_path: Path) -> None:
    (tmp_path / "planted.md").write_text(PLANTED)
    (tmp_path / "other.md").write_text("# Other\n\n## A heading\n")
    (tmp_path / "planted.py").write_text(CODE)
    options = ["-q", "-W", "--keep-going", "-c", str(DOCS / "site"), "-D", "root_doc=planted"]
    command = [sys.executable, "-m", "sphinx", *options, str(tmp_path), str(tmp_path / "out")]
    environment = os.environ | {"PYTHONPATH": str(tmp_path)}
    built = subprocess.run(
        command, env=environment, cwd=ROOT, capture_output=True, text=True, check=False
    )
    assert built.returncode == 1
    assert [fault for fault in FAULTS if fault not in built.stderr] == [], built.stderr
    assert "a-heading" not in built.stderr
    assert "told has no docstring" not in built.stderr


def moved(text: str, file: str, page: str) -> str:
    return with_links(text, ROOT / file, DOCS / page)


def test_links_of_files_elsewhere_lead_to_the_same_pages() -> None:
    assert moved("[w](docs/why.md#a)", "README.md", "index.md") == "[w](why.md#a)"
    assert (
        moved("![o](docs/observer-80x24.svg)", "README.md", "index.md")
        == "![o](observer-80x24.svg)"
    )
    assert moved("[log](CHANGELOG.md)", "README.md", "index.md") == "[log](changelog.md)"
    assert (
        moved("[first](../README.md#install)", "docs/why.md", "why.md")
        == "[first](index.md#install)"
    )
    assert moved("[why](../why.md)", "docs/api/client.md", "api/client.md") == "[why](../why.md)"


def test_links_that_leave_the_site_become_words() -> None:
    assert moved("[`Dockerfile`](../Dockerfile)", "docs/deploy.md", "deploy.md") == "`Dockerfile`"
    assert (
        moved("[License](LICENSE)", "README.md", "index.md")
        == "License (`LICENSE` in the repository)"
    )


def test_links_elsewhere_and_code_stay_as_they_are() -> None:
    text = "[site](https://example.org/a.md)\n\n```python\njobs[0](docs)\n```\n"
    assert moved(text, "docs/why.md", "why.md") == text


def test_every_command_and_option_is_described() -> None:
    text = "\n".join(commands.described())
    contexts = list(commands.commands(click.Context(tontine, info_name="tontine")))
    assert len(contexts) > 25
    for context in contexts:
        (part,) = re.findall(
            rf"^#+ {context.command_path}\n(.*?)(?=^##|\Z)", text, re.DOTALL | re.MULTILINE
        )
        for option in context.command.params:
            if (
                isinstance(option, click.Option)
                and option.name not in commands.SHARED
                and not option.hidden
            ):
                assert f"{option.opts[-1]}" in part, (context.command_path, option.opts)


def test_the_options_of_all_commands_are_those_that_the_page_names() -> None:
    page = (DOCS / "cli.md").read_text()
    command = tontine.get_command(click.Context(tontine), "jobs")
    assert command is not None
    shared = [one for one in command.params if one.name in commands.SHARED]
    assert len(shared) == len(commands.SHARED)
    for option in shared:
        assert f"`{option.opts[0]} " in page


def test_a_help_text_is_shown_as_it_is_written() -> None:
    assert commands.plain("jobs of shop.* with `a_b*`") == r"jobs of shop.\* with `a_b*`"
    text = "First,\nand more.\n\n\b\nExamples:\n  one\n    two\n"
    assert list(commands.paragraphs(text)) == [
        "First, and more.\n",
        "Examples:\n",
        "```text\none\n  two\n```\n",
    ]


def test_a_default_is_told_once() -> None:
    @click.command()
    @click.option("--told", default=3, show_default=True, help="It.")
    @click.option("--untold", default=4, help="It.")
    @click.option("--flag", is_flag=True, help="It.")
    def command() -> None: ...

    table = "\n".join(
        commands._table(
            [one for one in command.params if isinstance(one, click.Option)], click.Context(command)
        )
    )
    assert r"| `--told INTEGER` | It. \[default: 3\] |" in table
    assert r"| `--untold INTEGER` | It. \[default: 4\] |" in table
    assert "| `--flag` | It. |" in table
