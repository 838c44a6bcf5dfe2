"""Spans for submit and run, joined by the trace context in the job's `meta`."""

from __future__ import annotations

import asyncio
from collections.abc import Iterator
from typing import Any

import bson
import pytest
from opentelemetry.sdk.trace import ReadableSpan, TracerProvider
from opentelemetry.sdk.trace.export import SimpleSpanProcessor
from opentelemetry.sdk.trace.export.in_memory_span_exporter import InMemorySpanExporter
from opentelemetry.trace import SpanKind, StatusCode, get_current_span

from tests.support.lone_worker import lone_worker
from tontine import AsyncClient, Client, Module, Retry, hooks, otel
from tontine.errors import ConfigError
from tontine.store.call import AsyncStore, Store
from tontine.verdict import CODEC


@pytest.fixture
def provider() -> TracerProvider:
    return TracerProvider()


@pytest.fixture
def exporter(provider: TracerProvider) -> Iterator[InMemorySpanExporter]:
    exporter = InMemorySpanExporter()
    provider.add_span_processor(SimpleSpanProcessor(exporter))
    yield exporter
    otel.uninstrument()


@pytest.fixture
def shop(provider: TracerProvider, exporter: InMemorySpanExporter) -> Module:
    shop = Module("shop")
    otel.instrument(shop, tracer_provider=provider)
    otel.instrument(shop, tracer_provider=provider)  # twice is once

    @shop.task
    def sync() -> str:
        return format(get_current_span().get_span_context().span_id, "x")

    @shop.task(name="async")
    async def async_() -> str:
        await asyncio.sleep(0)
        return sync()

    @shop.task(max_attempts=2)
    def fail() -> None:
        raise Retry("not yet")

    return shop


def run(store: Store, *modules: Module) -> list[Any]:
    """Run what was submitted, in a worker, and give what came of it."""
    documents = store.database.jobs.find().sort("seq")
    with lone_worker(*modules) as worker:
        return [
            worker.runner.attempt(document["seq"], _encoded(document)) for document in documents
        ]


def _encoded(document: dict[str, Any]) -> bytes:
    return bson.encode(document, codec_options=CODEC)


def spans(exporter: InMemorySpanExporter) -> dict[str, ReadableSpan]:
    found = exporter.get_finished_spans()
    assert len({span.name for span in found}) == len(found)
    return {span.name: span for span in found}


@pytest.mark.parametrize("task", ["shop.sync", "shop.async"])
def test_a_run_is_in_the_trace_of_its_submit(
    store: Store, shop: Module, exporter: InMemorySpanExporter, provider: TracerProvider, task: str
) -> None:
    with (
        Client(store.database) as client,
        provider.get_tracer("app").start_as_current_span("request"),
    ):
        job = client.submit(task)
    (result,) = run(store, shop)
    found = spans(exporter)
    request, submit, ran = found["request"], found[f"submit {task}"], found[f"run {task}"]
    assert submit.parent == request.context
    assert ran.parent is not None
    assert (ran.parent.trace_id, ran.parent.span_id) == (
        submit.context.trace_id,
        submit.context.span_id,
    )
    assert (submit.kind, ran.kind) == (SpanKind.PRODUCER, SpanKind.CONSUMER)
    assert ran.attributes is not None
    assert dict(ran.attributes) == {
        "messaging.system": "tontine",
        "messaging.destination.name": task,
        "tontine.seq": job.seq,
        "tontine.attempt": 1,
        "tontine.outcome": "done",
    }
    assert format(ran.context.span_id, "x").encode() in result, "it is the current span of the task"


async def test_the_async_client_is_traced_too_and_batches_as_one(
    async_store: AsyncStore, store: Store, shop: Module, exporter: InMemorySpanExporter
) -> None:
    client = AsyncClient(async_store.database)
    await client.submit("shop.sync")
    await client.submit_many("shop.async", [{}, {}])
    assert set(spans(exporter)) == {"submit shop.sync", "submit shop.async"}
    parents = [
        document["meta"]["traceparent"] for document in store.database.jobs.find().sort("seq")
    ]
    assert parents[0] != parents[1] == parents[2]


def test_an_attempt_that_failed_is_an_error_and_so_is_a_submit_that_is_refused(
    store: Store, shop: Module, exporter: InMemorySpanExporter
) -> None:
    with Client(store.database) as client:
        client.submit("shop.fail")
        with pytest.raises(ConfigError):
            client.submit("")
    run(store, shop)
    found = spans(exporter)
    ran, refused = found["run shop.fail"], found["submit "]
    assert (ran.status.status_code, ran.status.description) == (StatusCode.ERROR, "Retry: not yet")
    assert ran.attributes is not None
    assert ran.attributes["tontine.outcome"] == "retry"
    assert [event.name for event in ran.events] == ["exception"]
    assert refused.status.status_code is StatusCode.ERROR


def test_a_job_that_nobody_traced_begins_a_trace(
    store: Store, shop: Module, exporter: InMemorySpanExporter
) -> None:
    otel.uninstrument()
    with Client(store.database) as client:
        client.submit("shop.sync")
    assert "meta" not in store.database.jobs.find_one({})
    run(store, shop)
    assert spans(exporter)["run shop.sync"].parent is None


def test_who_is_not_instrumented_can_give_the_trace_along(provider: TracerProvider) -> None:
    assert otel.trace_context() == {}
    with provider.get_tracer("app").start_as_current_span("request") as span:
        assert otel.trace_context()["traceparent"].split("-")[2] == format(
            span.get_span_context().span_id, "016x"
        )


def test_what_a_producer_gives_wins_over_what_is_added(
    exporter: InMemorySpanExporter, shop: Module
) -> None:
    with hooks.submitting("shop.sync", {"tenant": "acme", "traceparent": "mine"}) as meta:
        assert meta == {"tenant": "acme", "traceparent": "mine"}
    otel.uninstrument()
    with hooks.submitting("shop.sync", None) as meta:
        assert meta is None
