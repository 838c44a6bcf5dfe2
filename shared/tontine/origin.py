"""Where a module comes from: the source that was named, and a digest of the files behind it.

The digest is taken before the import: files that change in between make it the older of the two,
and the next process that loads them says another one.
"""

from __future__ import annotations

import importlib.util
from collections.abc import Iterable, Iterator
from dataclasses import dataclass
from hashlib import sha256
from importlib.machinery import ModuleSpec
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Origin:
    """What was named to load a module, and what its files were."""

    source: str
    digest: str = ""
    """Empty where there are no files to read."""


def origin_of(source: str) -> Origin:
    """The origin of what is imported now under this name."""
    return Origin(source, _digest(_files(source.partition(":")[0])))


def _digest(files: Iterable[tuple[str, Path]]) -> str:
    """One digest of many files: their names and what is in them. Empty of none."""
    total, is_empty = sha256(), True
    for name, file in files:
        try:
            content = file.read_bytes()
        except OSError:
            continue  # gone meanwhile: then it is not there for the import either
        is_empty = False
        total.update(f"{name}\0{len(content)}\0".encode("utf-8", "surrogateescape"))
        total.update(content)
    return "" if is_empty else total.hexdigest()


def _files(path: str) -> Iterator[tuple[str, Path]]:
    """The .py files of the module of that name, or of the package that it is in, by their names
    there."""
    if path.endswith(".py"):
        yield Path(path).name, Path(path)
        return
    first, *rest = path.split(".")
    spec = _spec(first)
    if spec is not None and spec.submodule_search_locations is None and spec.origin:
        yield Path(spec.origin).name, Path(spec.origin)
    for location in (spec and spec.submodule_search_locations) or ():
        directory = _package(Path(location), rest)
        for file in sorted(directory.rglob("*.py")):
            yield str(file.relative_to(directory)), file


def _spec(name: str) -> ModuleSpec | None:
    """Where Python finds a module; of a name without dots nothing is imported for it."""
    try:
        return importlib.util.find_spec(name)
    except (ImportError, ValueError):
        return None


def _package(directory: Path, names: list[str]) -> Path:
    """The directory of the innermost package on the way to a module."""
    for name in names:
        if not (directory / name).is_dir():
            break
        directory = directory / name
    return directory
