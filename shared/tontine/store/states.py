"""Named states: set, read and remove them. A version only grows, also over a removal (MI7)."""

from __future__ import annotations

import hashlib
import re
from collections.abc import Collection, Mapping
from contextlib import suppress
from dataclasses import dataclass
from datetime import datetime
from typing import Any

from ..errors import ConfigError, DuplicateKey, NotPermitted, TooLarge
from .bell import ring
from .call import Operation, find, find_one, update_one
from .names import CLUSTER, STATES

LARGEST = 4 * 1024 * 1024
CHANGES = "states"
"""The document of `cluster` that says that one of them has changed."""
_TRIES = 20
_KEY = re.compile(r"([A-Za-z_]\w*(?:\.[A-Za-z_]\w*)*)/([A-Za-z_][\w.-]{0,79})", re.ASCII)


@dataclass(frozen=True, slots=True)
class StoredState:
    """One document of `states`; without `data` where only the others were asked for."""

    key: str
    version: int
    bytes: int = 0
    sha256: str = ""
    at: datetime | None = None
    by: str = ""
    data: Any = None
    is_removed: bool = False

    @classmethod
    def from_document(cls, document: Mapping[str, Any]) -> StoredState | None:
        """Tolerant: any driver may have written it. None when it has no version."""
        version = document.get("version")
        if not isinstance(version, int) or isinstance(version, bool) or version < 1:
            return None
        size, at = document.get("bytes"), document.get("at")
        return cls(
            str(document["_id"]),
            version,
            size if isinstance(size, int) else 0,
            str(document.get("sha256") or ""),
            at if isinstance(at, datetime) else None,
            str(document.get("by") or ""),
            document.get("data"),
            document.get("removed") is True,
        )

    def to_document(self) -> dict[str, Any]:
        facts = {"bytes": self.bytes, "sha256": self.sha256, "at": self.at, "by": self.by}
        return {"_id": self.key, "version": self.version, **facts}


def parts_of(key: str) -> tuple[str, str]:
    """The module and the name of a state; `ConfigError` if it cannot be one."""
    found = _KEY.fullmatch(key)
    if found is None:
        raise ConfigError(
            f"{key[:80]!r} cannot name a state: write the module and a name, like shop/prices"
        )
    return found[1], found[2]


def set_state(
    key: str, given: bytes, value: Any, *, by: str, if_version: int | None = None
) -> Operation[StoredState]:
    """A new version with this value, made of what was `given`; only of version `if_version`, where
    0 is none."""
    parts_of(key)
    if len(given) > LARGEST:
        size = f"{len(given) / 1024 / 1024:.1f} MB"
        raise ConfigError(f"{key} would have {size}, and a state may have 4 MB: keep it elsewhere")
    facts = {
        "bytes": len(given),
        "sha256": hashlib.sha256(given).hexdigest(),
        "by": by,
        "data": value,
    }
    return (yield from _next_version(key, if_version, facts, {"removed": "$$REMOVE"}))


def remove_state(key: str) -> Operation[bool]:
    """Remove a state; False where there is none. What is left is its version."""
    found = yield from read_state(key)
    if found is None:
        return False
    gone = dict.fromkeys(("bytes", "sha256", "data", "by"), "$$REMOVE")
    yield from _next_version(key, None, {"removed": True}, gone)
    return True


def _next_version(
    key: str, if_version: int | None, facts: Mapping[str, Any], more: Mapping[str, Any]
) -> Operation[StoredState]:
    module, name = parts_of(key)
    for _ in range(_TRIES):  # each round that loses means that another's change won
        seen = yield from _read(key)
        version = 0 if seen is None else seen.version
        shown = 0 if seen is None or seen.is_removed else version
        if if_version is not None and if_version != shown:
            raise ConfigError(
                f"{key} is at version {shown}, not {if_version}: look at it with `tontine state "
                f"get {key}`"
            )
        values = {field: {"$literal": value} for field, value in facts.items()} | {
            "module": module,
            "name": name,
            "version": version + 1,
            "at": "$$NOW",
            **more,
        }
        where = {"_id": key, "version": version if version else None}
        try:
            answer = yield update_one(STATES, where, [{"$set": values}], upsert=not version)
        except DuplicateKey:
            continue
        except TooLarge as error:
            raise ConfigError(
                f"{key} would take more than 16 MB as the value that it is: keep it elsewhere, or "
                "set it as bytes (--bytes)"
            ) from error
        if answer.modified_count or answer.upserted_id is not None:
            yield from _tell()
            made = {"_id": key, "version": version + 1, **facts}
            return StoredState.from_document(made) or StoredState(key, version + 1)
    raise ConfigError(f"{key} is being changed by others all the time: try again")


def _tell() -> Operation[None]:
    """Let nodes look now. Who may not say so is heard within a minute."""
    with suppress(NotPermitted):
        yield update_one(CLUSTER, {"_id": CHANGES}, {"$inc": {"changes": 1}}, upsert=True)
    with suppress(NotPermitted):
        yield from ring(CLUSTER)


def changes_in(document: Mapping[str, Any] | None) -> int:
    """How often a state has changed, as far as the hint tells."""
    number = (document or {}).get("changes")
    return number if isinstance(number, int) and not isinstance(number, bool) else 0


def _read(key: str) -> Operation[StoredState | None]:
    document = yield find_one(STATES, {"_id": key})
    return None if document is None else StoredState.from_document(document)


def read_state(key: str) -> Operation[StoredState | None]:
    """A state with its value; None where there is none."""
    parts_of(key)
    found = yield from _read(key)
    return None if found is None or found.is_removed else found


def list_states(modules: Collection[str] | None = None) -> Operation[list[StoredState]]:
    """All of them without their values, or those of some modules; also what was removed."""
    where = {} if modules is None else {"module": {"$in": list(modules)}}
    found = yield find(STATES, where, projection={"data": 0}, sort=[("_id", 1)])
    read = (StoredState.from_document(one) for one in found)
    return [one for one in read if one is not None]
