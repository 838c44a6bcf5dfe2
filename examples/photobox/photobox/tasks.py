"""What happens in the background."""

from __future__ import annotations

import io
from datetime import UTC, datetime, timedelta

from PIL import Image, UnidentifiedImageError

from tontine import Module, current_job

from . import mail, storage

photobox = Module("photobox", version="1.0.0", authors=["Photobox <photobox@example.org>"])

WIDTHS = (1600, 800, 400, 200)
KEPT = timedelta(days=30)


@photobox.task(max_attempts=3, timeout="2m", give_up_on=(UnidentifiedImageError, LookupError))
def thumbnails(photo: str) -> dict[str, int]:
    """Make the small versions of a photo. A second run does no harm: it replaces what the first
    made."""
    document = storage.find(photo)
    image = Image.open(io.BytesIO(storage.original(document))).convert("RGB")
    sizes = {}
    for done, width in enumerate(WIDTHS):
        current_job().progress(done / len(WIDTHS), f"{width} pixels")
        small = image.copy()
        small.thumbnail((width, width))
        held = io.BytesIO()
        small.save(held, "JPEG")
        storage.keep_thumbnail(photo, width, held.getvalue())
        sizes[str(width)] = len(held.getvalue())
    # Named after this job: whichever run comes here, and how often, there is one e-mail.
    current_job().submit("photobox.tell", {"photo": photo})
    current_job().progress(1.0, "all there")
    return sizes


@photobox.task(on_lost="fail")
def tell(photo: str) -> None:
    """Send the one e-mail. A worker that dies here may have sent it: better none than two, so it is
    not run again."""
    document = storage.find(photo)
    mail.send(document["to"], "Your photo is ready", f"{document['name']} has its thumbnails.")


@photobox.schedule(cron="0 3 * * *")
@photobox.task
def tidy() -> int:
    """Every night: remove photos that are older than 30 days; how many there were."""
    return storage.remove_before(datetime.now(UTC) - KEPT)
