"""The schedules that a worker's modules declare, on their way to its master: as BSON, as arguments
may be anything."""

from __future__ import annotations

from base64 import b64decode, b64encode
from collections.abc import Sequence

import bson

from tontine.module import Library
from tontine.records.schedule import Schedule
from tontine.verdict import CODEC


def pack(library: Library) -> list[str]:
    """All of them, as text that a frame's head can hold."""
    return [
        b64encode(bson.encode(one.to_document(), codec_options=CODEC)).decode()
        for module in library.modules
        for one in module.schedules()
    ]


def unpack(packed: Sequence[str]) -> list[Schedule]:
    """What a worker has packed."""
    return [Schedule.from_document(bson.decode(b64decode(one), CODEC)) for one in packed]
