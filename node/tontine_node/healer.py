"""Puts back what was dropped or changed in the database: collections, indexes, validators, the
bell.

The first member looks every few seconds, others now and then, and all at once when the store
answers like one where something is missing.
"""

from __future__ import annotations

import asyncio
import logging
from collections.abc import Mapping

from tontine.clock import Clock
from tontine.errors import NotPermitted, StoreError, StoreUnavailable
from tontine.store import schema
from tontine.store.call import AsyncStore, Operation, answered
from tontine.store.names import JOBS
from tontine.store.schema import Mended

from .duty import Duty
from .loop import jittered, rest
from .membership.member import Member
from .telling.troubles import Troubles

log = logging.getLogger(__name__)

GLANCE_EVERY, OTHERS_GLANCE_EVERY = 10.0, 30.0
"""A glance is a call or two: at the collections, and the next time at the indexes of `jobs`."""
LOOK_EVERY, OTHERS_LOOK_EVERY = 60.0, 600.0
AGAIN_AFTER = 120.0
"""What could not be mended is tried again more rarely: building an index reads the whole
collection."""
SUSPECT_EVERY = 2.0

_BAD_VALUE, _NO_COLLECTION, _NO_INDEX = 2, 26, 27
_SIGNS = ("error processing query", "failed validation")


class Healer:
    """One node's part in keeping the schema whole. A node lives with what it cannot mend, and says
    so."""

    def __init__(self, store: AsyncStore, clock: Clock, member: Member, troubles: Troubles) -> None:
        self.wake = asyncio.Event()
        self._glances_duty = Duty(GLANCE_EVERY, OTHERS_GLANCE_EVERY)
        self._looks_duty = Duty(LOOK_EVERY, OTHERS_LOOK_EVERY)
        self._store = store
        self._clock = clock
        self._member = member
        self._troubles = troubles
        self._is_looking = False
        self._glances = 0
        self._look_at = clock.now()
        self._left: frozenset[str] = frozenset()
        self._hopeless: frozenset[str] = frozenset()
        self._said: set[str] = set()

    def suspect(self, error: BaseException) -> None:
        """Look soon if this is how a store answers where an index, a collection or the bell is not
        as it should be."""
        if not self._is_looking and self._smells(error):
            self.wake.set()

    def _smells(self, error: BaseException) -> bool:
        # Such an answer begins with the query, and is cut before it comes to the hint.
        is_sign = any(sign in str(error) for sign in _SIGNS)
        return is_sign or answered(error, _BAD_VALUE, _NO_COLLECTION, _NO_INDEX)

    async def run(self) -> None:
        """Look for ever."""
        while True:
            await self._rest()
            self._is_looking = True
            try:
                await self._look()
            except StoreUnavailable:
                continue  # an outage is for others to tell
            except NotPermitted as error:
                self._say("rights", "may not look after the schema", {"error": str(error)})
            except StoreError as error:
                self._troubles.note("healing", error)
            finally:
                self._is_looking = False

    async def _rest(self) -> None:
        await rest(self.wake, jittered(self._every(self._glances_duty)))
        if self.wake.is_set():
            await asyncio.sleep(
                jittered(SUSPECT_EVERY, least=0.05)
            )  # it is enough that one of us does

    def _every(self, duty: Duty) -> float:
        return duty.every(self._member.share, len(self._member.roster.members))

    async def _look(self) -> None:
        is_suspected = self.wake.is_set()
        self.wake.clear()
        is_routine = self._clock.now() >= self._look_at
        if is_routine or not self._hopeless.issuperset(
            await self._store.run(self._glance(is_suspected))
        ):
            mended = await self._mend()
            await self._see_what_is_left(is_routine and mended.found_nothing)

    def _glance(self, is_suspected: bool) -> Operation[list[str]]:
        if is_suspected:
            return schema.faults()
        self._glances += 1
        return schema.collection_faults() if self._glances % 2 else schema.index_faults([JOBS])

    async def _mend(self) -> Mended:
        mended = await self._store.run(schema.mend())
        self._tell(mended)
        if mended.made:
            log.warning("put back what was missing", extra={"event": "healed", "what": mended.made})
            await self._member.note("healed", what=mended.made, by=self._member.name)
        return mended

    async def _see_what_is_left(self, was_whole: bool) -> None:
        """What one look leaves may have been dropped while it looked; what two in a row leave, they
        cannot mend."""
        if self._left or not was_whole:
            left = frozenset(await self._store.run(schema.faults()))
            self._hopeless, self._left = left & self._left, left
        self._look_at = self._clock.now() + self._look_in()

    def _look_in(self) -> float:
        if self._left != self._hopeless:
            return 0.0
        every = self._every(self._looks_duty)
        return jittered(max(every, AGAIN_AFTER) if self._hopeless else every)

    def _tell(self, mended: Mended) -> None:
        if mended.failed:
            why = "; ".join(
                f"{what} cannot be made: {error}" for what, error in mended.failed.items()
            )
            self._troubles.note("healing", why)
        else:
            self._troubles.over("healing")
        for what, error in {**mended.failed, **mended.lacking}.items():
            self._say(
                what, "cannot be made, working without it", {"what": what, "error": str(error)}
            )
        if mended.is_newer:
            facts = {"version": mended.version, "ours": schema.VERSION}
            self._say("newer", "the schema is newer than this software, and stays as it is", facts)
        self._said &= {*mended.failed, *mended.lacking, *(["newer"] if mended.is_newer else [])}

    def _say(self, what: str, message: str, facts: Mapping[str, object]) -> None:
        """Once, until it is over."""
        if what not in self._said:
            self._said.add(what)
            log.warning(message, extra={"event": "schema", **facts})
