"""The one client of each process."""

from __future__ import annotations

import functools
import os

from django.conf import settings

from tontine import Client


def client() -> Client:
    """This process's client, made when it is first needed: a connection survives no fork."""
    return _client_of(os.getpid())


@functools.cache
def _client_of(_: int) -> Client:
    return Client(settings.TONTINE_URI, database=settings.TONTINE_DATABASE)
