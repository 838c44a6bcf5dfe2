"""Variables of the environment that mean nothing and look like a setting. Pure.

What looks like none is left alone: Kubernetes, for one, sets TONTINE_PORT for a Service called
tontine.
"""

from __future__ import annotations

import re
from collections.abc import Iterable

from .settings import FORMER_NAMES, NODE_KEYS

PREFIX = "TONTINE_"
KNOWN = frozenset(
    PREFIX + name
    for name in (
        *("URI", "DATABASE", "EMBEDDED", "CONFIG", "HOME", "MONGOD", "TEST_URI", "WORKER"),
        *(key.upper() for key in (*NODE_KEYS, *FORMER_NAMES)),
    )
)
_OF_A_SERVICE = re.compile(r"_SERVICE_(HOST|PORT)|_PORT(_\d+_(TCP|UDP|SCTP).*)?$")
_SHORTEST = 3
_LONG = 8
"""A name of so many letters may have two wrong ones."""


def misspelt(names: Iterable[str]) -> dict[str, str]:
    """Those that were probably meant for a setting, each with the nearest, unless that is set as
    well."""
    there = frozenset(names)
    ours = sorted(name for name in there - KNOWN if name.upper().startswith(PREFIX))
    near = {name: _nearest(name.upper()) for name in ours if not _OF_A_SERVICE.search(name)}
    return {name: known for name, known in near.items() if known is not None and known not in there}


def tell(name: str, known: str) -> str:
    """A sentence about such a variable."""
    return (
        f"the variable {name} is no setting and changes nothing: did you mean {known}? Rename "
        "it, or unset it"
    )


def _nearest(name: str) -> str | None:
    word = name.removeprefix(PREFIX)
    if len(word) < _SHORTEST:
        return None
    apart = {
        known: _apart(_plain(word), _plain(known.removeprefix(PREFIX))) for known in sorted(KNOWN)
    }
    closest = min(apart, key=apart.__getitem__)
    letters = closest.removeprefix(PREFIX)
    # Whoever types a word wrong begins it right: TONTINE_TRACE is not meant for TONTINE_GRACE.
    is_near = apart[closest] <= (2 if len(letters) >= _LONG else 1) and word[0] == letters[0]
    return closest if is_near else None


def _plain(word: str) -> str:
    return word.replace("_", "")


def _apart(one: str, other: str) -> int:
    """How many letters have to be added, removed, changed or swapped with their neighbour to make
    one the other."""
    before: list[int] = []
    row = list(range(len(other) + 1))
    for i, letter in enumerate(one, 1):
        older, before, row = before, row, [i]
        for j, wanted in enumerate(other, 1):
            cost = min(before[j] + 1, row[j - 1] + 1, before[j - 1] + (letter != wanted))
            if i > 1 and j > 1 and (letter, one[i - 2]) == (other[j - 2], wanted):
                cost = min(cost, older[j - 2] + 1)
            row.append(cost)
    return row[-1]
