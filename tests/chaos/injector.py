"""Makes each fault happen, and undoes it when its time is over."""

from __future__ import annotations

import heapq
import signal
import threading
from collections import Counter
from collections.abc import Callable
from contextlib import suppress
from random import Random

import psutil

from tests.chaos.crew import COMES_AND_GOES, SHAKY, Crew, Hand
from tests.chaos.load import Load
from tests.chaos.plan import KINDS, Fault
from tests.chaos.vandal import Vandal
from tests.support.eventually import eventually
from tests.support.proxy import Proxy
from tests.support.replica_set import ReplicaSet, Server
from tontine.errors import TontineError, UnknownNode
from tontine.records.states import Desired
from tontine.records.want import Want
from tontine.store import control, modules
from tontine.store.call import Operation, Store

Undo = Callable[[], None]


class Injector:
    """Faults in, faults out. What cannot be done at its moment (a node that is just not there) is
    counted as missed."""

    def __init__(
        self,
        crew: Crew,
        servers: ReplicaSet,
        store: Store,
        producer: Proxy,
        load: Load,
        vandal: Vandal,
    ) -> None:
        self.injected: Counter[str] = Counter()
        self.missed: Counter[str] = Counter()
        self._crew = crew
        self._servers = servers
        self._store = store
        self.producer = producer
        self._load = load
        self._vandal = vandal
        self._undo: list[tuple[float, int, Undo]] = []
        self._extras = 0
        self._unheard: list[Hand] = []
        self._ungiven: list[Hand] = []

    def inject(self, fault: Fault, now: float) -> bool:
        """Make it happen; False when there was nobody to befall."""
        undo: Undo | None = self._way(fault.kind)(fault)
        (self.missed if undo is None else self.injected)[fault.kind] += 1
        if undo is not None:
            heapq.heappush(self._undo, (now + fault.lasts, sum(self.injected.values()), undo))
        return undo is not None

    def _way(self, kind: str) -> Callable[[Fault], Undo | None]:
        if KINDS[kind].befalls == "load":
            return self._ask_for
        way: Callable[[Fault], Undo | None] = getattr(self, "_" + kind.replace("-", "_"))
        return way

    def undo(self, now: float) -> None:
        """End the faults whose time is over."""
        while self._undo and self._undo[0][0] <= now:
            heapq.heappop(self._undo)[2]()

    def end_all(self) -> None:
        """Calm returns."""
        for server in self._servers.servers:
            _revive(server)
        eventually(self._servers.primary, 60, "a primary when calm returns")
        self.undo(float("inf"))
        for hand in list(self._crew.hands):
            hand.proxy.heal()
            self._crew.thaw(hand)

    def _node(self, fault: Fault) -> Hand | None:
        hand = self._crew.hands[fault.target]
        return hand if hand.is_up and not hand.is_leaving and not hand.frozen else None

    def _kill(self, fault: Fault, *, master_only: bool = False) -> Undo | None:
        if (hand := self._node(fault)) is None:
            return None
        self._crew.kill(hand, master_only=master_only)
        return lambda: self._crew.start(hand)

    def _kill_master(self, fault: Fault) -> Undo | None:
        return self._kill(fault, master_only=True)

    def _kill_worker(self, fault: Fault) -> Undo | None:
        hand = self._node(fault)
        workers = self._crew.workers(hand) if hand else []
        if not workers:
            return None
        with suppress(psutil.Error):  # it may just have ended
            workers[int(fault.at * 100) % len(workers)].kill()
        return _nothing

    def _starve(self, fault: Fault) -> Undo | None:
        if (hand := self._node(fault)) is None:
            return None
        try:
            feed = self._crew.starve(hand)
        except psutil.Error:
            return None
        self._kill_worker(fault)
        return feed

    def _freeze(self, fault: Fault) -> Undo | None:
        return self._freeze_some(fault, lambda master, workers: [master, *workers])

    def _freeze_master(self, fault: Fault) -> Undo | None:
        return self._freeze_some(fault, lambda master, _: [master])

    def _freeze_worker(self, fault: Fault) -> Undo | None:
        return self._freeze_some(fault, lambda _, workers: workers[:1])

    def _freeze_some(
        self,
        fault: Fault,
        choose: Callable[[psutil.Process, list[psutil.Process]], list[psutil.Process]],
    ) -> Undo | None:
        if (hand := self._node(fault)) is None or hand.node is None:
            return None
        self._crew.freeze(
            hand, choose(psutil.Process(hand.node.process.pid), self._crew.workers(hand))
        )
        return lambda: self._crew.thaw(hand)

    def _stop(self, fault: Fault) -> Undo | None:
        if (hand := self._node(fault)) is None:
            return None
        self._crew.ask_to_stop(hand)
        return lambda: self._restart(hand)

    def _restart(self, hand: Hand) -> None:
        """As an operator would: a node that is still draining is given no more time."""
        self._crew.kill(hand)
        self._crew.start(hand)

    def _pause(self, fault: Fault) -> Undo | None:
        hand = self._node(fault)
        if hand is None or not self._ask(hand, Desired.PAUSED):
            return None
        return lambda: self._resume(hand)

    def _resume(self, hand: Hand) -> None:
        if not self._ask(hand, Desired.RUNNING):
            self._unheard.append(hand)

    def ask_again(self) -> None:
        """Ask again those who could not be asked to go on, or for what was taken from them."""
        ungiven, self._ungiven = self._ungiven, []
        for hand in ungiven:
            self._give_module(hand)
        unheard, self._unheard = self._unheard, []
        for hand in unheard:
            if hand.is_up:
                self._resume(hand)

    def _ask(self, hand: Hand, desired: Desired) -> bool:
        try:
            return bool(self._store.run(control.ask(hand.name, desired)))
        except TontineError:
            return False

    def _drop_module(self, fault: Fault) -> Undo | None:
        hand = self._node(fault)
        if hand is None or not self._run_on(
            hand, lambda ids: modules.want_no_more(ids, [COMES_AND_GOES])
        ):
            return None
        return lambda: self._give_module(hand)

    def _give_module(self, hand: Hand) -> None:
        if not self._run_on(hand, lambda ids: modules.want(ids, Want(COMES_AND_GOES))):
            self._ungiven.append(hand)

    def _reload(self, fault: Fault) -> Undo | None:
        hand = self._node(fault)
        return _nothing if hand and self._run_on(hand, modules.ask_to_reload) else None

    def _run_on(self, hand: Hand, ask: Callable[[list[str]], Operation[int]]) -> bool:
        """Ask a node for something, whichever incarnation of it lives; whether that could be done.
        One that is not there has what it was started with when it comes back."""
        try:
            records = self._store.run(modules.find_nodes(hand.name))
            self._store.run(ask([str(record["_id"]) for record in records]))
        except UnknownNode:
            return True
        except TontineError:
            return False
        return True

    def _no_connection(self, fault: Fault) -> Undo | None:
        if (hand := self._node(fault)) is None:
            return None
        closed = self._crew.no_post(hand)
        closed.touch()
        for worker in self._crew.workers_of(hand, SHAKY):
            with suppress(psutil.Error):
                worker.kill()
        return lambda: closed.unlink(missing_ok=True)

    def _join(self, fault: Fault, log_to: str | None = None) -> Undo:
        self._extras += 1
        hand = self._crew.hire(f"extra{self._extras}", fault.amount, log_to)
        return lambda: self._crew.ask_to_stop(hand)

    def _wrong_clock(self, fault: Fault) -> Undo:
        return self._join(fault)

    def _full_log(self, fault: Fault) -> Undo:
        return self._join(fault, "/dev/full")

    def _cut(self, fault: Fault) -> Undo | None:
        return self._network(fault, Proxy.refuse)

    def _swallow(self, fault: Fault) -> Undo | None:
        return self._network(fault, Proxy.swallow)

    def _slow(self, fault: Fault) -> Undo | None:
        return self._network(fault, lambda proxy: setattr(proxy, "delay", fault.amount))

    def _lose(self, fault: Fault) -> Undo | None:
        return self._network(fault, lambda proxy: setattr(proxy, "losing", round(fault.amount)))

    def _hold(self, fault: Fault) -> Undo | None:
        return self._network(fault, lambda proxy: setattr(proxy, "hold", fault.amount))

    def _network(self, fault: Fault, hurt: Callable[[Proxy], None]) -> Undo | None:
        if (hand := self._node(fault)) is None:
            return None
        hurt(hand.proxy)
        return hand.proxy.heal

    def _lose_insert(self, fault: Fault) -> Undo:
        self.producer.losing = round(fault.amount)
        return self.producer.heal

    def _ask_for(self, fault: Fault) -> Undo:
        self._load.ask(fault.kind, fault.amount)
        return _nothing

    def _scribble(self, fault: Fault) -> Undo | None:
        return _nothing if self._vandal.scribble(Random(fault.amount)) else None

    def _spoil(self, fault: Fault) -> Undo | None:
        return _nothing if self._vandal.spoil(Random(fault.amount)) else None

    def _drop(self, fault: Fault) -> Undo | None:
        return self._vandal.set_up_again if self._vandal.drop(Random(fault.amount)) else None

    def _depose(self, fault: Fault) -> Undo | None:
        # A primary takes its time to step down, and other faults must not wait for it.
        threading.Thread(target=self._servers.depose, daemon=True).start()
        return _nothing

    def _kill_primary(self, fault: Fault) -> Undo | None:
        primary = self._servers.primary()
        return self._down([primary], Server.kill) if primary else None

    def _freeze_primary(self, fault: Fault) -> Undo | None:
        primary = self._servers.primary()
        return self._down([primary], _freeze) if primary else None

    def _kill_secondary(self, fault: Fault) -> Undo | None:
        primary = self._servers.primary()
        others = [server for server in self._servers.servers if server is not primary]
        return self._down(others[:1], Server.kill) if primary else None

    def _lose_majority(self, fault: Fault) -> Undo:
        primary = self._servers.primary() or self._servers.servers[0]
        return self._down(
            [server for server in self._servers.servers if server is not primary], _freeze
        )

    def _all_down(self, fault: Fault) -> Undo:
        return self._down(self._servers.servers, Server.kill)

    def _down(self, servers: list[Server], how: Callable[[Server], None]) -> Undo:
        for server in servers:
            how(server)

        def up() -> None:
            for server in servers:
                _revive(server)

        return up


def _freeze(server: Server) -> None:
    server.signal(signal.SIGSTOP)


def _revive(server: Server) -> None:
    if server.is_up:
        server.signal(signal.SIGCONT)
    else:
        server.start()


def _nothing() -> None:
    """It is over as soon as it happened."""
