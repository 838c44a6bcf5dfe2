"""The docs say what the code does."""

from __future__ import annotations

import re
from pathlib import Path

import pytest

from tests.support.diagrams import DOCUMENT, text

ROOT = Path(__file__).resolve().parents[2]
PAGES = [ROOT / "README.md", *sorted((ROOT / "docs").rglob("*.md")), *sorted((ROOT / "examples").rglob("*.md"))]


def test_the_state_diagrams_are_drawn_from_the_tables() -> None:
    assert DOCUMENT.read_text() == text(), "run scripts/diagrams"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_links_lead_somewhere(page: Path) -> None:
    for target in re.findall(r"\]\(([^)#]+)", page.read_text()):
        if "://" not in target:
            assert (page.parent / target).exists(), f"{page.name}: {target}"


@pytest.mark.parametrize("page", PAGES, ids=lambda page: str(page.relative_to(ROOT)))
def test_the_tests_and_files_that_a_page_names_exist(page: Path) -> None:
    for name in re.findall(r"`((?:tests|shared|node|observer|scripts|examples)/[\w./-]+)`", page.read_text()):
        assert (ROOT / name).exists(), f"{page.name}: {name}"


@pytest.mark.parametrize("page", ["fastapi", "django"])
def test_what_a_page_shows_of_its_example_stands_there(page: str) -> None:
    files = (ROOT / "examples" / f"{page}_app").rglob("*.py")
    source = "\n".join(file.read_text() for file in files)
    blocks = re.findall(r"^```python\n(.*?)^```", (ROOT / "docs" / f"{page}.md").read_text(), re.DOTALL | re.MULTILINE)
    assert blocks
    for block in blocks:
        assert block in source, block
