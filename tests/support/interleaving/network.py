"""The way from nodes to MongoDB: every call waits here until the test decides what becomes of
it."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator, Callable
from contextlib import asynccontextmanager
from dataclasses import dataclass
from typing import Any

from pymongo import ReadPreference, WriteConcern
from pymongo.read_concern import ReadConcern

from tontine.errors import StoreUnavailable, TontineError
from tontine.store.call import DECODED, PLAIN, RAW, AsyncStore, Call, Causal, Store

READS = frozenset({"find", "find_one", "distinct", "count_documents"})


@dataclass(eq=False, slots=True)
class Message:
    """One call of one sender on its way."""

    sender: str
    call: Call
    future: asyncio.Future[Any]
    until: float
    """When the sender's patience ends."""
    has_landed: bool = False
    answer: Any = None

    @property
    def is_write(self) -> bool:
        return self.call.method not in READS

    @property
    def is_open(self) -> bool:
        """Whether somebody still waits for the answer."""
        return not self.future.done() and not self.future.get_loop().is_closed()

    def __str__(self) -> str:
        what = str(self.call.args[0]) if self.call.args else ""
        return f"{self.sender}: {self.call.collection}.{self.call.method} {what[:300]}"


class Direct(Store):
    """MongoDB itself. One member and no crash: nothing is gained by waiting for its journal."""

    def _method(self, call: Call) -> Callable[..., Any]:
        key = (call.collection, call.raw, call.unheard, call.plain)
        if call.collection and key not in self._collections:
            self._collections[key] = self.database.get_collection(
                call.collection,
                codec_options=RAW if call.raw else PLAIN if call.plain else DECODED,
                read_preference=ReadPreference.PRIMARY,
                write_concern=WriteConcern(w=1),
                read_concern=ReadConcern("local"),
            )
        return super()._method(call)

    def make(self, call: Call) -> Any:
        """The answer, or the error."""
        try:
            return self._once(call)
        except TontineError as error:
            return error


class Network:
    """Calls in flight, and writes that their senders have given up, which may land all the same."""

    def __init__(
        self, store: Direct, now: Callable[[], float], landed: Callable[[Message], None]
    ) -> None:
        self.in_flight: list[Message] = []
        self.given_up: list[Message] = []
        self.change: Callable[[Call], Call] = lambda call: call
        """A fault to plant in every call before it lands."""
        self.sent: Callable[[Message], None] = lambda message: None
        self.log: list[str] = []
        self._store = store
        self._now = now
        self._landed = landed

    def send(self, sender: str, call: Call) -> asyncio.Future[Any]:
        message = Message(
            sender, call, asyncio.get_running_loop().create_future(), self._now() + call.within
        )
        self.in_flight.append(message)
        self.sent(message)
        return message.future

    def land(self, message: Message) -> None:
        """It reaches MongoDB; the answer is on its way."""
        message.has_landed = True
        message.answer = self._store.make(self.change(message.call))
        if message.is_write:
            self.log.append(f"{self._now():.2f} {message}")
            self._landed(message)

    def answer(self, message: Message) -> None:
        self._end(message, message.answer)

    def go_on(self, message: Message) -> None:
        """It lands, if it has not yet, and the sender hears of it."""
        if not message.has_landed:
            self.land(message)
        self.answer(message)

    def lose_answer(self, message: Message) -> None:
        if not message.has_landed:
            self.land(message)
        self._end(message, StoreUnavailable("the answer was lost"))

    def lose(self, message: Message) -> None:
        """It never lands, or its answer never arrives."""
        self._end(message, StoreUnavailable("the call was lost"))

    def give_up(self, message: Message) -> None:
        """The sender waits no longer, or is gone; a write may land later."""
        if message.is_write and not message.has_landed:
            self.given_up.append(message)
        self._end(message, StoreUnavailable("no answer in time"))

    def land_late(self, message: Message) -> None:
        self.given_up.remove(message)
        self.land(message)

    def _end(self, message: Message, answer: Any) -> None:
        self.in_flight.remove(message)
        if not message.is_open:
            return
        if isinstance(answer, BaseException):
            message.future.set_exception(answer)
        else:
            message.future.set_result(answer)


class Wire(AsyncStore):
    """One sender's end: the node's own store, whose calls are made by the network."""

    def __init__(self, network: Network, sender: str, database: Any) -> None:
        super().__init__(database)
        self.sender = sender
        self._network = network

    @asynccontextmanager
    async def _session(self, seen: Causal) -> AsyncIterator[Any]:
        yield None  # one member, which never answers from before what it has acknowledged

    async def _once(self, call: Call) -> Any:
        return await self._network.send(self.sender, call)
