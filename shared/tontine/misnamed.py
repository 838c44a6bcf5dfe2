"""What was meant by a name that is not there, of a module, a file or an argument: the nearest one
beside it."""

from __future__ import annotations

import difflib
import pkgutil
import sys
from collections.abc import Iterable
from contextlib import suppress
from pathlib import Path


def nearest_file(file: Path) -> str:
    """A question that names a .py file like this one, or nothing."""
    with suppress(OSError):
        near = nearest(file.name, (path.name for path in file.parent.glob("*.py")))
        return _meant(str(file.parent / near)) if near else ""
    return ""


def nearest_module(path: str, missing: str) -> str:
    """A question that names the module like `path`, the part `missing` of which Python has not
    found, or nothing."""
    parent, _, last = missing.rpartition(".")
    # Without a parent only what lies here: the standard library and what is installed have names
    # like everything.
    places = getattr(sys.modules.get(parent), "__path__", ()) if parent else ["."]
    near = nearest(last, (one.name for one in pkgutil.iter_modules(list(places))))
    return (
        _meant((f"{parent}." if parent else "") + near + path.removeprefix(missing)) if near else ""
    )


def nearest(name: str, known: Iterable[str]) -> str:
    """The known name most like this one, if any is."""
    return next(iter(difflib.get_close_matches(name, sorted(known), 1)), "")


def _meant(name: str) -> str:
    return f"; did you mean {name}?"
