"""A filter as a condition for the store: what MongoDB can be asked for; the rest is filtered
afterwards. Pure."""

from __future__ import annotations

import re
from collections.abc import Mapping
from typing import Any

from .filters import RowFilter

_RANGE = re.compile(r"^#?(\d+)?\.\.(\d+)?$")
_LARGEST = 2**63 - 1


def condition(wanted: RowFilter, ids: Mapping[str, str]) -> dict[str, Any] | None:
    """The condition on `jobs`, given the nodes' names and ids; None when the filter says nothing
    that helps."""
    where: dict[str, Any] = {}
    if states := wanted.wanted("state"):
        where["state"] = {"$in": list(states)}
    if tasks := wanted.wanted("task"):
        where["task"] = {"$regex": "|".join(map(re.escape, tasks)), "$options": "i"}
    if nodes := wanted.wanted("node"):
        matching = [
            one
            for name, one in ids.items()
            if any(node.casefold() in name.casefold() for node in nodes)
        ]
        where["node"] = {"$in": [*matching, *nodes]}
    if seqs := _seqs(wanted.wanted("seq")):
        where["seq"] = seqs
    return where or None


def _seqs(values: tuple[str, ...]) -> dict[str, Any]:
    if len(values) == 1 and (span := _RANGE.match(values[0])):
        low, high = span.groups()
        bounds = {"$gte": int(low) if low else None, "$lte": int(high) if high else None}
        return {name: min(bound, _LARGEST) for name, bound in bounds.items() if bound is not None}
    numbers = [int(value.lstrip("#")) for value in values if value.lstrip("#").isdecimal()]
    return {"$in": [number for number in numbers if number <= _LARGEST]} if numbers else {}
