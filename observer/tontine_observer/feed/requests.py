"""What an operator asks through the observer: the only thing it ever writes, by the same functions
as the commands.

Every request names the state that the operator saw: what has changed meanwhile is left alone and
said so.
"""

from __future__ import annotations

import asyncio
import getpass
import os
import socket
import time
from collections.abc import AsyncIterator, Callable, Sequence

from tontine.errors import ConfigError, NotPermitted, StoreError, UnknownJob, UnknownPlan
from tontine.legible import count, duration, legible
from tontine.records.node import DEFAULT_LEASE
from tontine.records.states import FINAL, Desired, NodeState
from tontine.rules.plan_shown import state_word
from tontine.store import control, events, schedules, window
from tontine.store.call import AsyncStore
from tontine.store.plans import control as plans
from tontine.store.plans.read import read_plan

from ..model.nodes import ROUTINE
from ..records.node import NodeFact
from ..records.request import MOST, Phase, Request, RequestProgress

LEASES = 2
ACCEPTED_FOR = 3600.0
_LOOK_EVERY = 0.2
_TOLD_EVERY = 100
_DESIRED = {"pause": Desired.PAUSED, "resume": Desired.RUNNING, "stop": Desired.STOPPED}
_REACHED = {
    "pause": {NodeState.PAUSED.value},
    "resume": set(ROUTINE),
    "stop": {NodeState.DEAD.value},
}
_IS = {"pause": "is paused", "resume": "works again", "stop": "has stopped"}
_SCHEDULES = ("run", "on", "off")
_FINAL = {state.value for state in FINAL}

See = Callable[[str], NodeFact | None]
"""How the board sees a node now."""


async def ask(
    store: AsyncStore, request: Request, see: See, lease: float
) -> AsyncIterator[RequestProgress]:
    """Carry a request out, and tell how far it is until it has ended."""
    if len(request.targets) > MOST:
        raise ConfigError(
            f"{len(request.targets):,} jobs at once are too many: {MOST:,} is the most"
        )
    if request.verb in _SCHEDULES:
        steps = _ask_schedule(store, request)
    elif request.is_plan:
        steps = _ask_plan(store, request)
    elif request.verb in _DESIRED:
        steps = _ask_node(store, request, see)
    else:
        steps = _ask_jobs(store, request, lease)
    try:
        async for progress in steps:
            yield progress
    except NotPermitted as refusal:
        yield RequestProgress(
            Phase.REFUSED, f"not permitted: {legible(refusal, 160)}", failed=len(request.targets)
        )


async def _ask_node(
    store: AsyncStore, request: Request, see: See
) -> AsyncIterator[RequestProgress]:
    node = str(request.targets[0])
    before = see(node)
    name = before.name if before else node
    seen = request.expected.get(node, before.state if before else "")
    # A node that finds work or runs out of it is the same to an operator.
    states = sorted(ROUTINE) if seen in ROUTINE else [seen]
    if not await store.run(control.ask_seen(node, _DESIRED[request.verb], states)):
        yield RequestProgress(
            Phase.CHANGED, f"{name} changed meanwhile: nothing was asked of it", failed=1
        )
        return
    await _record(store, request, name, node=node)
    yield RequestProgress(Phase.REQUESTED, f"{name} was asked to {request.verb}")
    async for progress in _follow_node(request.verb, node, name, before, see):
        yield progress


async def _follow_node(
    verb: str, node: str, name: str, before: NodeFact | None, see: See
) -> AsyncIterator[RequestProgress]:
    began = time.monotonic()
    beat = before.beat if before else 0
    patience = LEASES * (before.lease if before else DEFAULT_LEASE)
    is_accepted = False
    while True:
        fact = see(node)
        if fact is None or fact.state in _REACHED[verb]:
            yield RequestProgress(Phase.DONE, f"{name} {_IS[verb]}", done=1)
            return
        if fact.is_dead:
            yield RequestProgress(Phase.CHANGED, f"{name} died meanwhile", failed=1)
            return
        # The answer to a beat tells a node what is asked of it.
        if not is_accepted and fact.beat > beat + 1:
            is_accepted = True
            rest = f"; it finishes {count(fact.running, 'job')} first" if fact.running else ""
            yield RequestProgress(Phase.ACCEPTED, f"{name} has heard of it{rest}")
        if time.monotonic() - began > (ACCEPTED_FOR if is_accepted else patience):
            waited = duration(time.monotonic() - began)
            yield RequestProgress(
                Phase.TIMED_OUT, f"{name} did not answer in {waited}; the request stays", failed=1
            )
            return
        await asyncio.sleep(_LOOK_EVERY)


async def _ask_schedule(store: AsyncStore, request: Request) -> AsyncIterator[RequestProgress]:
    name = str(request.targets[0])
    if request.verb == "run":
        job = await store.run(schedules.run_now(name))
        text = f"{name}: job {job.seq} was submitted"
        if job.existed:
            text = f"{name}: job {job.seq} of it is {job.state.value}, and there is one at a time"
    elif request.verb == "on":
        await store.run(schedules.switch_on(name))
        text = f"{name} is on"
    else:
        is_there = await store.run(schedules.switch_off(name))
        text = f"{name} is off" if is_there else f"there is no schedule {name} any more"
    await _record(store, request, name, schedule=name)
    yield RequestProgress(Phase.DONE, text, done=1)


