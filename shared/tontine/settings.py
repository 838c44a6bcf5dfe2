"""Settings from a file: `tontine.toml`, or `[tool.tontine]` of a pyproject.toml, in the working
directory or above.

Which file, what it holds, and a word for whoever misspelt a key. Who wins over whom is for `config`
to say.
"""

from __future__ import annotations

import difflib
import os
import tomllib
from collections.abc import Iterable, Iterator, Mapping
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path
from typing import Any

from . import context_tables
from .errors import ConfigError

NAME, SHARED_NAME = "tontine.toml", "pyproject.toml"
KEYS = ("uri", "database", "embedded", "node", "contexts")
"""What a file may hold; `node` is a table with the flags of `tontine node`, `contexts` has a table
for each context of its workers."""

TEXT, WHOLE, SWITCH, TEXTS = "a text", "a whole number", "true or false", "a list of texts"
TABLE, ANY_TEXT = "a table", "a text in quotes"
TIME, MEMORY = 'a time like "20s"', 'an amount of memory like "500MB"'
NODE_KEYS = {
    "modules": TEXTS,
    "name": TEXT,
    "processes": WHOLE,
    "slots": WHOLE,
    "lease": TIME,
    "grace": TIME,
    "max_jobs": WHOLE,
    "max_memory": MEMORY,
    "max_held": MEMORY,
    "listen": SWITCH,
    "share_uri": SWITCH,
    "live_file": TEXT,
    "json": SWITCH,
    "verbose": SWITCH,
    "available": TEXTS,
}
"""What the table `node` may hold, and what each must be: here, so that whoever reads a file can
check all of it."""
CONTEXT_KEYS = {
    "modules": TEXTS,
    "profile": TEXT,
    "processes": WHOLE,
    "slots": WHOLE,
    "env": TABLE,
    "max_jobs": WHOLE,
    "max_memory": MEMORY,
    "start_within": TIME,
}
"""What the table of a context may hold."""
FORMER_NAMES = {"streams": "listen"}
"""Keys of `node` that have another name now; the old ones still work, in flags and variables as
well."""
_KINDS: dict[str, tuple[type, ...]] = {
    TEXT: (str,),
    WHOLE: (int,),
    SWITCH: (bool,),
    TIME: (str, int, float),
    MEMORY: (str, int),
    TABLE: (dict,),
}


@dataclass(frozen=True, slots=True)
class SettingsFile:
    """What one file says; no path means that there is none."""

    path: Path | None = None
    values: Mapping[str, Any] = field(default_factory=dict, repr=False)
    table: str = ""
    """In front of every key, like `tool.tontine.`."""

    def text(self, key: str) -> str | None:
        """A text that is not empty."""
        value = self.values.get(key)
        if value is not None and (not isinstance(value, str) or not value):
            raise self.refusal(key, f"must be a text, not {kind(value)}")
        return value

    def switch(self, key: str) -> bool | None:
        value = self.values.get(key)
        if value is not None and not isinstance(value, bool):
            raise self.refusal(key, f"must be true or false, not {kind(value)}")
        return value

    def section(self, key: str, known: Mapping[str, str]) -> Mapping[str, Any]:
        """A table, all of whose keys are known, with values of their kind; by the names that the
        keys have now."""
        section = self._table(key, self.values.get(key, {}))
        self.check([name for name in section if name not in FORMER_NAMES], known, f"{key}.")
        self._check_kinds(key, section, {name: known[_name_now(name)] for name in section})
        return {_name_now(name): value for name, value in section.items()}

    def contexts(self) -> Mapping[str, Mapping[str, Any]]:
        """The tables of contexts by their names, with values of their kinds."""
        found: dict[str, Mapping[str, Any]] = {}
        for name, value in self._table("contexts", self.values.get("contexts", {})).items():
            place = f"contexts.{name}"
            found[name] = table = self._table(place, value)
            self.check(table, CONTEXT_KEYS, f"{place}.")
            self._check_kinds(place, table, CONTEXT_KEYS)
            variables = table.get("env", {})
            self._check_kinds(f"{place}.env", variables, dict.fromkeys(variables, ANY_TEXT))
        return found

    def _table(self, key: str, value: Any) -> Mapping[str, Any]:
        if not isinstance(value, Mapping):
            raise self.refusal(key, f"must be a table, [{self.table}{key}], not {kind(value)}")
        return value

    def _check_kinds(
        self, under: str, values: Mapping[str, Any], wanted: Mapping[str, str]
    ) -> None:
        for name, value in values.items():
            if not _is(value, wanted[name]):
                raise self.refusal(f"{under}.{name}", f"must be {wanted[name]}, not {kind(value)}")

    def check_all(self) -> None:
        """Refuse any mistake that can be seen without asking a command, whatever is asked of the
        file."""
        self.check(self.values, KEYS)
        for key in ("uri", "database"):
            self.text(key)
        self.switch("embedded")
        node = self.section("node", NODE_KEYS)
        for key, why in context_tables.complaints(self.contexts(), node):
            raise self.refusal(key, why)

    def check(self, keys: Iterable[str], known: Iterable[str], under: str = "") -> None:
        """Refuse a key that nobody knows, and name the nearest that is one."""
        names = list(known)
        for key in keys:
            if key not in names:
                near = difflib.get_close_matches(key.lower().replace("-", "_"), names, 1)
                hint = f"did you mean `{near[0]}`?" if near else f"there are {', '.join(names)}"
                raise self.refusal(f"{under}{key}", f"is no setting: {hint}")

    def refusal(self, key: str, why: str) -> ConfigError:
        return ConfigError(f"{self.path}: `{self.table}{key}` {why}")


