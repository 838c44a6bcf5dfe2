"""The pytest fixtures: `tontine_eager`, a queue in memory, and `tontine_queue`, a fresh queue on a
real MongoDB."""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from contextlib import contextmanager
from typing import TYPE_CHECKING, Any
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from pymongo import MongoClient

    from .module import Module
    from .testing import EagerQueue, Queue


@pytest.fixture
def tontine_modules() -> Sequence[Module | str]:
    """The modules whose jobs `tontine_eager` runs: none, until the application says which in a
    fixture of this name."""
    return ()


@pytest.fixture
def tontine_eager(tontine_modules: Sequence[Module | str]) -> EagerQueue:
    """An empty eager queue, without MongoDB."""
    from .testing import EagerQueue

    return EagerQueue(*tontine_modules)


@pytest.fixture(scope="session")
def tontine_mongodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a MongoDB for this test session: TONTINE_TEST_URI, TONTINE_URI, or an embedded
    one."""
    from .config import testing_uri
    from .embedded import server as embedded

    given = testing_uri()
    if given is not None:
        yield given
        return
    home = tmp_path_factory.mktemp("tontine")
    yield embedded.start(home).uri
    embedded.stop(home)


@pytest.fixture(scope="session")
def _tontine_connection(tontine_mongodb: str) -> Iterator[MongoClient[dict[str, Any]]]:
    from pymongo import MongoClient

    with MongoClient[dict[str, Any]](tontine_mongodb, tz_aware=True) as client:
        with _allowed(tontine_mongodb):
            # It is not there yet: what cannot be dropped later should not be made.
            client.drop_database(_fresh_name())
        yield client


@pytest.fixture
def tontine_queue(
    tontine_mongodb: str, _tontine_connection: MongoClient[dict[str, Any]]
) -> Iterator[Queue]:
    """An empty queue in a database of its own, ready for use; it is dropped after the test."""
    from .store import schema
    from .store.call import Store
    from .testing import Queue

    name = _fresh_name()
    with _allowed(tontine_mongodb):
        Store(_tontine_connection[name]).run(schema.init())
    yield Queue(tontine_mongodb, name)
    _tontine_connection.drop_database(name)


def _fresh_name() -> str:
    return f"tontine_test_{uuid4().hex[:12]}"


@contextmanager
def _allowed(uri: str) -> Iterator[None]:
    """What MongoDB refuses its user, as one message about the tests' MongoDB instead of a
    traceback."""
    from pymongo.errors import OperationFailure

    from .errors import NotPermitted
    from .store.refusal import refusal
    from .uri import shown

    try:
        yield
    except (NotPermitted, OperationFailure) as error:
        reason = refusal(error) if isinstance(error, OperationFailure) else error
    else:
        return
    pytest.fail(
        f"tontine_queue cannot use {shown(uri)}: {reason}.\nName the MongoDB for tests in "
        "TONTINE_TEST_URI, with a "
        "user who may make and drop databases called tontine_test_... (the roles "
        "readWriteAnyDatabase and "
        "dbAdminAnyDatabase); without it and TONTINE_URI an embedded one is started.",
        pytrace=False,
    )
