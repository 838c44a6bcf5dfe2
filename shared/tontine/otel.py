"""OpenTelemetry: a span for each submit and each run of a job, joined by the trace context in the
job's `meta`."""

from __future__ import annotations

import contextlib
from collections.abc import Iterator
from contextvars import ContextVar, Token
from typing import Any

from . import hooks
from .current import CurrentJob
from .errors import MissingExtra
from .hooks import Ended, Hooks

try:
    from opentelemetry import context, propagate, trace
    from opentelemetry.context import Context
    from opentelemetry.trace import Span, SpanKind, Status, StatusCode, Tracer, TracerProvider
except ImportError as error:
    raise MissingExtra("tontine.otel", "otel") from error

__all__ = ["instrument", "trace_context", "uninstrument"]

_provider: TracerProvider | None = None
_running: ContextVar[tuple[Span, Token[Context]] | None] = ContextVar(
    "tontine_running_span", default=None
)


def instrument(*modules: Hooks, tracer_provider: TracerProvider | None = None) -> None:
    """Trace what this process submits, and the jobs of these modules where a worker runs them.

    `shop.everywhere` in place of a module means the jobs of all modules that are loaded beside
    `shop`. Without a provider it is the one that is set for the process when a span begins.
    """
    global _provider  # noqa: PLW0603 - one for the process, as OpenTelemetry's own
    _provider = tracer_provider
    hooks.around_submit = _around_submit
    for module in modules:
        if _begin not in module.before:
            module.before_job(_begin)
            module.after_job(_end)


def uninstrument() -> None:
    """Trace submits no more; for tests."""
    hooks.around_submit = None


def trace_context() -> dict[str, str]:
    """The current trace context as a job's `meta` carries it, for producers that are not
    instrumented."""
    carrier: dict[str, str] = {}
    propagate.inject(carrier)
    return carrier


def _tracer() -> Tracer:
    return trace.get_tracer("tontine", tracer_provider=_provider)


@contextlib.contextmanager
def _around_submit(task: str) -> Iterator[dict[str, str]]:
    with _tracer().start_as_current_span(
        f"submit {task}", kind=SpanKind.PRODUCER, attributes=_about(task)
    ):
        yield trace_context()


def _begin(job: CurrentJob) -> None:
    parent = propagate.extract(
        {name: value for name, value in job.meta.items() if isinstance(value, str)}
    )
    about = _about(job.task) | {"tontine.seq": job.seq, "tontine.attempt": job.attempt}
    span = _tracer().start_span(f"run {job.task}", parent, SpanKind.CONSUMER, about)
    _running.set((span, context.attach(trace.set_span_in_context(span, parent))))


def _end(_: CurrentJob, ended: Ended) -> None:
    running = _running.get()
    if running is None:  # a hook before this one failed
        return
    span, token = running
    _running.set(None)
    span.set_attribute("tontine.outcome", ended.outcome)
    if ended.error is not None and ended.outcome != "cancelled":
        span.record_exception(ended.error)
        span.set_status(Status(StatusCode.ERROR, f"{type(ended.error).__name__}: {ended.error}"))
    span.end()
    context.detach(token)


def _about(task: str) -> dict[str, Any]:
    return {"messaging.system": "tontine", "messaging.destination.name": task}
