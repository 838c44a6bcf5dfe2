"""Make the roles of a queue's database, or what they should be."""

from __future__ import annotations

from collections.abc import Iterable, Mapping
from typing import Any

from bson.son import SON

from ..errors import NotPermitted, StoreError
from .call import Operation, command
from .roles import ROLES, Role


def make(database: str) -> Operation[dict[str, str]]:
    """Create the roles, or make them what they should be; of each whether it was `created`,
    `changed` or `there`."""
    try:
        there = yield from _read(database)
        made: dict[str, str] = {}
        for role in ROLES:
            made[role.name] = yield from _make(role, database, there.get(role.name))
    except NotPermitted as refusal:
        raise NotPermitted(
            f"this user may not create roles in {database}: it needs the role userAdmin there, "
            "which dbOwner has, too; "
            "on Atlas roles are made by hand, as docs/security.md says"
        ) from refusal
    return made


def _make(role: Role, database: str, there: list[Any] | None) -> Operation[str]:
    privileges = role.privileges(database)
    if there == _plain(privileges):
        return "there"
    definition = [("privileges", privileges), ("roles", [])]
    if there is None:
        try:
            yield command(SON([("createRole", role.name), *definition]))
        except StoreError as error:
            if "already exists" not in str(error):  # somebody else makes them, too
                raise
        else:
            return "created"
    yield command(SON([("updateRole", role.name), *definition]))
    return "changed"


def _read(database: str) -> Operation[dict[str, list[Any]]]:
    wanted = [{"role": role.name, "db": database} for role in ROLES]
    answer = yield command(SON([("rolesInfo", wanted), ("showPrivileges", True)]))
    return {role["role"]: _plain(role["privileges"]) for role in answer["roles"]}


def _plain(privileges: Iterable[Mapping[str, Any]]) -> list[Any]:
    return sorted((sorted(one["resource"].items()), sorted(one["actions"])) for one in privileges)
