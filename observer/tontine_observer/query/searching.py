"""A filter as a condition for the store: every term of it, so that the store counts what the screen
would keep. Pure."""

from __future__ import annotations

import re
from collections.abc import Callable, Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime, timedelta
from typing import Any

from tontine.filter import Filter
from tontine.records.states import FINAL, JobState

from .filters import ARGS, RowFilter, Term, number, span

Condition = dict[str, Any]

_LARGEST = 2**63 - 1
_AGES = 3e9
"""Seconds, about a century: older or younger than that, either way, is no job."""
_FINAL = sorted(state.value for state in FINAL)
_TEXTS = ("task", "key")
_COUNTS = ("attempt", "fails", "lost", "priority")
_TIME = {
    "$cond": [
        {"$and": [{"$in": ["$state", _FINAL]}, {"$gt": ["$finished_at", None]}]},
        "$finished_at",
        "$created_at",
    ]
}
"""When a job came, or ended if it has."""


@dataclass(frozen=True, slots=True)
class Around:
    """What a filter's words mean at the moment."""

    now: datetime
    names: Mapping[str, str] = field(default_factory=dict)
    """The ids of nodes, and their names."""
    members: int = 0
    lanes: Sequence[tuple[Sequence[int], Sequence[str]]] = ()
    """Ranks, and the task keys whose jobs these divide; where it is not all that divide all."""


@dataclass(frozen=True, slots=True)
class Sought:
    """What the store is asked for, and what of it leads to an index."""

    where: Condition
    meant: Filter
    numbers: Condition


def sought(wanted: RowFilter, around: Around) -> Sought:
    """The condition on `jobs` that a filter is."""
    terms = [_condition(term, around) for term in wanted.terms]
    plain = [term for term in wanted.terms if not term.is_negated]
    states = frozenset(JobState)
    for term in plain:
        if term.field == "state":
            states &= _states(term)
    numbers: Condition = {}
    for term in plain:
        # A single range or some numbers lead to an index; several ranges are looked for among all.
        if term.field == "seq" and term.relation != "~" and "seq" in (one := _numbered(term)):
            numbers |= one["seq"]
    since = max((at for term in plain if (at := _since(term, around.now))), default=None)
    meant = Filter(
        states=frozenset() if states == frozenset(JobState) else states,
        since=since if states <= FINAL else None,
    )
    return Sought({"$and": terms} if terms else {}, meant, numbers)


def _condition(term: Term, around: Around) -> Condition:
    found = _positive(term, around)
    return {"$nor": [found]} if term.is_negated else found


def _positive(term: Term, around: Around) -> Condition:
    if not term.field:
        return _any([_anywhere(value, around) for value in term.values])
    if term.field.startswith(ARGS):
        return _any([_argument(term, value) for value in term.values])
    if term.field == "seq":
        return _number_text("$seq", term) if term.relation == "~" else _numbered(term)
    if term.field == "state":
        return {"state": {"$in": sorted(_states(term))}}
    if term.field == "node":
        return _any([_node(value, around.names) for value in term.values])
    if term.field == "error":
        return _any([_error(value) for value in term.values])
    if term.field in _TEXTS:
        return _any([{term.field: _containing(value)} for value in term.values])
    return _numeric(term, *_measure(term.field, around))


def _any(conditions: list[Condition]) -> Condition:
    return conditions[0] if len(conditions) == 1 else {"$or": conditions}


def _containing(value: str) -> Condition:
    return {"$regex": re.escape(value), "$options": "i"}


def _states(term: Term) -> frozenset[JobState]:
    """The states of which any part was typed."""
    wanted = [value.casefold() for value in term.values]
    return frozenset(state for state in JobState if any(part in state.value for part in wanted))


def _numbered(term: Term) -> Condition:
    """Numbers one by one, or any of several ranges."""
    if len(term.values) == 1 or not any(span(value.lstrip("#")) for value in term.values):
        return {"seq": _seqs(term)}
    each = (Term(term.field, term.relation, (value,)) for value in term.values)
    return {"$or": [{"seq": _seqs(one)} for one in each]}


def _seqs(term: Term) -> Condition:
    if term.relation in ("<", ">"):
        bound = number(term.values[0]) or 0.0
        return {"$lt" if term.relation == "<" else "$gt": max(-1.0, min(bound, float(_LARGEST)))}
    if len(term.values) == 1 and (ends := span(term.values[0].lstrip("#"))):
        low, high = ends
        bounds = {"$gte": low, "$lte": high}
        return {name: _whole(bound) for name, bound in bounds.items() if bound is not None} or {
            "$gte": 0
        }
    numbers = [number(value.lstrip("#")) for value in term.values if not span(value)]
    return {"$in": [_whole(one) for one in numbers if one is not None]}


