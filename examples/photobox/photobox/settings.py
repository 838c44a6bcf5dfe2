"""Where things are: read from the environment once, in the web application and in every worker
alike."""

from __future__ import annotations

import os
from dataclasses import dataclass


@dataclass(frozen=True, slots=True)
class Settings:
    """What differs between your laptop and production."""

    uri: str
    """The application's own MongoDB user. Workers have it, too: it may not touch the queue's nodes
    or cluster."""
    database: str
    queue: str
    """The database of the queue."""
    smtp_host: str
    smtp_port: int
    sender: str


def settings() -> Settings:
    """The settings of this process."""
    return Settings(
        uri=os.environ["PHOTOBOX_URI"],
        database=os.environ.get("PHOTOBOX_DATABASE", "photobox"),
        queue=os.environ.get("TONTINE_DATABASE", "tontine"),
        smtp_host=os.environ.get("PHOTOBOX_SMTP_HOST", "localhost"),
        smtp_port=int(os.environ.get("PHOTOBOX_SMTP_PORT", "25")),
        sender=os.environ.get("PHOTOBOX_SENDER", "photobox@example.org"),
    )
