"""Opening the database: from a URI or the embedded MongoDB, and checking that it can carry a
queue."""

from __future__ import annotations

import logging
import warnings
from collections.abc import Iterator, Mapping
from contextlib import contextmanager
from pathlib import Path
from typing import Any

from pymongo import AsyncMongoClient, MongoClient
from pymongo.errors import PyMongoError
from pymongo.uri_parser import parse_uri

from ..config import StoreConfig, in_worker
from ..errors import ConfigError, StoreUnavailable
from ..uri import hide, shown, with_database
from .call import AsyncStore, Call, Operation, Store

log = logging.getLogger("tontine")

_OPTIONS: dict[str, Any] = {
    "appname": "tontine",
    "tz_aware": True,
    "connectTimeoutMS": 5000,
    "serverSelectionTimeoutMS": 5000,
    "retryReads": True,
    "retryWrites": True,
}

SELDOM_MONITORED: dict[str, Any] = {"serverMonitoringMode": "poll"}
"""For a client that calls every few seconds and so notices a failover by itself: the driver's own
watching costs a connection more to each server, and a third of what an idle client takes."""

_STANDALONE = (
    "this MongoDB is no replica set, and majority writes and change streams need one: "
    "start mongod with --replSet and run rs.initiate(), or use `tontine db start`"
)


def resolve(config: StoreConfig, *, starts: bool = True) -> str:
    """The URI to use; without one, the embedded MongoDB, which is started if needed.

    Without `starts` it is not, unless the settings ask for it: it must run already.
    """
    if config.uri:
        return config.uri
    if in_worker():
        raise ConfigError(
            "a task has no connection of its own: submit jobs with current_job().submit(...), "
            "which needs none; or "
            "pass a URI, or start the node with --share-uri, which gives its own to its workers "
            "as TONTINE_URI"
        )
    if config.embedded is False:
        raise ConfigError(
            "no MongoDB was given, and the settings (TONTINE_EMBEDDED or `embedded` in the file) "
            "rule the embedded one "
            "out: set TONTINE_URI or --uri"
        )
    from ..embedded import server as embedded

    running = embedded.start() if starts or config.embedded else embedded.status()
    if running is None:
        raise ConfigError(
            "no MongoDB was given, and off a terminal the embedded one is not started unasked: "
            "set TONTINE_URI or "
            "--uri, or ask for it with --embedded (TONTINE_EMBEDDED=1)"
        )
    _say(running.home)
    return running.uri


def _say(home: Path) -> None:
    """Once: whoever forgot the URI would look for their jobs in vain. Where nobody set up a log it
    goes to stderr."""
    if home not in _said:
        _said.add(home)
        log.warning(
            "no MongoDB was given (--uri or TONTINE_URI): using the embedded one in %s", home
        )


_said: set[Path] = set()


def uri_of(uri: str, database: str) -> str:
    """A URI with that database as its path, for the user of the given one."""
    if not uri.startswith("mongodb+srv://"):
        return with_database(uri, database)
    return with_database(uri, database, parse_uri(uri)["options"].get("authSource"))


def open_store(config: StoreConfig, **options: Any) -> Store:
    """A store over a new PyMongo client."""
    return Store(_client(MongoClient, config, options)[config.database])


def open_async_store(config: StoreConfig, **options: Any) -> AsyncStore:
    """A store over a new PyMongo async client."""
    return AsyncStore(_client(AsyncMongoClient, config, options)[config.database])


def _client(kind: Any, config: StoreConfig, more: Mapping[str, Any]) -> Any:
    uri = resolve(config)
    # What the URI says wins; pymongo would let the keywords win.
    options = {
        name: value
        for name, value in {**_OPTIONS, **more}.items()
        if f"{name.lower()}=" not in uri.lower()
    }
    try:
        with _discreet_warnings(uri):
            return kind(uri, **options)
    except (PyMongoError, ValueError) as error:
        # Without its cause: that may quote what is hidden here.
        raise ConfigError(
            f"{shown(uri)} is not a usable MongoDB URI: {hide(str(error), uri)}"
        ) from None


@contextmanager
def _discreet_warnings(uri: str) -> Iterator[None]:
    """The driver warns of options that it does not know or understand, and may quote them."""
    with warnings.catch_warnings(record=True) as caught:
        warnings.simplefilter("always")
        yield
    for warning in caught:
        warnings.warn(hide(str(warning.message), uri), warning.category, stacklevel=2)


def is_electing(store: AsyncStore) -> bool:
    """Whether members of the replica set are known to answer, and none of them as primary."""
    members = store.database.client.topology_description.server_descriptions().values()
    kinds = {member.server_type_name for member in members}
    return "RSSecondary" in kinds and "RSPrimary" not in kinds


def refuse_standalone(client: Any) -> None:
    """The same refusal from what the driver has learnt by connecting, without a call."""
    described = vars(client).get("delegate", client).topology_description  # Motor's wraps PyMongo's
    if any(
        one.server_type_name == "Standalone" for one in described.server_descriptions().values()
    ):
        raise ConfigError(_STANDALONE)


def check(config: StoreConfig | None = None) -> Operation[dict[str, Any]]:
    """Refuse a server that cannot carry the protocol: it must answer, be a replica set (or sharded)
    and not too old."""
    try:
        hello: dict[str, Any] = yield Call("", "command", ({"hello": 1},), within=5)
    except StoreUnavailable as error:
        where = shown(config.uri) if config and config.uri else "MongoDB"
        raise ConfigError(
            f"{where} does not answer ({error.args[0]}): is it running, and is the URI right?"
        ) from error
    if not hello.get("setName") and hello.get("msg") != "isdbgrid":
        raise ConfigError(_STANDALONE)
    if hello.get("maxWireVersion", 0) < 17:  # MongoDB 6.0: the first with $in in partial indexes
        raise ConfigError("this MongoDB is older than 6.0, the oldest version that Tontine runs on")
    return hello
