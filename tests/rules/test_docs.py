"""The docs say what the code does."""

from __future__ import annotations

import re
import tomllib
from collections.abc import Iterator
from pathlib import Path

import click
import pytest

from tests.support.diagrams import DOCUMENT, text
from tontine.cli import tontine

ROOT = Path(__file__).resolve().parents[2]
PAGES = [
    ROOT / "README.md",
    ROOT / "CHANGELOG.md",
    *sorted((ROOT / "docs").rglob("*.md")),
    *sorted((ROOT / "examples").rglob("*.md")),
]


def test_the_state_diagrams_are_drawn_from_the_tables() -> None:
    assert DOCUMENT.read_text() == text(), "run scripts/diagrams"


def anchors(page: Path) -> set[str]:
    """The headings of a page as GitHub names them in links."""
    headings = re.findall(r"^#+ (.+)$", page.read_text(), re.MULTILINE)
    return {
        re.sub(r"[^\w\- ]", "", heading).strip().lower().replace(" ", "-") for heading in headings
    }


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target, anchor in re.findall(r"\]\(([^)#]*)(?:#([^)]*))?\)", page.read_text()):
        if "://" not in target:
            meant = page.parent / target if target else page
            assert meant.exists(), f"{page.name}: {target}"
            assert not anchor or anchor in anchors(meant), f"{page.name}: {target}#{anchor}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tests_and_files_that_a_page_names_exist(page: Path) -> None:
    for name in re.findall(
        r"`((?:tests|shared|node|observer|scripts|examples)/[\w./-]+)`", page.read_text()
    ):
        assert (ROOT / name).exists(), f"{page.name}: {name}"


@pytest.mark.parametrize("page", ["fastapi", "django"])
def test_what_a_page_shows_of_its_example_stands_there(page: str) -> None:
    files = (ROOT / "examples" / f"{page}_app").rglob("*.py")
    source = "\n".join(file.read_text() for file in files)
    blocks = re.findall(
        r"^```python\n(.*?)^```",
        (ROOT / "docs" / f"{page}.md").read_text(),
        re.DOTALL | re.MULTILINE,
    )
    assert blocks
    for block in blocks:
        assert block in source, block


def test_every_extra_that_is_advised_can_be_installed() -> None:
    extras = tomllib.loads((ROOT / "pyproject.toml").read_text())["project"][
        "optional-dependencies"
    ]
    sources = [
        path for part in ("shared", "node", "observer") for path in (ROOT / part).rglob("*.py")
    ]
    texts = [path.read_text() for path in (*sources, *PAGES)]
    advice = r"""tontine\[(\w+)\]|MissingExtra\((?:[^()]|\([^()]*\))*"(\w+)",?\s*\)"""
    advised = {name for text in texts for name in re.findall(advice, text)}
    assert {name for names in advised for name in names if name} <= set(extras)
    assert ("", "embedded") in advised


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_uris_in_shell_commands_are_quoted(page: Path) -> None:
    """A shell takes `?` for a pattern and `&` for the end of the command."""
    for block in re.findall(r"```(?:sh|console|bash)\n(.*?)```", page.read_text(), re.DOTALL):
        for line in block.splitlines():
            if line.startswith("$ ") or "://" in line.partition("tontine")[2]:
                assert not re.search(r"""(?:^|[\s=])mongodb(?:\+srv)?://""", line), line


def commands(group: click.Group) -> Iterator[click.Command]:
    """It and all below it."""
    yield group
    context = click.Context(group)
    for name in group.list_commands(context):
        command = group.get_command(context, name)
        if isinstance(command, click.Group):
            yield from commands(command)
        elif command is not None:
            yield command


def test_what_help_shows_line_by_line_stands_there_line_by_line() -> None:
    """Click keeps the lines of a paragraph that begins with a line with this mark alone."""
    found = list(commands(tontine))
    assert len(found) > 40
    assert not [one.name for one in found if re.search("\b[^\n]", one.help or "")]
