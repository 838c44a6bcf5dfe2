"""The cluster's records as Prometheus reads them. The names are a promise: dashboards are built on
them."""

from __future__ import annotations

from collections.abc import Iterator, Mapping
from typing import Any

from prometheus_client.core import (
    CounterMetricFamily,
    GaugeMetricFamily,
    HistogramMetricFamily,
    Metric,
)
from prometheus_client.registry import Collector

from ..records.counted import BEYOND, Observed, Stat, stats_in, upper_bound
from ..records.node import Sighting
from ..rules.health import is_beating
from ..store.stats import Picture

_STOPPED = "stopped"
_SETTLED = ("done", "failed", "retried", "dropped")


class Exposition(Collector):
    """One picture of the cluster, as metrics. A node is named by its id: with a new start its
    counters begin anew."""

    def __init__(self, picture: Picture) -> None:
        self._records = [(Sighting.from_document(one), one) for one in picture.records]
        self._epoch = picture.epoch
        self._queued = picture.queued

    def collect(self) -> Iterator[Metric]:
        yield self._counted()
        yield self._observed()
        yield self._jobs()
        yield self._waiting()
        yield from self._nodes()
        yield self._contexts()
        yield GaugeMetricFamily("tontine_epoch", "Epoch of the roster.", self._epoch)

    def _stats(self) -> Iterator[tuple[str, Stat]]:
        for node, record in self._records:
            for stat in stats_in(record):
                yield node.id, stat

    def _counted(self) -> Metric:
        family = CounterMetricFamily(
            "tontine_task_count",
            "What tasks have counted, of jobs that got done.",
            labels=("task", "name", "node"),
        )
        for node, stat in self._stats():
            if not isinstance(stat.value, Observed):
                family.add_metric((stat.task, stat.name, node), stat.value)
        return family

    def _observed(self) -> Metric:
        family = HistogramMetricFamily(
            "tontine_task_observed",
            "What tasks have observed, of jobs that got done.",
            labels=("task", "name", "node"),
        )
        for node, stat in self._stats():
            if isinstance(stat.value, Observed):
                labels = (stat.task, stat.name, node)
                family.add_metric(labels, _buckets(stat.value), stat.value.sum)
        return family

    def _jobs(self) -> Metric:
        family = CounterMetricFamily(
            "tontine_jobs", "Attempts that a node has ended, by outcome.", labels=("state", "node")
        )
        for node, record in self._records:
            metrics = record.get("metrics")
            told = metrics if isinstance(metrics, Mapping) else {}
            for state in _SETTLED:
                family.add_metric((state, node.id), _number(told.get(state)))
        return family

    def _waiting(self) -> Metric:
        family = GaugeMetricFamily(
            "tontine_queued", "Jobs that wait, counted to 10,000.", labels=("task",)
        )
        for task, count in sorted(self._queued.items()):
            family.add_metric((task,), count)
        return family

    def _nodes(self) -> Iterator[Metric]:
        up = _of_nodes("up", "Whether a node beats; one that has stopped by itself is not shown.")
        for node, _ in self._records:
            if not node.is_dead or node.death != _STOPPED:
                up.add_metric((node.id,), int(is_beating(node)))
        yield up
        age = _of_nodes("beat_age_seconds", "Since its last heartbeat.")
        running = _of_nodes("running", "Jobs that it runs.")
        slots = _of_nodes("slots", "Jobs that it can run at once.")
        cpu = _of_nodes("cpu", "Cores that its processes use.")
        memory = _of_nodes("memory_bytes", "Memory that its processes use.")
        for node, record in self._records:
            if node.is_dead:
                continue
            metrics = record.get("metrics")
            told = metrics if isinstance(metrics, Mapping) else {}
            values = (node.beat_age, node.running, node.slots, told.get("cpu"), told.get("memory"))
            for family, value in zip((age, running, slots, cpu, memory), values, strict=True):
                if value is not None:
                    family.add_metric((node.id,), _number(value))
        yield from (age, running, slots, cpu, memory)

    def _contexts(self) -> Metric:
        family = GaugeMetricFamily(
            "tontine_context_ready",
            "Workers of a context that are ready.",
            labels=("node", "context"),
        )
        for node, record in self._records:
            told = record.get("contexts")
            for one in told if isinstance(told, list) and not node.is_dead else ():
                if isinstance(one, Mapping) and isinstance(one.get("name"), str):
                    family.add_metric((node.id, one["name"]), _number(one.get("ready")))
        return family


def _of_nodes(name: str, text: str) -> GaugeMetricFamily:
    return GaugeMetricFamily(f"tontine_node_{name}", text, labels=("node",))


def _buckets(observed: Observed) -> list[tuple[str, float]]:
    """Cumulative, as Prometheus has them, and up to infinity."""
    found: list[tuple[str, float]] = []
    below = 0
    for bucket in sorted(observed.buckets):
        below += observed.buckets[bucket]
        if bucket < BEYOND:
            found.append((repr(upper_bound(bucket)), below))
    return [*found, ("+Inf", observed.n)]


def _number(value: Any) -> float:
    return value if isinstance(value, int | float) else 0.0