def _name_now(name: str) -> str:
    return FORMER_NAMES.get(name, name)


def _is(value: Any, wanted: str) -> bool:
    if wanted == TEXTS:
        return isinstance(value, list) and all(isinstance(one, str) for one in value)
    if wanted == ANY_TEXT:
        return isinstance(value, str)
    types = _KINDS[wanted]
    return (
        isinstance(value, types) and (not isinstance(value, bool) or bool in types) and value != ""
    )


def kind(value: Any) -> str:
    """What a value of a file is called there."""
    kinds: dict[type, str] = {
        bool: "true or false",
        str: "a text",
        int: "a whole number",
        float: "a number",
    }
    if value == "":
        return "an empty text"
    return kinds.get(type(value)) or ("a list" if isinstance(value, list) else "a table")


def read(named: str | None) -> SettingsFile:
    """The file that was named, else the nearest one; an empty record where there is none."""
    file = _read(Path(named).expanduser()) if named else next(_found(), SettingsFile())
    file.check_all()
    return file


def _found() -> Iterator[SettingsFile]:
    for place, directory in enumerate(_directories()):
        for name in (NAME, SHARED_NAME):
            path = directory / name
            # Above the working directory may be a place in which anybody can put a file.
            if _is_there(path, must_be_ours=place > 0) and (file := _read(path)).path:
                yield file


def _directories() -> Iterator[Path]:
    """The working directory and those above it, as far as the root of a repository or the user's
    home."""
    with suppress(
        OSError, RuntimeError
    ):  # a working directory that was removed, a user without a home
        here, home = Path.cwd(), Path.home()
        for directory in (here, *here.parents):
            yield directory
            if directory == home or (directory / ".git").exists():
                return


def _is_there(path: Path, *, must_be_ours: bool) -> bool:
    with suppress(OSError):
        if not must_be_ours or not hasattr(os, "geteuid"):
            return path.is_file()
        return path.is_file() and path.stat().st_uid in (0, os.geteuid())
    return False


def _read(path: Path) -> SettingsFile:
    path = path.absolute()
    try:
        values = tomllib.loads(text := path.read_text(encoding="utf-8"))
    except OSError as error:
        raise ConfigError(f"the settings in {path} cannot be read: {error.strerror}") from error
    except UnicodeDecodeError as error:
        raise ConfigError(f"the settings in {path} cannot be read: it is not UTF-8") from error
    except tomllib.TOMLDecodeError as error:
        if path.name == SHARED_NAME and "tool.tontine" not in text:
            return SettingsFile()  # for others to complain about
        raise ConfigError(f"the settings in {path} cannot be read: {error}") from error
    if path.name != SHARED_NAME:
        return SettingsFile(path, values)
    tool = values.get("tool")
    ours = tool.get("tontine") if isinstance(tool, Mapping) else None
    return (
        SettingsFile(path, ours, "tool.tontine.") if isinstance(ours, Mapping) else SettingsFile()
    )
