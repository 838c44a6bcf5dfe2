"""Where in the user's files something went wrong, as the end of a sentence."""

from __future__ import annotations

import inspect
import os
import sysconfig
import traceback
from collections.abc import Callable
from pathlib import Path
from typing import Any

import tontine
import tontine_node

_OTHERS = (
    "<",
    *(f"{sysconfig.get_path(name)}{os.sep}" for name in ("stdlib", "purelib", "platlib")),
    *(f"{Path(inspect.getfile(one)).parent}{os.sep}" for one in (tontine, tontine_node)),
)
"""How names of files begin that are not the user's."""


def place_of(error: BaseException | None, function: Callable[..., Any]) -> str:
    """The last line of the user's that an error came through; else where the function is."""
    frames = traceback.extract_tb(error.__traceback__) if error is not None else []
    own = [frame for frame in frames if not frame.filename.startswith(_OTHERS)]
    if own:
        return _shown(own[-1].filename, own[-1].lineno)
    code = getattr(inspect.unwrap(function), "__code__", None)
    return "" if code is None else _shown(code.co_filename, code.co_firstlineno)


def _shown(file: str, line: int | None) -> str:
    return f" ({os.path.relpath(file)}:{line})"
