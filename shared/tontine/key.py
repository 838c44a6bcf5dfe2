"""The embedded MongoDB's one secret: a random key in a file that only its owner reads.

mongod takes it as its key file; the password of our user is derived from it, so that no two secrets
can disagree and a URI that somebody saw does not tell the key.
"""

from __future__ import annotations

import hashlib
import os
import re
import secrets
from contextlib import suppress
from dataclasses import dataclass, field
from pathlib import Path


@dataclass(frozen=True, slots=True)
class Key:
    """What the mongod and its starters know."""

    text: str = field(repr=False)

    @property
    def password(self) -> str:
        """The password of our user."""
        return hashlib.sha256(f"tontine user {self.text}".encode()).hexdigest()


def read_key(path: Path) -> Key | None:
    """The key in that file, which is closed to others; None if it holds none that we can read."""
    try:
        text = path.read_text(errors="replace").strip()
        close_to_others(path)
    except OSError:
        return None
    return Key(text) if re.fullmatch(r"[0-9a-f]{64}", text) else None


def make_key(path: Path) -> Key:
    """The key in that file, which is made if it is not there. For one process at a time."""
    if key := read_key(path):
        return key
    key = Key(secrets.token_hex(32))
    draft = path.with_name(f"{path.name}.new")
    draft.unlink(missing_ok=True)  # what a killed starter left may be open to others
    draft.touch(mode=0o600)
    with draft.open("w") as file:
        file.write(f"{key.text}\n")
        file.flush()
        os.fsync(file.fileno())
    draft.replace(path)
    return key


def close_to_others(path: Path) -> None:
    """Takes what is there from everybody but its owner; what is gone meanwhile is closed, too."""
    with suppress(FileNotFoundError):
        mode = path.stat().st_mode & 0o777
        if mode & 0o077:
            path.chmod(mode & 0o700)
