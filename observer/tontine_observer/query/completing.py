"""Completes what is typed into a filter: names of fields, and what is known to be in them. Pure."""

from __future__ import annotations

import re
from collections.abc import Iterable, Mapping

from .filters import ALIASES

_LAST = re.compile(r'(?:^|\s)(!?)(?:([A-Za-z_]+)([:~]))?((?:"[^"]*|[^\s"]*))$')


def completed(text: str, fields: Iterable[str], values: Mapping[str, Iterable[str]]) -> str | None:
    """The text with its last word completed; None where nothing is called like it."""
    match = _LAST.search(text)
    if match is None:
        return None
    _, field, _, typed = match.groups()
    if field is None:
        ending = _first(typed, fields)
        if not typed or ending is None:
            return None
        found = f"{text}{ending}"
        return found if found.endswith(".") else f"{found}:"  # the name goes on after a dot
    name = field.lower()
    ending = _first(typed.rpartition(",")[2].lstrip('"'), values.get(ALIASES.get(name, name), ()))
    return f"{text}{ending}" if ending else None


def _first(typed: str, options: Iterable[str]) -> str | None:
    """What is missing of the first that begins with it."""
    for option in sorted(options):
        if option.casefold().startswith(typed.casefold()):
            return option[len(typed) :]
    return None
