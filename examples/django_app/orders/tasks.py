"""What nodes run: `tontine node orders.tasks`, beside manage.py."""

from __future__ import annotations

import os

import django
from django.db import close_old_connections

from tontine import Module, current_job

# A worker is no manage.py: it sets Django up itself, before the first model is imported.
os.environ.setdefault("DJANGO_SETTINGS_MODULE", "site_settings")
django.setup()

from .models import Order  # noqa: E402

orders = Module("orders", version="1.0.0")


@orders.task(max_attempts=5, timeout=30)
def receipt(order: int) -> str:
    close_old_connections()  # requests do that by themselves, jobs do not
    found = Order.objects.get(pk=order)
    if not found.receipt:  # a job may run twice: the second time there is nothing left to do
        found.receipt = f"receipt {order} for {found.email}, by job {current_job().seq}"
        found.save(update_fields=["receipt"])
    return str(found.receipt)
