"""The settings that matter here; a real site has more."""

from __future__ import annotations

import os
from pathlib import Path

SECRET_KEY = os.environ.get("SECRET_KEY", "for examples only")
DEBUG = True
ALLOWED_HOSTS = ["*"]
USE_TZ = True
ROOT_URLCONF = "orders.urls"
INSTALLED_APPS = ["orders"]
DEFAULT_AUTO_FIELD = "django.db.models.BigAutoField"
DATABASES = {
    "default": {
        "ENGINE": "django.db.backends.sqlite3",
        "NAME": os.environ.get("SITE_DATABASE", str(Path(__file__).with_name("site.sqlite3"))),
    }
}

# Where jobs go. None: as for every command, TONTINE_URI and TONTINE_DATABASE.
TONTINE_URI = os.environ.get("TONTINE_URI")
TONTINE_DATABASE = os.environ.get("TONTINE_DATABASE")
