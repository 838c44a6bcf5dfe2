"""How much is measured: everything as the targets want it, or a quick look that everything
works."""

from __future__ import annotations

from dataclasses import dataclass

PARTS = (
    *("drain", "submit", "latency", "growth", "mixed", "skew", "idle", "memory", "recovery"),
    *("plans", "survival"),
)


@dataclass(frozen=True, slots=True)
class Plan:
    """Counts, so that no part has any of its own."""

    rounds: int
    sizes: tuple[int, ...]
    """Backlogs to drain."""
    everyone_up_to: int = 20_000
    """Peers that need minutes for more drain no larger backlog than this."""
    singles: int = 1_000
    many: int = 100_000
    probes: int = 500
    warm_up: int = 20
    """Probes before, that do not count."""
    loaded_probes: int = 500
    crowds: tuple[int, ...] = (1, 2, 4, 8, 16, 32)
    backlogs: tuple[int, ...] = (1_000, 100_000, 1_000_000)
    sample: int = 5_000
    """Jobs of a backlog that are claimed to see what a claim costs."""
    skew_jobs: int = 200
    idle_nodes: int = 32
    idle_for: float = 20.0
    slowed: int = 20_000
    memory: tuple[int, int] = (20_000, 1_000_000)
    kills: int = 10
    lease: float = 4.0
    links: int = 100
    items: int = 20_000
    lost_links: int = 40
    lost_items: int = 200
    lost_seconds: float = 0.1
    """What each of the two takes whose workers are killed."""
    watch: float = 150.0
    """How long somebody watches what becomes of them."""


def full(rounds: int | None, sizes: tuple[int, ...] | None) -> Plan:
    return Plan(rounds or 5, sizes or (20_000, 200_000, 1_000_000))


def quick(rounds: int | None, sizes: tuple[int, ...] | None) -> Plan:
    return Plan(
        rounds=rounds or 1,
        sizes=sizes or (500, 1_000),
        everyone_up_to=max(sizes or (1_000,)),
        singles=50,
        many=2_000,
        probes=30,
        warm_up=3,
        loaded_probes=30,
        crowds=(1, 4),
        backlogs=(1_000, 3_000),
        sample=1_000,
        skew_jobs=40,
        idle_nodes=2,
        idle_for=2.0,
        slowed=500,
        memory=(500, 2_000),
        kills=1,
        links=10,
        items=500,
        lost_links=10,
        lost_items=20,
        watch=30.0,
    )
