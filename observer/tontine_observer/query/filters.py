"""The filter language: `state:failed node:ada seq:4800..4900 err~timeout !task:mail age>30s word`.
Pure.

All terms must hold. `field:` compares whole values (numbers, or texts that contain it; `a,b` means
either), `~` looks inside a text, `<` and `>` compare numbers and ages, `!` turns a term around, and
a bare word is looked for everywhere.
"""

from __future__ import annotations

import re
from collections.abc import Mapping
from dataclasses import dataclass
from datetime import datetime

Facts = Mapping[str, str | float | None]

ALIASES = {
    "id": "seq",
    "job": "seq",
    "res": "rank",
    "share": "rank",
    "err": "error",
    "att": "attempt",
    "fail": "failed",
    "mod": "task",
    "ver": "version",
    "name": "node",
    "pri": "priority",
}
ARGS = "args."
"""How fields begin that are arguments of jobs: only the store knows them."""
TIMES = {"since": ("<", ">"), "until": (">", "<")}
"""Words for a moment, and how ages and moments compare with it."""
_TERM = re.compile(r'(!?)(?:([a-z_]+(?:\.[\w-]+)*)([:~<>]))?("(?:[^"]*)"?|\S*)', re.IGNORECASE)
_RANGE = re.compile(r"^(-?\d+(?:\.\d+)?)?\.\.(-?\d+(?:\.\d+)?)?$")
_AGE = re.compile(r"^(-?\d+(?:\.\d+)?)(ms|s|m|h|d)?$")
_UNITS = {"ms": 0.001, "s": 1.0, "m": 60.0, "h": 3600.0, "d": 86400.0, None: 1.0}


@dataclass(frozen=True, slots=True)
class Term:
    """One condition; `field` is empty for a bare word."""

    field: str
    relation: str
    values: tuple[str, ...]
    is_negated: bool = False

    def holds(self, facts: Facts) -> bool:
        return self._matches(facts) != self.is_negated

    def _matches(self, facts: Facts) -> bool:
        if not self.field:
            return any(_inside(value, fact) for value in self.values for fact in facts.values())
        if self.field.startswith(ARGS):
            return self.is_negated  # nobody here knows: what holds is found in the store
        fact = facts.get(self.field)
        if fact is None:
            return False
        match self.relation:
            case "~":
                return any(_inside(value, fact) for value in self.values)
            case "<" | ">":
                return _compare(fact, self.relation, self.values[0])
        return any(_equals(value, fact) for value in self.values)


@dataclass(frozen=True, slots=True)
class RowFilter:
    """Conditions that must all hold, the text they were read from, and what is wrong with it."""

    text: str = ""
    terms: tuple[Term, ...] = ()
    problem: str = ""

    def __bool__(self) -> bool:
        return bool(self.terms)

    def matches(self, facts: Facts) -> bool:
        return all(term.holds(facts) for term in self.terms)

    @property
    def is_for_the_store(self) -> bool:
        """Whether it asks for something that no row has."""
        return any(term.field.startswith(ARGS) for term in self.terms)


def parse(text: str, fields: frozenset[str] | None = None) -> RowFilter:
    """Read a filter. With a problem it has no terms, so that nothing disappears while somebody
    types."""
    terms: list[Term] = []
    for match in _TERM.finditer(text):
        if not match[0].strip() or match[0] == "!":
            continue
        negated, field, relation, raw = match.groups()
        name = _field(field or "")
        value = raw.strip('"')
        if name and fields is not None and not _is_there(name, fields):
            return RowFilter(text, (), f"no field {name!r} here: {', '.join(sorted(fields))}")
        if not value:
            continue
        if name in TIMES:
            moment = _moment(name, value)
            if moment is None:
                return RowFilter(text, (), f"{name}: wants 10m, 2h or 2030-01-31T12:00")
            terms.append(Term(*moment, is_negated=bool(negated)))
            continue
        if relation in ("<", ">") and number(value) is None:
            return RowFilter(
                text, (), f"{name}{relation} wants a number or an age like 30s, not {value!r}"
            )
        values = (
            tuple(filter(None, value.split(","))) if name and not raw.startswith('"') else (value,)
        )
        terms.append(Term(name, relation or "", values or (value,), bool(negated)))
    return RowFilter(text, tuple(terms))


def _field(typed: str) -> str:
    name = typed.lower()
    return f"{ARGS}{typed[len(ARGS) :]}" if name.startswith(ARGS) else ALIASES.get(name, name)


def _is_there(name: str, fields: frozenset[str]) -> bool:
    return name in fields or (name.startswith(ARGS) and ARGS in fields)


def _moment(name: str, value: str) -> tuple[str, str, tuple[str]] | None:
    """What `since:` or `until:` says, of ages or of moments."""
    of_age, of_moment = TIMES[name]
    if number(value) is not None:
        return "age", of_age, (value,)
    try:
        at = datetime.fromisoformat(value).timestamp()
    except (ValueError, OverflowError):  # also of a year that no zone has
        return None
    return "at", of_moment, (f"{at:.3f}",)


def span(text: str) -> tuple[float | None, float | None] | None:
    """The ends of a range like 100..200 or 100..; None when it is none."""
    match = _RANGE.match(text)
    if match is None:
        return None
    low, high = (float(part) if part else None for part in match.groups())
    return low, high


def number(text: str) -> float | None:
    """A number or an age: 30, 1.5, 30s, 5m."""
    match = _AGE.match(text)
    return float(match[1]) * _UNITS[match[2]] if match else None


def _inside(value: str, fact: str | float | None) -> bool:
    return fact is not None and value.casefold() in _text(fact).casefold()


def _equals(value: str, fact: str | float) -> bool:
    if isinstance(fact, str):
        return value.casefold() in fact.casefold()
    if ends := span(value.lstrip("#")):
        low, high = ends
        return (low is None or fact >= low) and (high is None or fact <= high)
    wanted = number(value.lstrip("#"))
    return wanted is not None and abs(fact - wanted) < 1e-9


def _compare(fact: str | float, relation: str, value: str) -> bool:
    limit = number(value)
    if isinstance(fact, str) or limit is None:
        return False
    return fact < limit if relation == "<" else fact > limit


def _text(fact: str | float) -> str:
    if isinstance(fact, str):
        return fact
    return str(int(fact)) if fact == int(fact) else f"{fact:g}"
