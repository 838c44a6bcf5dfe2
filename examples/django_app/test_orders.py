"""The site on a database and a queue of its own, with a real node."""

from __future__ import annotations

import os
import subprocess
import sys
from collections.abc import Iterator
from pathlib import Path

import pytest
from django.conf import settings
from django.core.management import call_command
from django.db import connection, transaction
from django.test import Client as Browser
from orders import queue_client
from orders.models import Order
from orders.views import ask_for_receipt

from tontine.testing import Queue

HERE = Path(__file__).parent
FORKS = """
import os, django
django.setup()
from orders.queue_client import client
mine = client()
mine.submit("orders.receipt", {"order": 1})
child = os.fork()
assert (client() is mine) == (child != 0)
client().submit("orders.receipt", {"order": 2})
os._exit(0 if child == 0 else os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]))
"""


@pytest.fixture
def site(tontine_queue: Queue, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> Iterator[Queue]:
    """Tables, an empty queue, and an environment that a node inherits."""
    place = str(tmp_path / "site.sqlite3")
    mine = {
        "SITE_DATABASE": place,
        "TONTINE_URI": tontine_queue.uri,
        "TONTINE_DATABASE": tontine_queue.database,
    }
    for name, value in mine.items():
        monkeypatch.setenv(name, value)
    monkeypatch.setattr(settings, "TONTINE_URI", tontine_queue.uri)
    monkeypatch.setattr(settings, "TONTINE_DATABASE", tontine_queue.database)
    monkeypatch.setitem(connection.settings_dict, "NAME", place)
    call_command("migrate", "--run-syncdb", verbosity=0)
    yield tontine_queue
    connection.close()
    queue_client.client().close()
    queue_client._client_of.cache_clear()


def test_an_order_gets_its_receipt(site: Queue, monkeypatch: pytest.MonkeyPatch) -> None:
    ordered = Browser().post("/orders", {"email": "ada@example.org"})
    assert ordered.status_code == 202
    monkeypatch.chdir(HERE)  # where a node finds orders.tasks, as beside manage.py
    site.run_until_idle("orders.tasks")
    shown = Browser().get(f"/orders/{ordered.json()['order']}").json()
    assert shown["receipt"].startswith(f"receipt {ordered.json()['order']} for ada@example.org")


@pytest.mark.usefixtures("site")
def test_an_order_that_is_rolled_back_leaves_no_job() -> None:
    with transaction.atomic():
        assert Browser().post("/orders", {"email": "ada@example.org"}).status_code == 202
        transaction.set_rollback(True)
    assert Order.objects.count() == 0
    ask_for_receipt(7)
    assert queue_client.client().get(1).args == {"order": 7}, "the only job there is"


@pytest.mark.usefixtures("site")
def test_a_forked_process_makes_a_client_of_its_own() -> None:
    environment = os.environ | {"DJANGO_SETTINGS_MODULE": "site_settings", "PYTHONPATH": str(HERE)}
    subprocess.run(
        [sys.executable, "-W", "ignore", "-c", FORKS], env=environment, check=True, timeout=60
    )
    assert [queue_client.client().get(seq).task for seq in (1, 2)] == ["orders.receipt"] * 2