async def _ask_plan(store: AsyncStore, request: Request) -> AsyncIterator[RequestProgress]:
    """What becomes of the plan afterwards is seen on its page: undoing may take long."""
    seq = int(request.targets[0])
    try:
        plan = await store.run(read_plan(seq))
        if state_word(plan.state) != request.expected.get(seq):
            text = f"plan {seq} changed meanwhile: it is {state_word(plan.state)}"
            yield RequestProgress(Phase.CHANGED, text, failed=1)
            return
        await _record(store, request, f"plan {seq}", plan=seq)
        if request.verb == "retry":
            plan, is_so = await store.run(plans.retry(seq)), True
            text = f"plan {seq} goes on: it is {state_word(plan.state)}"
        else:
            plan, is_so = await store.run(plans.cancel(seq))
            text = f"plan {seq} is {state_word(plan.state)}"
    except (UnknownPlan, ConfigError) as error:
        is_so, text = False, legible(error, 160)
    yield RequestProgress(Phase.DONE if is_so else Phase.CHANGED, text, done=int(is_so))


async def _ask_jobs(
    store: AsyncStore, request: Request, lease: float
) -> AsyncIterator[RequestProgress]:
    seqs = [int(target) for target in request.targets]
    name = f"#{seqs[0]}" if len(seqs) == 1 else count(len(seqs), "job")
    await _record(store, request, name, seqs=seqs[:MOST])
    yield RequestProgress(Phase.REQUESTED, f"{request.verb} of {name} was asked for")
    pending: list[int] = []
    done, changed, problem = 0, 0, ""
    for place, seq in enumerate(seqs, 1):
        try:
            outcome = await _one_job(store, request.verb, seq, request.expected.get(seq))
        except (UnknownJob, ConfigError) as error:
            outcome, problem = "changed", legible(error, 160)
        done += outcome == "done"
        changed += outcome == "changed"
        if outcome == "asked":
            pending.append(seq)
        if place % _TOLD_EVERY == 0:
            yield RequestProgress(Phase.REQUESTED, f"{place:,} of {len(seqs):,}", done, changed)
    if pending:
        yield RequestProgress(
            Phase.ACCEPTED,
            f"the nodes were asked to end {count(len(pending), 'job')}",
            done,
            changed,
        )
        left = await _wait_for(store, pending, LEASES * lease)
        done += len(pending) - len(left)
        if left:
            what = f"#{left[0]}" if len(left) == 1 else count(len(left), "job")
            yield RequestProgress(
                Phase.TIMED_OUT, f"{what} still running; the request stays", done, changed
            )
            return
    yield _ended(request.verb, name, done, changed, problem)


def _ended(verb: str, name: str, done: int, changed: int, problem: str) -> RequestProgress:
    if changed:
        text = problem or f"{count(changed, 'job')} changed meanwhile and left alone"
        return RequestProgress(
            Phase.CHANGED, f"{text}; {done:,} done" if done else text, done, changed
        )
    became = "back in the queue" if verb == "retry" else "cancelled"
    return RequestProgress(Phase.DONE, f"{name} {became}", done, changed)


async def _one_job(store: AsyncStore, verb: str, seq: int, seen: str | None) -> str:
    """What came of one job: done, asked (its node has to end it), or changed meanwhile."""
    if verb == "retry":
        _, was_put_back = await store.run(control.retry(seq, seen))
        return "done" if was_put_back else "changed"
    job = await store.run(control.cancel(seq, seen))
    if job.state.value == "cancelled":
        return "done"
    return "asked" if job.state.value == "working" and job.cancel else "changed"


async def _wait_for(store: AsyncStore, seqs: Sequence[int], limit: float) -> list[int]:
    """Those of the jobs that have not ended when the time is up."""
    until, left = time.monotonic() + limit, list(seqs)
    while left and time.monotonic() < until:
        states = await store.run(window.states_of(left))
        left = [seq for seq in left if states.get(seq, ("done", 0))[0] not in _FINAL]
        if left:
            await asyncio.sleep(_LOOK_EVERY)
    return left


async def _record(store: AsyncStore, request: Request, subject: str, **targets: object) -> None:
    """Leave a trace of who asked for what and why; nothing depends on it."""
    facts = {
        "verb": request.verb,
        "subject": subject,
        "actor": actor(),
        "host": socket.gethostname(),
        **targets,
    }
    if request.reason:
        facts["why"] = request.reason[:500]
    try:
        await store.run(events.record("request", **facts))
    except StoreError:
        return


def actor() -> str:
    """Who asks: the name of this user, as the system knows it."""
    try:
        return getpass.getuser()
    except (OSError, KeyError):  # a container without a user database
        return f"uid {os.getuid()}"
