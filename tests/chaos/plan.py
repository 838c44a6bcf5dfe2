"""Which fault happens when, to whom and for how long: all drawn from a seed before anything
starts."""

from __future__ import annotations

from dataclasses import dataclass
from random import Random


@dataclass(frozen=True, slots=True)
class Kind:
    """A fault: whom it befalls, how often it is drawn, how many leases it lasts, and how strong it
    is."""

    befalls: str
    weight: float
    lasts: tuple[float, float]
    what: str
    amount: tuple[float, float] = (0.0, 0.0)


ANY = (0.0, 1e6)
"""Strength as a seed: what exactly happens is drawn from it when there is something for it to
happen to."""

KINDS = {
    "kill": Kind("node", 5, (0.1, 2.0), "kill -9 of a node: master and workers"),
    "kill-master": Kind(
        "node", 3, (0.1, 2.0), "kill -9 of a master; its workers must end by themselves"
    ),
    "kill-worker": Kind("node", 4, (0.1, 0.1), "kill -9 of one worker"),
    "freeze": Kind("node", 5, (0.3, 3.0), "SIGSTOP of a node, then SIGCONT"),
    "freeze-master": Kind("node", 3, (0.3, 3.0), "SIGSTOP of a master, its workers run"),
    "freeze-worker": Kind("node", 2, (0.3, 3.0), "SIGSTOP of one worker"),
    "stop": Kind("node", 3, (0.2, 1.0), "SIGTERM, a new one later"),
    "pause": Kind("node", 3, (0.5, 2.0), "pause, resume later"),
    "join": Kind("extra", 3, (1.0, 4.0), "one more node, which leaves again"),
    "wrong-clock": Kind(
        "extra", 2, (1.0, 4.0), "one more node, with a clock that is minutes off", (-30.0, 30.0)
    ),
    "full-log": Kind("extra", 2, (1.0, 3.0), "one more node, whose log is on a full disk"),
    "cut": Kind("node", 4, (0.3, 3.0), "the network breaks and refuses every connection"),
    "swallow": Kind(
        "node", 4, (0.3, 3.0), "the network is silent, and delivers later what was sent meanwhile"
    ),
    "slow": Kind("node", 3, (0.5, 2.0), "every message takes its time", (0.01, 0.2)),
    "lose": Kind("node", 6, (0.5, 2.0), "writes arrive, their answers are lost", (1, 8)),
    "hold": Kind(
        "node", 4, (0.5, 1.5), "writes arrive late, perhaps after their sender's death", (0.1, 2.0)
    ),
    "lose-insert": Kind(
        "producer", 4, (0.5, 1.0), "a producer's inserts arrive, their answers are lost", (1, 6)
    ),
    "depose": Kind("mongod", 4, (0.5, 1.0), "the primary steps down"),
    "kill-primary": Kind("mongod", 3, (0.5, 2.0), "kill -9 of the primary"),
    "freeze-primary": Kind(
        "mongod", 3, (0.3, 2.0), "SIGSTOP of the primary; another one takes over"
    ),
    "kill-secondary": Kind("mongod", 1, (0.5, 2.0), "kill -9 of a secondary"),
    "lose-majority": Kind(
        "mongod", 2, (0.3, 1.5), "two of three members frozen: reads may work, writes do not"
    ),
    "all-down": Kind("mongod", 2, (0.3, 1.8), "kill -9 of every member"),
    "starve": Kind(
        "node",
        3,
        (0.2, 0.8),
        "a node that can open no file and start no process, and loses a worker",
    ),
    "drop-module": Kind(
        "node", 4, (0.3, 2.0), "a module is taken from a node, and wanted again later"
    ),
    "reload": Kind("node", 2, (0.0, 0.0), "all workers of a node are replaced"),
    "no-connection": Kind(
        "node", 3, (0.3, 3.0), "a context cannot open its connection, and loses its worker"
    ),
    "leave": Kind(
        "load",
        3,
        (0.0, 0.0),
        "jobs that leave processes behind, or wait for a pool past their time",
        ANY,
    ),
    "abrupt": Kind(
        "load", 3, (0.0, 0.0), "jobs that end their worker just after they returned", ANY
    ),
    "large": Kind("load", 3, (0.0, 0.0), "jobs, raw documents and results of 6 to 16 MB", ANY),
    "deep": Kind("load", 2, (0.0, 0.0), "arguments nested 150 levels, results nested 180", ANY),
    "unreadable": Kind("load", 2, (0.0, 0.0), "raw documents whose _id or text is not UTF-8", ANY),
    "scribble": Kind(
        "data",
        8,
        (0.0, 0.2),
        "odd values in a job, a plan, a node's record, a schedule, roster or counter",
        ANY,
    ),
    "drop": Kind(
        "data",
        3,
        (2.0, 3.0),
        "gone: the index of seqs or one of plans, the bell, the roster, a collection, 500 numbers",
        ANY,
    ),
    "spoil": Kind(
        "modules",
        3,
        (0.0, 0.2),
        "spoilt: wants, reload, kinds of the roster; gone: ranges, a state, outputs of stages",
        ANY,
    ),
}


@dataclass(frozen=True, slots=True)
class Fault:
    """One fault, in seconds from the start."""

    at: float
    kind: str
    target: int
    lasts: float
    amount: float

    def __str__(self) -> str:
        whom = f" {self.target}" if KINDS[self.kind].befalls == "node" else ""
        strength = (
            f", {self.amount:.3g}" if self.amount and KINDS[self.kind].amount is not ANY else ""
        )
        return f"{self.kind}{whom} for {self.lasts:.1f} s{strength}"


@dataclass(frozen=True, slots=True)
class Plan:
    """Everything that is decided beforehand."""

    faults: tuple[Fault, ...]
    clocks: tuple[float, ...]
    """By how many minutes each node's clock is wrong."""


def draw(
    seed: int, seconds: float, nodes: int, lease: float, every: float, kinds: list[str]
) -> Plan:
    """The plan of a seed: a fault `every` so many seconds on average, one at a time for each thing
    that can fail."""
    random = Random(seed)
    clocks = tuple(random.choice([0.0, 0.0, random.uniform(-20, 20)]) for _ in range(nodes))
    free_at: dict[tuple[str, int], float] = {}
    faults: list[Fault] = []
    at = 0.0
    while (at := at + random.expovariate(1 / every)) < seconds:
        name = random.choices(kinds, [KINDS[kind].weight for kind in kinds])[0]
        kind = KINDS[name]
        places = range(nodes if kind.befalls == "node" else 1)
        free = [place for place in places if free_at.get((kind.befalls, place), 0.0) <= at]
        lasts, amount = (
            round(random.uniform(*kind.lasts) * lease, 2),
            round(random.uniform(*kind.amount), 3),
        )
        if free:
            target = random.choice(free)
            # Time to recover, or nothing would ever be settled.
            free_at[kind.befalls, target] = at + lasts + lease
            faults.append(Fault(round(at, 2), name, target, lasts, amount))
    return Plan(tuple(faults), clocks)
