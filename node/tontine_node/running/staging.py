"""The master's side of what jobs keep from one attempt to the next: it reads that before such a job
is sent, and stores the output of each stage before the next one begins (ME1-ME6)."""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Iterable, Mapping, Sequence
from typing import Any, Protocol

import bson
from bson.raw_bson import RawBSONDocument

from tontine.clock import Clock
from tontine.errors import ClaimLost, NotPermitted, StoreError, StoreUnavailable, Unstorable
from tontine.records.job import JobError
from tontine.records.stage import stages_in
from tontine.records.task_key import name_of
from tontine.store import outputs
from tontine.store.call import PLAIN, RAW, AsyncStore
from tontine.store.outputs import INLINE, INLINE_IN_ALL, DoneStage
from tontine.store.raw import Raw
from tontine.store.settle import Outcome, Saved

from ..claims import Claims, Entry
from ..staged_run import StagedRun
from ..telling.troubles import Troubles
from .pipe import Orders, SavedValue, StageAnswer, StageOutput, TaskFacts
from .workload import UNKNOWN, Workload

log = logging.getLogger(__name__)

WRITE_EVERY = 0.5
AT_ONCE = 4
"""Outputs of all workers that are stored at a time: each may have megabytes."""
REFUSED_FOR = 60.0
"""Seconds for which an output that the server refuses is tried again."""
_LONGEST_PAUSE = 2.0


class Dispatches(Protocol):
    """Whoever sends jobs to workers."""

    is_draining: bool
    tasks: dict[str, TaskFacts]

    def offer(self, entries: Iterable[Entry], *, first: bool = False) -> None: ...

    def end(self, entry: Entry, outcome: Outcome) -> None: ...


