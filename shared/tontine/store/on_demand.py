"""Indexes that only some jobs need: made before the first of these is there, so that all others
never pay for them.

That one was needed is noted, and whoever looks after the schema puts it back from then on.
"""

from __future__ import annotations

import contextlib

from ..errors import ConfigError, NotPermitted, StoreError
from . import indexes, schema
from .call import Operation
from .names import JOBS

_FOR = {indexes.START_BY: "`max_age`", indexes.HELD_KEY: "`unique_for`"}


def need(name: str) -> Operation[None]:
    """Have an index of `jobs` before a job that needs it is written. Many may ask for it at
    once."""
    if (yield from indexes.is_there(name)):
        return
    try:
        # First: where this user may not make it, or gives up waiting for it, nodes do.
        yield from indexes.want(name)
        mended = yield from schema.mend_indexes(JOBS)
        refusal = mended.failed.get(f"{JOBS}.{name}")
    except NotPermitted as error:
        refusal = error
    if refusal is not None:
        raise ConfigError(
            f"a job with {_FOR[name]} needs the index jobs.{name}, which could not be made: run "
            "`tontine init --all` "
            "once as a user who may, or try again when a node has made it, which takes half a "
            f"minute ({refusal})"
        ) from refusal


def prefer(name: str) -> Operation[None]:
    """The same for nodes, which go on without one that cannot be made: the schema's faults tell of
    it."""
    with contextlib.suppress(ConfigError):
        yield from need(name)


def require(name: str) -> Operation[None]:
    """The same inside of a transaction, where nothing can be made: that would wait for the
    transaction's own locks."""
    if not (yield from indexes.is_there(name)):
        raise ConfigError(
            f"a job with {_FOR[name]} needs the index jobs.{name}, which the first such job "
            "makes, but not inside of a "
            "transaction: call client.prepare(everything=True) when your application starts, or "
            "run "
            "`tontine init --all` once"
        )


def using(name: str, steps: Operation[int]) -> Operation[int]:
    """A look at the jobs of an index: 0 where nobody needs it, or where it is not there, which a
    healer hears of."""
    if name not in (yield from indexes.read_wanted()):
        return 0
    try:
        return (yield from steps)
    except StoreError as error:
        if not indexes.tells_of_missing(error):
            raise
        return 0


def want_all() -> Operation[None]:
    """Note that all of them are wanted, before the first job is."""
    yield from indexes.want(*(str(index["name"]) for index in indexes.ON_DEMAND[JOBS]))
