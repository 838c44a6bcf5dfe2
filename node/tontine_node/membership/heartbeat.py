"""The write that keeps a node alive: it beats in a thread of its own, and holds the lease."""

from __future__ import annotations

import logging
import threading
from collections.abc import Callable, Mapping
from dataclasses import dataclass
from datetime import datetime, timedelta
from typing import Any, Protocol

from tontine.clock import Clock
from tontine.config import Timing
from tontine.errors import LeaseLost, StoreError, StoreUnavailable
from tontine.legible import duration
from tontine.records.states import Desired
from tontine.records.want import Want
from tontine.store import members
from tontine.store.call import Store

from ..telling.outage import AWAY, BACK, told_away

log = logging.getLogger(__name__)


class Lease(Protocol):
    """What knows until when workers may run."""

    deadline: float


@dataclass(frozen=True, slots=True)
class Told:
    """What a heartbeat said, and the server's time at which it did."""

    at: datetime
    facts: Mapping[str, Any]


class Heartbeat:
    """Beats in a thread of its own, over a connection of its own, so that nothing else can starve
    it.

    `deadline` is the lease: it ends `L - margin` after the last acknowledged beat was sent
    (N4).
    """

    def __init__(
        self,
        node: str,
        store: Store,
        timing: Timing,
        clock: Clock,
        lease: Lease,
        facts: Callable[[], Mapping[str, Any]],
        changed: Callable[[], None],
    ) -> None:
        self.node = node
        self.desired = Desired.RUNNING
        self.wants: tuple[Want, ...] | None = None
        """What the node is to load, by the newest answer; None before the first."""
        self.reload = 0
        self.is_dead = False
        self.disturbed_at = clock.now()
        """When this node last could not trust its own watching (D1)."""
        self.failed_since_renewal = False
        self.seen: tuple[float, members.Beat] | None = None
        """When the newest acknowledged beat was sent, and what the record said then."""
        self.told: Told | None = None
        """The newest that the store has acknowledged."""
        self.where = ""
        """The MongoDB it beats to, as people may see it."""
        self._answered_at: float | None = None
        self._away_since: float | None = None
        self._server: tuple[float, datetime] | None = None
        self._store = store
        self._timing = timing
        self._clock = clock
        self._lease = lease
        self._facts = facts
        self._changed = changed
        self._stopping = threading.Event()
        self._hurry = threading.Event()
        self._thread = threading.Thread(target=self._run, daemon=True, name="heartbeat")

    def start(self) -> None:
        self._beat(self._clock.now())
        self._thread.start()

    def hurry(self) -> None:
        """Beat now: the operator asked for something, and the answer to a beat says what."""
        self._hurry.set()

    def stop(self) -> None:
        self._stopping.set()
        self._hurry.set()
        if self._thread.is_alive():
            self._thread.join(self._timing.heartbeat_limit + 1)

    def has_lease(self) -> bool:
        return not self.is_dead and self._clock.now() < self._lease.deadline

    def server_now(self) -> datetime | None:
        """The server's time by the newest beat; ahead of it by what that beat was under way, and
        never behind."""
        if self._server is None:
            return None
        sent, at = self._server
        return at + timedelta(seconds=self._clock.now() - sent)

    def _run(self) -> None:
        last = self._clock.now()
        while not self.is_dead:
            self._hurry.wait(max(0.0, last + self._every - self._clock.now()))
            self._hurry.clear()
            if self._stopping.is_set():
                return
            sent = self._clock.now()
            if sent - last > 2 * self._every + self._timing.heartbeat_limit:
                self.disturbed_at = sent
            self._beat(sent)
            last = sent

    @property
    def _every(self) -> float:
        return self._timing.heartbeat_every

    def _beat(self, sent: float) -> None:
        try:
            facts = self._facts()
            answer = self._store.run(
                members.heartbeat(
                    self.node, facts, self._timing.lease_for, self._timing.heartbeat_limit
                )
            )
        except LeaseLost:
            self.is_dead = True
            self._changed()
        except StoreUnavailable as error:
            self._missed("")
            self._tell_away(sent, str(error))
        except StoreError as error:
            self._missed(str(error))
        except Exception:
            # The top of this thread: without it the node would be fenced for good.
            log.exception("heartbeat failed", extra={"event": "heartbeat-failed"})
            self._missed("")
        else:
            self._lease.deadline = sent + self._timing.valid_for
            self.failed_since_renewal = False
            self._tell_back()
            self.told = Told(answer.at, facts)
            self.seen = sent, answer
            self._server = sent, answer.at
            asked = answer.desired, answer.wants, answer.reload
            if asked != (self.desired, self.wants, self.reload):
                self.desired, self.wants, self.reload = asked
                self._changed()

    def _missed(self, error: str) -> None:
        self.disturbed_at = self._clock.now()
        self.failed_since_renewal = True
        if error:
            log.warning("heartbeat failed", extra={"event": "heartbeat-failed", "error": error})

    def _tell_away(self, sent: float, error: str) -> None:
        """Once more it has not answered; the log keeps the first time."""
        if self._away_since is None:
            self._away_since = sent if self._answered_at is None else self._answered_at
        now = self._clock.now()
        silent_for, left = now - self._away_since, max(0.0, self._lease.deadline - now)
        facts = {
            "event": AWAY,
            "where": self.where,
            "silent_for": round(silent_for, 1),
            "lease_left": round(left, 1),
        }
        sentence = told_away(self.where, silent_for, left, error)
        log.warning(
            "MongoDB does not answer; waiting", extra=facts | {"error": error, "sentence": sentence}
        )

    def _tell_back(self) -> None:
        self._answered_at = self._clock.now()
        if self._away_since is not None:
            away_for = self._answered_at - self._away_since
            self._away_since = None
            facts = {"event": BACK, "away_for": round(away_for, 1)}
            sentence = f"MongoDB answers again, after {duration(away_for)}"
            log.info("MongoDB answers again", extra=facts | {"sentence": sentence})
