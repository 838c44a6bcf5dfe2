"""The pytest fixture `tontine_queue`: a fresh queue on an embedded MongoDB that lives as long as the test session."""

from __future__ import annotations

from collections.abc import Iterator
from typing import TYPE_CHECKING
from uuid import uuid4

import pytest

if TYPE_CHECKING:
    from .testing import Queue


@pytest.fixture(scope="session")
def tontine_mongodb(tmp_path_factory: pytest.TempPathFactory) -> Iterator[str]:
    """The URI of a MongoDB for this test session."""
    from . import embedded

    home = tmp_path_factory.mktemp("tontine")
    yield embedded.start(home).uri
    embedded.stop(home)


@pytest.fixture
def tontine_queue(tontine_mongodb: str) -> Iterator[Queue]:
    """An empty queue; its database is dropped after the test."""
    from pymongo import MongoClient

    from .store import schema
    from .store.call import Store
    from .testing import Queue

    name = f"test_{uuid4().hex[:12]}"
    with MongoClient[dict[str, object]](tontine_mongodb) as client:
        Store(client[name]).run(schema.init())
        yield Queue(tontine_mongodb, name)
        client.drop_database(name)
