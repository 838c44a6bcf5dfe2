"""How the examples of a page become files that type checkers read."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest

from tests.support import typed

PAGE = """# A page

<!-- python
from tontine import Client

client = Client()
-->
```python
job = client.submit("a.b")
```

Words between.

1. In a list:

   ```python
   print(job)
   ```

```python tasks.py
x: int = 1
```

<!-- not typed: it is none -->
```python
this is no Python
```

<!-- python -->
```python
import asyncio

await asyncio.sleep(1)
```

```sh
ls
```
"""


def test_lines_keep_their_numbers_and_blocks_continue_each_other() -> None:
    page = typed.read(PAGE)
    assert sorted(page.files) == ["program_1.py", "program_2.py", "tasks.py"]
    lines = PAGE.splitlines()
    for name in ("program_1.py", "tasks.py"):
        for number, line in enumerate(page.text(name).splitlines(), 1):
            assert line in ("", lines[number - 1].strip())
    assert page.text("program_1.py").split() == [
        *("from", "tontine", "import", "Client", "client", "=", "Client()"),
        *("job", "=", 'client.submit("a.b")', "print(job)"),
    ]


def test_a_block_that_awaits_becomes_a_coroutine() -> None:
    text = typed.read(PAGE).text("program_2.py")
    compile(text, "page", "exec")
    assert "    await asyncio.sleep(1)" in text


def test_what_must_be_refused_is_no_complaint_and_what_passes_is_one() -> None:
    refused = {("page_1/program_0.py", 7), ("page_1/program_0.py", 8)}
    said = (
        '/x/page_1/program_0.py:7: error: Unexpected keyword argument "imag"\n'
        '/x/page_1/program_0.py:7: note: "call" defined here\n'
    )
    left = typed.sifted("mypy", said, refused)
    assert left == "/page_1/program_0.py:8: error: mypy lets it pass\n"
    said = (
        "/x/page_1/program_0.py\n"
        "  /x/page_1/program_0.py:7:5 - error: No parameter named\n"
        "  /x/page_1/program_0.py:8:5 - error: Argument of type\n"
        "    int is not str\n"
        "2 errors, 0 warnings\n"
    )
    assert typed.sifted("pyright", said, refused) == ""
    more = said.replace("2 errors", "  /x/page_1/program_0.py:9:5 - error: Other\n3 errors")
    assert "program_0.py:9:5 - error: Other" in typed.sifted("pyright", more, refused)
    assert typed.sifted("pyright", "it crashed", set()) == "it crashed"


@pytest.mark.long
def test_what_is_wrong_is_told_by_both_checkers_with_the_line_of_the_page(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    page = tmp_path / "page.md"
    page.write_text(
        '# Wrong\n\n```python\nx: int = "a"\n```\n\n```python refused\nx = 1\nx = "b"\n```\n'
    )
    monkeypatch.setattr(typed, "pages", lambda: [page])
    monkeypatch.setattr(typed, "shown", lambda path: path.name)
    assert typed.main() == 1
    told = capsys.readouterr().out
    assert "page.md:4: error: Incompatible types" in told
    assert "page.md:4:10 - error" in told
    assert "page.md:8: error: mypy lets it pass" in told
    assert "page.md:8: error: pyright lets it pass" in told
    assert "page.md:9" not in told


def test_pyright_needs_no_network() -> None:
    """It comes whole with its package: what it would have to fetch, a check could not."""
    where = (
        "import pyright; from pathlib import Path; "
        "print(Path(pyright.__file__).with_name('dist') / 'index.js')"
    )
    found = subprocess.run(
        [sys.executable, "-c", where], capture_output=True, text=True, check=True
    ).stdout.strip()
    assert Path(found).is_file()