def _whole(value: float) -> int:
    return int(max(-1.0, min(value, 9.2e18)))


def _node(value: str, names: Mapping[str, str]) -> Condition:
    """By the name where that is known, else by the id."""
    called = [one for one, name in names.items() if value.casefold() in name.casefold()]
    return {"$or": [{"node": {"$in": called}}, {"node": {**_containing(value), "$nin": [*names]}}]}


def _error(value: str) -> Condition:
    parts = [{name: _containing(value)} for name in ("error.type", "error.message", "error")]
    kind, colon, message = value.partition(": ")
    if colon:
        ending = {"$regex": f"{re.escape(kind)}$", "$options": "i"}
        beginning = {"$regex": f"^{re.escape(message)}", "$options": "i"}
        parts.append({"error.type": ending, "error.message": beginning})
    return {"$or": parts}


def _argument(term: Term, value: str) -> Condition:
    if term.relation in ("<", ">"):
        return {term.field: {"$lt" if term.relation == "<" else "$gt": number(value)}}
    options: list[Condition] = [{term.field: _containing(value)}]
    if (amount := number(value)) is not None and term.relation == ":":
        options.append({term.field: amount})
    if value.casefold() in ("true", "false"):
        options.append({term.field: value.casefold() == "true"})
    return _any(options)


def _anywhere(value: str, around: Around) -> Condition:
    options: list[Condition] = [{name: _containing(value)} for name in _TEXTS]
    options += [_error(value), _node(value, around.names)]
    options.append({"state": {"$in": sorted(_states(Term("state", ":", (value,))))}})
    if value.isdecimal():
        options.append(_number_text("$seq", Term("seq", "~", (value,))))
    return {"$or": options}


def _number_text(path: str, term: Term) -> Condition:
    checks = [
        {"$regexMatch": {"input": {"$toString": path}, "regex": re.escape(value)}}
        for value in term.values
    ]
    return {"$expr": {"$or": checks}}


Scale = Callable[[float], Any]


def _measure(name: str, around: Around) -> tuple[Any, Scale, bool]:
    """What a number of a row is in the store, how a typed one compares with it, and whether it
    grows the other way."""
    if name == "age":
        return _TIME, lambda seconds: _ago(seconds, around.now), True
    if name == "at":
        return _TIME, lambda at: _ago(around.now.timestamp() - at, around.now), False
    if name == "ran":
        end = {"$cond": [{"$eq": ["$state", "working"]}, around.now, "$finished_at"]}
        return {"$subtract": [end, "$started_at"]}, lambda seconds: seconds * 1000, False
    if name == "rank":
        return _rank(around), float, False
    return {"$ifNull": [f"${name}", 0]}, float, False


def _rank(around: Around) -> Any:
    """The rank of the member that should claim a job, for the server."""
    if not around.lanes:
        return {"$mod": ["$seq", around.members]} if around.members else None
    branches = [
        {
            "case": {"$in": ["$task", {"$literal": list(keys)}]},
            "then": {"$arrayElemAt": [list(ranks), {"$mod": ["$seq", len(ranks)]}]},
        }
        for ranks, keys in around.lanes
    ]
    return {"$switch": {"branches": branches, "default": None}}


def _numeric(term: Term, value: Any, scale: Scale, is_turned: bool) -> Condition:
    checks = [
        check
        for typed in term.values
        if (check := _compared(term.relation, typed, value, scale, is_turned))
    ]
    return {"$expr": {"$and": [{"$gt": [value, None]}, {"$or": checks}]}}


def _compared(
    relation: str, typed: str, value: Any, scale: Scale, is_turned: bool
) -> Condition | None:
    above, below = ("$lt", "$gt") if is_turned else ("$gt", "$lt")
    if ends := span(typed):
        low, high = ends
        bounds = [
            {f"{name}e": [value, scale(bound)]}
            for name, bound in ((above, low), (below, high))
            if bound is not None
        ]
        return {"$and": bounds}
    limit = number(typed.lstrip("#"))
    if limit is None:
        return None
    if relation in ("<", ">"):
        return {above if relation == ">" else below: [value, scale(limit)]}
    return {"$eq": [value, scale(limit)]}


def _since(term: Term, now: datetime) -> datetime | None:
    """The earliest moment that a term allows, if it says one."""
    limit = number(term.values[0])
    if limit is None or len(term.values) > 1:
        return None
    if term.field == "age" and term.relation == "<":
        return _ago(limit, now)
    if term.field == "at" and term.relation == ">":
        return _ago(now.timestamp() - limit, now)
    return None


def _ago(seconds: float, now: datetime) -> datetime:
    """A moment, however far away it was typed: no date is before the year 1 or after 9999."""
    return now - timedelta(seconds=max(-_AGES, min(seconds, _AGES)))
