"""Django in pytest without a plugin; pytest-django does the same and more."""

from __future__ import annotations

import os

import django

os.environ["DJANGO_SETTINGS_MODULE"] = "site_settings"
django.setup()
