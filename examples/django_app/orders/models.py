"""One model, to have something that a job is about."""

from __future__ import annotations

from django.db import models


class Order(models.Model):
    """What somebody ordered, and whether they have been told."""

    email = models.EmailField()
    receipt = models.TextField(blank=True)
