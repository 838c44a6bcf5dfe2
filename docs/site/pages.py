"""Pages of the site that are files elsewhere in the repo, and links that lead out of docs/.

The files stay as GitHub shows them: whatever the site needs different is made while Sphinx reads
them.
"""

from __future__ import annotations

import os
import re
from pathlib import Path
from typing import Any

from sphinx.application import Sphinx
from sphinx.util import logging

ROOT = Path(__file__).resolve().parents[2]
DOCS = ROOT / "docs"
ELSEWHERE = {
    "index": "README.md",
    "changelog": "CHANGELOG.md",
    "benchmarks": "benchmarks/README.md",
}
"""What these pages of the site show; the file of that name in docs/ comes after it."""

FENCED = re.compile(r"(^ *```.*?^ *```$)", re.DOTALL | re.MULTILINE)
LINK = re.compile(r"(!?)\[([^][]*)\]\(([^()\s#]+)(#[^()\s]*)?\)")

log = logging.getLogger(__name__)


def read_page(_: Sphinx, page: str, source: list[str]) -> None:
    """Put the file that a page shows before its own text, with links as the site has them."""
    file = ROOT / ELSEWHERE.get(page, f"docs/{page}.md")
    own = source[0] if page in ELSEWHERE else ""
    text = file.read_text(encoding="utf-8") if page in ELSEWHERE else source[0]
    source[0] = f"{with_links(text, file, DOCS / f'{page}.md')}\n{own}"


def with_links(text: str, file: Path, page: Path) -> str:
    """The text of a file whose links are to work from a page; blocks of code stay as they are."""

    def moved(link: re.Match[str]) -> str:
        return _moved(link, file, page)

    parts = FENCED.split(text)
    return "".join(
        _as_text(part) if place % 2 else LINK.sub(moved, part) for place, part in enumerate(parts)
    )


def _moved(link: re.Match[str], file: Path, page: Path) -> str:
    mark, words, target, anchor = link[1], link[2], link[3], link[4] or ""
    if "://" in target:
        return link[0]
    meant = Path(os.path.normpath(file.parent / target))
    if not meant.exists():
        log.warning(
            "%s is linked to, and is not there", target, location=str(file.relative_to(ROOT))
        )
        return link[0]
    name = meant.relative_to(ROOT).as_posix()
    shown = next((one for one, source in ELSEWHERE.items() if source == name), None)
    if shown is None and not name.startswith("docs/"):
        return f"`{name}`" if words.strip("`") == name else f"{words} (`{name}` in the repository)"
    inside = DOCS / f"{shown}.md" if shown else meant
    return f"{mark}[{words}]({os.path.relpath(inside, page.parent)}{anchor})"


def _as_text(block: str) -> str:
    """GitHub draws diagrams with a program from elsewhere; the site loads none, and shows their
    text."""
    return block.replace("```mermaid", "```text", 1)


def setup(app: Sphinx) -> dict[str, Any]:
    app.connect("source-read", read_page)
    return {"parallel_read_safe": True}
