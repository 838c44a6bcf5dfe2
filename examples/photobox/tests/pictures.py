"""A picture to upload."""

from __future__ import annotations

import io

from PIL import Image


def picture() -> bytes:
    held = io.BytesIO()
    Image.new("RGB", (900, 600), "teal").save(held, "PNG")
    return held.getvalue()
