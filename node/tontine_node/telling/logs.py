"""The node's log: one line a fact, for people or as JSON.

A record may bring a `sentence`: what people read in place of its message and facts.
"""

from __future__ import annotations

import logging
import sys
from collections.abc import Mapping
from datetime import UTC, datetime
from typing import Any

import orjson

from ..log_style import LogStyle
from .outage import OutageFilter
from .outlet import open_outlet

_STANDARD = frozenset(vars(logging.makeLogRecord({}))) | {"message", "asctime", "taskName"}


def _facts(record: logging.LogRecord) -> dict[str, Any]:
    return {name: value for name, value in vars(record).items() if name not in _STANDARD}


def for_people(at: float, level: str, text: str) -> str:
    """One line of the log, as people read it."""
    time = datetime.fromtimestamp(at).astimezone().strftime("%H:%M:%S")
    return f"{time} {level:7} {text}"


def for_machines(at: float, level: str, message: str, facts: Mapping[str, Any]) -> str:
    """One line of the log as JSON."""
    moment = datetime.fromtimestamp(at, UTC).isoformat()
    line = {"at": moment, "level": level, "message": message, **facts}
    return orjson.dumps(line, default=str).decode()


class _Lines(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = _facts(record)
        facts.pop("event", None)
        text = facts.pop("sentence", None)
        if text is None:
            shown = " ".join(f"{name}={value}" for name, value in facts.items())
            text = record.getMessage() + (f"  {shown}" if shown else "")
        line = for_people(record.created, record.levelname.lower(), text)
        return f"{line}\n{self.formatException(record.exc_info)}" if record.exc_info else line


class _Json(logging.Formatter):
    def format(self, record: logging.LogRecord) -> str:
        facts = _facts(record)
        facts.pop("sentence", None)
        if record.exc_info:
            facts["traceback"] = self.formatException(record.exc_info)
        return for_machines(record.created, record.levelname.lower(), record.getMessage(), facts)


def set_up(style: LogStyle) -> None:
    """Send this process's log to stderr, as far as somebody reads it."""
    sys.stderr = open_outlet(sys.stderr)
    handler = logging.StreamHandler()
    handler.setFormatter(_Json() if style.as_json else _Lines())
    handler.addFilter(OutageFilter(verbose=style.verbose))
    logging.basicConfig(
        level=logging.DEBUG if style.verbose else logging.INFO, handlers=[handler], force=True
    )
    for noisy in ("pymongo", "asyncio"):
        logging.getLogger(noisy).setLevel(logging.WARNING)
