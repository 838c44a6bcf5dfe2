"""What must show: every target as data, judged only by what this run measured."""

from __future__ import annotations

from collections.abc import Iterable
from dataclasses import dataclass
from statistics import median

from .contender import BARE, TONTINE
from .examined import LOOK_UP
from .parts import drain, idle, memory, mixed, plans, submit
from .plan import Plan
from .record import Record, Series, ratios


@dataclass(frozen=True, slots=True)
class Verdict:
    """A target and what came of it; `is_met` is None for what is only reported."""

    target: str
    found: float
    spread: tuple[float, float]
    wanted: str
    is_met: bool | None


@dataclass(frozen=True, slots=True)
class Bound:
    """At least, or at most, so much; neither is a report."""

    least: float | None = None
    most: float | None = None

    def __str__(self) -> str:
        if self.least is not None:
            return f"at least {self.least:g}"
        return "as it is" if self.most is None else f"at most {self.most:g}"

    def judge(self, target: str, values: list[float]) -> Verdict:
        found = median(values)
        met = None
        if self.least is not None or self.most is not None:
            met = (self.least is None or found >= self.least) and (
                self.most is None or found <= self.most
            )
        return Verdict(target, found, (min(values), max(values)), str(self), met)


Key = tuple[str, str, str]


def judge(record: Record, plan: Plan) -> list[Verdict]:
    """All targets that this run has figures for."""
    verdicts = []
    for target, mine, other, bound in _ratios(plan):
        one, two = record.find(*mine), record.find(*other)
        if one is not None and two is not None:
            verdicts.append(bound.judge(target, ratios(one, two)))
    for target, key, bound in _plain(plan):
        found = record.find(*key)
        if found is not None:
            verdicts.append(bound.judge(target, found.values))
    looked = _growth(record)
    if looked:
        verdicts.append(
            Bound(most=3).judge("growth: most keys examined to find a job, anywhere", [max(looked)])
        )
    return verdicts


_RIVALS = ("PgQueuer", "PgQueuer, batch 100", "Celery", "Dramatiq", "Huey", "taskiq", BARE)
_SMALL, _LARGE = 20_000, 1_000_000
_DRAINS = {  # what else is measured is only reported
    (_SMALL, "PgQueuer"): Bound(2.0),
    (_SMALL, "Celery"): Bound(12),
    (_SMALL, "Dramatiq"): Bound(3),
    (_SMALL, "Huey"): Bound(3),
    (_SMALL, BARE): Bound(0.75),
    (200_000, "PgQueuer"): Bound(2.5),
    (200_000, "PgQueuer, batch 100"): Bound(2.5),
}


def _ratios(plan: Plan) -> Iterable[tuple[str, Key, Key, Bound]]:
    yield from _drains(plan)
    yield from _latencies()
    many = submit.MANY
    yield (
        "submit_many / bare insert_many",
        ("submit", many, TONTINE),
        ("submit", many, submit.INSERT),
        Bound(0.7),
    )
    beside = f"drain beside {plan.idle_nodes} idle nodes"
    yield (
        f"idle: {beside} / drain alone",
        ("idle", beside, TONTINE),
        ("idle", "drain alone", TONTINE),
        Bound(0.9),
    )
    yield (
        "mixed: p50 where one of four has the module / where all have",
        ("mixed", mixed.ONE_HAS, TONTINE),
        ("mixed", mixed.ALL_HAVE, TONTINE),
        Bound(most=2),
    )
    yield from _plans(plan)
    few, very_many = plan.memory
    for what, bound in (("master", Bound(most=1.2)), ("worker", Bound(most=1.2))):
        yield (
            f"memory of a {what}: after {very_many:,} / after {few:,} jobs",
            ("memory", f"{what} {memory.measure_of(very_many)}", TONTINE),
            ("memory", f"{what} {memory.measure_of(few)}", TONTINE),
            bound,
        )


def _drains(plan: Plan) -> Iterable[tuple[str, Key, Key, Bound]]:
    for size in plan.sizes:
        what = drain.measure_of(size)
        for who in _RIVALS:
            bound = _DRAINS.get((size, who), Bound())
            yield (
                f"drain {what}: Tontine / {who}",
                ("drain", what, TONTINE),
                ("drain", what, who),
                bound,
            )
    small = drain.measure_of(plan.sizes[0])
    for size in plan.sizes[1:]:
        bound = Bound(0.9) if (plan.sizes[0], size) == (_SMALL, _LARGE) else Bound()
        what = drain.measure_of(size)
        yield (
            f"drain: Tontine at {what} / at {small}",
            ("drain", what, TONTINE),
            ("drain", small, TONTINE),
            bound,
        )


def _latencies() -> Iterable[tuple[str, Key, Key, Bound]]:
    for who in _RIVALS:
        bound = Bound(most=1.25) if who == "PgQueuer" else Bound()
        what = "idle, p50"
        yield (
            f"latency p50: Tontine / {who}",
            ("latency", what, TONTINE),
            ("latency", what, who),
            bound,
        )
    for what, most in (("idle", 3), ("50 % load", 10)):
        p50, p99 = (("latency", f"{what}, {name}", TONTINE) for name in ("p50", "p99"))
        yield f"latency, {what}: p99 / p50", p99, p50, Bound(most=most)


def _plans(plan: Plan) -> Iterable[tuple[str, Key, Key, Bound]]:
    for what in (plans.chain_of(plan.links), plans.chord_of(plan.items)):
        for peer in ("Celery", "Celery, acks_late"):
            ours, theirs = (("plans", what, one) for one in (TONTINE, peer))
            yield f"plans, {what}: Tontine / {peer}", ours, theirs, Bound()
    yield (
        f"plans: {plans.ITEMS} / {plans.PLAIN}",
        ("plans", plans.ITEMS, TONTINE),
        ("plans", plans.PLAIN, TONTINE),
        Bound(0.7),
    )
    yield (
        f"plans: {plans.NEXT} / {plans.START}",
        ("plans", plans.NEXT, TONTINE),
        ("plans", plans.START, TONTINE),
        Bound(most=2),
    )


def _plain(plan: Plan) -> Iterable[tuple[str, Key, Bound]]:
    yield "skew: makespan / ideal", ("skew", "every 20th heavy", TONTINE), Bound(most=1.15)
    yield (
        "skew: makespan / ideal, worst for a modulo",
        ("skew", "heavy on even seqs", TONTINE),
        Bound(most=1.25),
    )
    for count in dict.fromkeys((1, plan.idle_nodes)):
        name = idle.measure_of(count)
        yield (
            f"idle, {name}: store calls a second, each",
            ("idle", f"{name}: store calls per node", TONTINE),
            Bound(most=4),
        )
        yield (
            f"idle, {name}: % of a core, each",
            ("idle", f"{name}: CPU per node", TONTINE),
            Bound(most=1),
        )
    for sort, most in (("fresh", 4), ("due", 5)):
        yield (
            f"mixed: keys examined to find a {sort} job of a module that few have",
            ("mixed", mixed.measure_of("keys", sort), TONTINE),
            Bound(most=most),
        )
    yield (
        "recovery, in leases",
        ("recovery", "kill -9 to the job's start elsewhere", TONTINE),
        Bound(),
    )


def _growth(record: Record) -> list[float]:
    found: list[Series] = [
        series
        for figure, series in record.series.items()
        if figure.part == "growth" and figure.measure.startswith(f"keys per job by {LOOK_UP}")
    ]
    return [series.median for series in found]