class Staging:
    """Of one node, over all of its workers."""

    def __init__(
        self, node: str, store: AsyncStore, clock: Clock, claims: Claims, troubles: Troubles
    ) -> None:
        self.tasks: set[asyncio.Task[None]] = set()
        self.reading: dict[int, Entry] = {}
        """Jobs that are held here, until it is read what they have of earlier attempts."""
        self._node = node
        self._store = store
        self._clock = clock
        self._claims = claims
        self._troubles = troubles
        self._turn = asyncio.Semaphore(AT_ONCE)
        self._saved: dict[int, tuple[int, Saved]] = {}
        self._written_at = float("-inf")

    def admit(self, entries: Iterable[Entry], dispatches: Dispatches) -> list[Entry]:
        """Those that can be sent now; the others are offered again when they can."""
        ready: list[Entry] = []
        unread: list[Entry] = []
        for entry in entries:
            facts = dispatches.tasks.get(name_of(entry.task), UNKNOWN)
            if facts.stage_limits and entry.staged is None:
                entry.staged = StagedRun()
            # A first attempt has nothing of an earlier one.
            is_unread = facts.saves and entry.kept is None and entry.attempt > 1
            (unread if is_unread else ready).append(entry)
        if unread:
            self.reading |= {entry.seq: entry for entry in unread}
            self._begin(self._read(unread, dispatches))
        return ready

    def take_outputs(self, workload: Workload, staged: Sequence[StageOutput]) -> None:
        """Stages of a worker's jobs are done."""
        for said in staged:
            entry = workload.sent.get(said.seq)
            if entry is None or entry.attempt != said.attempt or entry.staged is None:
                _answer(workload, said, error=_lost(said))
                continue
            entry.staged.waits_since = self._clock.now()
            self._begin(self._keep(workload, entry, entry.staged, said))

    def take_saved(self, workload: Workload, saved: Sequence[SavedValue]) -> None:
        """What a worker's jobs have saved last."""
        for said in saved:
            if said.seq in workload.sent:
                self._saved[said.seq] = said.attempt, (said.number, said.value)

    def unwritten(self, entry: Entry) -> Saved | None:
        """What a job has saved that is not written yet; its end writes it."""
        if not self._saved:
            return None
        attempt, saved = self._saved.pop(entry.seq, (0, None))
        return saved if attempt == entry.attempt else None

    async def write_saved(self) -> None:
        """Write what was saved since, at most twice a second."""
        now = self._clock.now()
        if not self._saved or now - self._written_at < WRITE_EVERY:
            return
        self._written_at = now
        values = dict(self._saved)
        try:
            rows = [(seq, attempt, saved) for seq, (attempt, saved) in values.items()]
            await self._store.run(outputs.write_saved(self._node, rows))
        except StoreError as error:  # an end that comes meanwhile writes it
            log.warning(
                "what jobs save was not stored",
                extra={"event": "save-failed", "error": str(error)},
            )
            return
        for seq, written in values.items():
            if self._saved.get(seq) == written:
                del self._saved[seq]

    def _begin(self, work: Any) -> None:
        task = asyncio.create_task(work)
        self.tasks.add(task)
        task.add_done_callback(self.tasks.discard)

    async def _read(self, entries: Sequence[Entry], dispatches: Dispatches) -> None:
        unread, pause = list(entries), 0.1
        while unread := [one for one in unread if self._is_mine(one)]:
            try:
                kept = await self._store.run(
                    outputs.read_kept(self._node, {one.seq: one.attempt for one in unread})
                )
                for entry in unread:
                    await self._resume(entry, kept.get(entry.seq), dispatches)
                self._troubles.over("stages")
                break
            except StoreError as error:
                self._troubles.note("stages", error)
                if dispatches.is_draining:
                    for entry in unread:
                        self._let_go(entry, dispatches)
                    break
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
        for entry in entries:
            self.reading.pop(entry.seq, None)

    async def _resume(self, entry: Entry, kept: Raw | None, dispatches: Dispatches) -> None:
        """Let a job go on from what it has, if that is all there."""
        while self._is_mine(entry) and entry.kept is None:
            if kept is None:  # not ours any more: what stands there is for its holder
                self._let_go(entry, dispatches)
                return
            done = stages_in(kept.get("stages"))
            output = b""
            if done and done[-1].parts:
                found = await self._store.run(outputs.read_output(entry.seq, done[-1]))
                if found is None:
                    await self._begin_earlier(entry, len(done) - 1, done[-1].name)
                    again = await self._store.run(
                        outputs.read_kept(self._node, {entry.seq: entry.attempt})
                    )
                    kept = again.get(entry.seq)
                    continue
                output = found
            entry.kept = _packed(kept, output)
            if entry.staged is not None:
                entry.staged.place = len(done)
                entry.staged.inline = sum(one.bytes for one in done if not one.parts)
            self._claims.grow(entry, len(entry.kept))
        if entry.kept is not None and self.reading.pop(entry.seq, None) is not None:
            dispatches.offer([entry], first=True)

    async def _begin_earlier(self, entry: Entry, place: int, name: str) -> None:
        text = f"the output of stage {place + 1} ({name}) is gone: it runs again"
        log.warning("an output is gone", extra={"event": "output-gone", "seq": entry.seq})
        await self._store.run(
            outputs.forget_stages(
                self._node, entry.seq, entry.attempt, place, JobError("OutputGone", text)
            )
        )

    def _let_go(self, entry: Entry, dispatches: Dispatches) -> None:
        if self.reading.pop(entry.seq, None) is not None and self._is_mine(entry):
            dispatches.end(entry, Outcome("released", entry.seq, entry.attempt))

    async def _keep(
        self, workload: Workload, entry: Entry, run: StagedRun, said: StageOutput
    ) -> None:
        """Store an output, until the store has answered, and tell the worker."""
        stage = DoneStage(said.place, said.name, said.version, said.ms, said.output)
        size, pause, begun = len(stage.body), 0.1, self._clock.now()
        apart = size > INLINE or run.inline + size > INLINE_IN_ALL
        while workload.sent.get(entry.seq) is entry:
            try:
                async with self._turn:
                    is_cancelled = await self._store.run(
                        outputs.keep_stage(self._node, entry.seq, entry.attempt, stage, apart=apart)
                    )
            except Unstorable as error:
                if not apart:
                    apart = True
                    continue
                _answer(workload, said, error=("OutputTooLarge", _unstored(said, error)))
                return
            except StoreError as error:
                # A refusal may be over in a moment: an index that was dropped is made again.
                is_refused = not isinstance(error, StoreUnavailable | NotPermitted)
                if is_refused and self._clock.now() - begun > REFUSED_FOR:
                    _answer(workload, said, error=("UnstorableOutput", _unstored(said, error)))
                    return
                self._troubles.note("stages", error)
                await asyncio.sleep(pause)
                pause = min(pause * 2, _LONGEST_PAUSE)
            else:
                self._troubles.over("stages")
                self._go_on(run, said, 0 if apart else size)
                is_over = is_cancelled is None
                _answer(
                    workload,
                    said,
                    is_cancelled=bool(is_cancelled),
                    error=_lost(said) if is_over else None,
                )
                return

    def _go_on(self, run: StagedRun, said: StageOutput, inline: int) -> None:
        now = self._clock.now()
        run.waited += now - (run.waits_since or now)
        run.waits_since, run.begun, run.place = None, now, said.place + 1
        run.inline += inline

    def _is_mine(self, entry: Entry) -> bool:
        return self._claims.get(entry.seq) is entry


def _packed(kept: Raw, output: bytes) -> bytes:
    """What goes with the order: both as MongoDB has them; nothing where there is nothing."""
    if kept.get("stages") is None and kept.get("saved") is None:
        return b""
    if not output:
        return kept.raw
    whole: Mapping[str, Any] = RawBSONDocument(kept.raw, RAW)
    return bson.encode({**whole, "output": output}, codec_options=PLAIN)


def _unstored(said: StageOutput, error: StoreError) -> str:
    return f"the output of stage {said.name} cannot be stored: {error}"


def _lost(said: StageOutput) -> tuple[str, str]:
    error = ClaimLost(said.seq, said.attempt)
    return type(error).__name__, str(error)


def _answer(
    workload: Workload,
    said: StageOutput,
    *,
    is_cancelled: bool = False,
    error: tuple[str, str] | None = None,
) -> None:
    answer = StageAnswer(said.seq, said.attempt, is_cancelled, error)
    workload.child.send(Orders(staged=[answer]))


def time_limit(
    entry: Entry, facts: TaskFacts, ran: float, now: float
) -> tuple[float, float | None]:
    """How long a job has run and how long it may: its attempt, or its stage if that is over its
    own limit."""
    limit = entry.timeout or facts.timeout
    run: StagedRun | None = entry.staged
    if run is None:
        return ran, limit
    whole, of_stage = run.times(ran, now)
    if run.waits_since is not None:
        return whole, None
    limits = facts.stage_limits
    stage_limit = limits[run.place] if run.place < len(limits) else None
    if stage_limit is not None and of_stage > stage_limit:
        return of_stage, stage_limit
    return whole, limit
