"""Type checkers over every documented example: `python -m tests.support.typed` runs mypy --strict
and pyright.

Each page becomes Python files in which every line has the number that it has on the page. A block
with a file's name behind `python` is that file; all others of a page continue each other. An HTML
comment that begins with `python` starts anew, with code that readers of the page do not need. `<!--
not typed: why -->` before a block leaves it out. Of a block with `refused` behind `python` each
line must be an error, for both checkers.
"""

from __future__ import annotations

import json
import os
import re
import subprocess
import sys
from collections.abc import Iterator
from concurrent.futures import ThreadPoolExecutor
from dataclasses import dataclass, field
from pathlib import Path
from tempfile import TemporaryDirectory
from textwrap import dedent

ROOT = Path(__file__).resolve().parents[2]

_PARTS = re.compile(
    r"^<!-- python\b(?P<hidden>.*?)-->$"
    r"|^(?P<left_out><!-- not typed: [^\n]+ -->)$"
    r"|^(?P<indent> *)```python(?P<refused> refused)?(?: (?P<name>[\w/]+\.py))?\n"
    r"(?P<code>.*?)^ *```$",
    re.DOTALL | re.MULTILINE,
)

_PLACE = re.compile(r"\s*[^\s:]*?(?P<file>page_\d+/[\w/]+\.py):(?P<line>\d+):")

Line = tuple[str, int]
"""A file, as far as its page's directory, and a line of it."""


@dataclass(slots=True)
class Page:
    """The Python files of one page, by name; the lines of each have the numbers that they have on
    the page."""

    files: dict[str, dict[int, str]] = field(default_factory=dict)
    refused: set[tuple[str, int]] = field(default_factory=set)
    """Files and lines that checkers must refuse."""

    def text(self, name: str) -> str:
        lines = self.files[name]
        return "".join(f"{lines.get(number, '')}\n" for number in range(1, max(lines) + 1))


def read(text: str) -> Page:
    """The examples of a page."""
    page, programs, is_left_out = Page(), 0, False
    for part in _PARTS.finditer(text):
        if part["left_out"]:
            is_left_out = True
            continue
        if part["hidden"] is not None:
            programs += 1
        elif is_left_out:
            is_left_out = False
            continue
        group = "hidden" if part["code"] is None else "code"
        name = part["name"] or f"program_{programs}.py"
        first = text.count("\n", 0, part.start(group)) + 1
        numbered = dict(_numbered(dedent(part[group]), first))
        page.files.setdefault(name, {}).update(numbered)
        if part["refused"]:
            page.refused |= {(name, number) for number, line in numbered.items() if line.strip()}
    return page


def _numbered(code: str, first: int) -> Iterator[tuple[int, str]]:
    """The lines of a block; one that awaits becomes a coroutine, which begins in the line of the
    fence."""
    is_async = _awaits(code)
    if is_async:
        yield first - 1, f"async def _from_line_{first}() -> None:"
    for number, line in enumerate(code.splitlines(), first):
        yield number, f"    {line}" if is_async and line else line


def _awaits(code: str) -> bool:
    try:
        compile(code, "example", "exec", dont_inherit=True)
    except SyntaxError as error:
        return "outside" in str(error)
    return False


def pages() -> list[Path]:
    """All that has examples in it."""
    found = [ROOT / "README.md", *(ROOT / "docs").rglob("*.md"), *(ROOT / "examples").rglob("*.md")]
    return sorted(page for page in found if "```python" in page.read_text())


def write(into: Path) -> tuple[dict[Path, Path], set[Line]]:
    """Write the examples of all pages, each page to a directory of its own; which directory is
    which page's, and which lines must be refused."""
    directories = {}
    refused = set()
    for number, path in enumerate(pages()):
        page = read(path.read_text())
        directory = into / f"page_{number}"
        for name in page.files:
            (directory / name).parent.mkdir(parents=True, exist_ok=True)
            (directory / name).write_text(page.text(name))
        if page.files:
            directories[directory] = path
        refused |= {(f"{directory.name}/{name}", line) for name, line in page.refused}
    return directories, refused


def shown(page: Path) -> str:
    """A page's name in what is told of it."""
    return str(page.relative_to(ROOT))


def mypy(directory: Path) -> str:
    """What mypy says of a page's files; nothing if they are right."""
    files = [str(file) for file in sorted(directory.rglob("*.py"))]
    command = [sys.executable, "-m", "mypy", "--no-error-summary", "--scripts-are-modules", *files]
    # Where a page imports its own files, they are found beside it: as if its reader had written
    # them there.
    return _complaints(command, {"MYPYPATH": str(directory)})


def pyright(directory: Path) -> str:
    """What pyright says of all pages and examples; nothing if they are right."""
    examples = [path for path in (ROOT / "examples").iterdir() if path.is_dir()]
    own = [os.path.relpath(path, directory) for path in (*directory.iterdir(), *examples)]
    settings = {
        "include": own,
        "executionEnvironments": [
            {"root": root} for root in own
        ],  # each finds its own files, and no other's
        "extraPaths": [str(ROOT / part) for part in ("shared", "node", "observer")],
        "pythonVersion": "3.11",
        "reportMissingModuleSource": False,
    }
    (directory / "pyrightconfig.json").write_text(json.dumps(settings))
    command = [
        sys.executable,
        "-m",
        "pyright",
        "-p",
        str(directory),
        "--pythonpath",
        sys.executable,
    ]
    return _complaints(
        command, {"PYRIGHT_PYTHON_IGNORE_WARNINGS": "1"}
    )  # that there is a newer one


def _complaints(command: list[str], environment: dict[str, str]) -> str:
    ended = subprocess.run(
        command, cwd=ROOT, env=os.environ | environment, capture_output=True, text=True, check=False
    )
    return ended.stdout + ended.stderr if ended.returncode else ""


def sifted(checker: str, said: str, refused: set[Line]) -> str:
    """What is left of what a checker said: not that it refused what it must, but what of that it
    let pass."""
    left: list[str] = []
    found: set[Line] = set()
    is_expected = False
    for line in said.splitlines(keepends=True):
        place = _PLACE.match(line)
        if place:
            is_expected = (place["file"], int(place["line"])) in refused
        if is_expected and place:
            found.add((place["file"], int(place["line"])))
        elif not is_expected:
            left.append(line)
        elif not line.startswith(" "):
            is_expected = False
            left.append(line)
    told = "".join(left) if any(_PLACE.match(line) for line in left) or not found else ""
    passed = [f"{file}:{line}: error: {checker} lets it pass" for file, line in refused - found]
    return told + "".join(f"/{one}\n" for one in sorted(passed))


def main() -> int:
    with TemporaryDirectory() as temporary, ThreadPoolExecutor(2) as at_once:
        directory = Path(temporary).resolve()
        directories, refused = write(directory)
        asked = at_once.submit(pyright, directory)
        said = "".join(mypy(one) for one in directories)
        told = sifted("mypy", said, refused) + sifted("pyright", asked.result(), refused)
    for one, page in directories.items():
        # Whatever lies before: what mypy has kept of an earlier run names the directory of that
        # one.
        told = re.sub(rf"(?:/[^\s:]*)?/{one.name}/[\w/]+\.py", shown(page), told)
    sys.stdout.write(told)
    return 1 if told else 0


if __name__ == "__main__":
    sys.exit(main())
