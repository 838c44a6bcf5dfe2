"""The profile of a context: where its `tontine.Context` is, and what is there instead."""

from __future__ import annotations

from .context import Context
from .errors import ConfigError
from .misnamed import nearest
from .module import imported


def load_profile(name: str) -> Context:
    """Import `package.module:name` or `file.py:name`; `ConfigError` if that is no Context."""
    path, _, attribute = name.partition(":")
    place = vars(imported(path))
    if attribute not in place:
        contexts = [key for key, value in place.items() if isinstance(value, Context)]
        near = nearest(attribute, contexts)
        hint = f"; was {near} meant?" if near else ""
        raise ConfigError(f"the profile {name!r}: there is no {attribute} in {path}{hint}")
    found = place[attribute]
    if not isinstance(found, Context):
        raise ConfigError(f"the profile {name!r} is no tontine.Context: it is {_kind(found)}")
    return found


def _kind(value: object) -> str:
    if isinstance(value, type):
        return f"the class {value.__name__}"
    kind = type(value)
    return f"of type {kind.__module__}.{kind.__qualname__}".replace("builtins.", "")
