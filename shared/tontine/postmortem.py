"""Why a mongod did not start, in one line: its exit code and what it wrote become what to do
now."""

from __future__ import annotations

import re
from pathlib import Path
from typing import Any

import orjson

OR_ANOTHER = "or give a MongoDB with --uri or TONTINE_URI"
DISK_FULL = (
    f"the disk that holds {{root}} is full: free some space, set TONTINE_HOME to another "
    f"disk, {OR_ANOTHER}"
)
NOT_WRITABLE = (
    f"{{root}} cannot be written ({{reason}}): set TONTINE_HOME to a directory that "
    f"can, {OR_ANOTHER}"
)

_CANNOT_RUN = (
    f"{{mongod}} cannot run on this system ({{reason}}): set TONTINE_MONGOD to another "
    f"one, {OR_ANOTHER}"
)
_NO_LIBRARY = (
    "{mongod} needs the shared library {library}, which this system lacks: "
    f"install it{{package}}, set TONTINE_MONGOD to another mongod, {OR_ANOTHER}"
)
_NO_AVX = (
    f"{{mongod}} needs a processor with AVX: set TONTINE_MONGOD to a mongod of version "
    f"4.4, {OR_ANOTHER}"
)
_OTHER_VERSION = (
    "the data in {root} was written by a version of MongoDB that {mongod} cannot read: "
    "set TONTINE_MONGOD to one that can, or move that directory away to start with an empty "
    "database"
)
_IN_USE = (
    "another mongod, perhaps another user's, has the data in {root}: end it, or set TONTINE_HOME"
)
_ENDED = "mongod ended while starting ({ending}): {reason}; look into {log}"

# The order matters: an unreadable version is logged as `Permission denied` too.
_SIGNS = (
    (r"(?:loading shared librar(?:ies:|y)|Library not loaded:) (?P<library>[^:\s]+)", _NO_LIBRARY),
    (r"\Aexit code 12[67]$|GLIBC\w*_[\d.]+. not found", _CANNOT_RUN),
    (r"\Aexit code 132$", _NO_AVX),
    (r"No space left on device|Disk quota exceeded", DISK_FULL),
    (r"\Aexit code 62$|unsupported WiredTiger|any compatibility version", _OTHER_VERSION),
    (r"Invalid featureCompatibilityVersion", _OTHER_VERSION),
    (r"Permission denied|Read-only file system|read-only directory", NOT_WRITABLE),
    (r"DBPathInUse|Device or resource busy", _IN_USE),
    (r"", _ENDED),
)

_DEBIAN_PACKAGES = {
    "libcurl.so.4": "libcurl4",
    "libssl.so.3": "libssl3",
    "libcrypto.so.3": "libssl3",
}


def explain(code: int, *, mongod: Path, root: Path, output: Path, log: Path) -> str:
    """What ended that mongod and what to do now."""
    written = f"{_tail(output)}\n{_tail(log)}"
    text, found = next(
        (text, found)
        for sign, text in _SIGNS
        if (found := re.search(sign, f"exit code {code}\n{written}", re.MULTILINE))
    )
    library = Path(found.groupdict().get("library") or "").name
    package = _DEBIAN_PACKAGES.get(library)
    return text.format(
        mongod=mongod,
        root=root,
        log=log if log.exists() else output,
        ending=f"exit code {code}" if code <= 128 else f"signal {code - 128}",
        reason=_reason(written),
        library=library,
        package=f" (Debian, Ubuntu: apt-get install {package})" if package else "",
    )


def _tail(path: Path) -> str:
    try:
        return path.read_bytes()[-(256 << 10) :].decode(errors="replace")
    except OSError:
        return ""


def _reason(written: str) -> str:
    """The first error that mongod logged, else the last line it wrote outside its log."""
    last = "it gave no reason"
    for line in filter(None, map(str.strip, written.splitlines())):
        try:
            entry = orjson.loads(line)
        except orjson.JSONDecodeError:
            last = line
        else:
            if isinstance(entry, dict) and entry.get("s") in ("E", "F"):
                return _in_words(entry)[:300]
    return last[:300]


def _in_words(entry: dict[str, Any]) -> str:
    """A line of mongod's structured log: its message and the error in its attributes."""
    details = entry.get("attr") or {}
    detail = details.get("error") or details.get("reason") or details.get("message") or ""
    if isinstance(detail, dict):
        detail = detail.get("errmsg") or detail
    return " ".join(f"{entry.get('msg', '')}: {detail}".strip(": ").split())
