"""What a task keeps for its next attempt, on its way to the store."""

from __future__ import annotations

from dataclasses import dataclass
from typing import Any

import bson
from bson.codec_options import CodecOptions

from .errors import ConfigError
from .storable import unstorable

_CODEC: CodecOptions[Any] = CodecOptions(tz_aware=True, uuid_representation=4)
LIMIT = 64 * 1024
"""Bytes."""


@dataclass(slots=True)
class Saving:
    """Of one running job: what the attempt before left, and what nobody has passed on yet."""

    before: Any = None
    number: int = 0
    newest: tuple[int, bytes] | None = None
    """Its number in this attempt, and it itself as {"r": value}."""

    def save(self, value: Any) -> None:
        try:
            body = bson.encode({"r": value}, codec_options=_CODEC)
        except Exception as error:
            reason = unstorable(value, "value") or f"the value cannot be stored: {error}"
            raise ConfigError(f"save(): {reason}") from error
        if len(body) > LIMIT:
            raise ConfigError(
                f"save(): the value has {len(body):,} bytes, and {LIMIT // 1024} kB are kept: "
                "store it elsewhere and save where"
            )
        self.number += 1
        self.newest = self.number, body
