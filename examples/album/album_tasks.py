"""The tasks of an album: from the photos' server to a mailbox.

All nodes need one directory, `ALBUM_DIR`, and one mailbox, `ALBUM_MAIL`. Each task may run again
when its node dies, and writes what it makes in one go: a second run replaces what the first had
made.
"""

from __future__ import annotations

import io
import json
import mailbox
import os
import shutil
import tempfile
import zipfile
from email.message import EmailMessage
from pathlib import Path
from typing import Any
from urllib.error import HTTPError
from urllib.request import urlopen

from PIL import Image

from tontine import Module, Reject, current_job

album = Module("album", version="1.0.0", authors=["Album team <album@example.org>"])


@album.task(max_attempts=3, retry_on=(OSError,))
def open_album(number: int) -> dict[str, Any]:
    """What is in the album, by its server."""
    found: dict[str, Any] = json.loads(_get(f"{os.environ['ALBUM_PHOTOS']}/{number}/album.json"))
    return {"title": found["title"], "urls": found["urls"]}


@album.task(max_attempts=3, retry_on=(OSError,), timeout="1m")
def fetch(url: str, number: int) -> str:
    """One photo, as it is; its path."""
    return _write(_room(number) / "original" / Path(url).name, _get(url))


@album.task(timeout="1m")
def resize(photo: str | None, number: int, width: int = 800) -> str | None:
    """A smaller one; none of a photo that could not be fetched."""
    if photo is None:
        return None
    image = Image.open(photo)
    image.thumbnail((width, width))
    held = io.BytesIO()
    image.save(held, "JPEG")
    return _write(_room(number) / "small" / Path(photo).name, held.getvalue())


@album.task
def pack(photos: list[str | None], title: str) -> dict[str, Any]:
    """All that are there in one archive."""
    there = [photo for photo in photos if photo]
    if not there:
        raise Reject("not one photo of the album could be fetched")
    held = io.BytesIO()
    with zipfile.ZipFile(held, "w") as archive:
        for done, photo in enumerate(there):
            current_job().progress(done / len(there), Path(photo).name)
            archive.write(photo, Path(photo).name)
    path = _write(_directory() / f"{title}.zip", held.getvalue())
    return {"path": path, "photos": len(there), "missing": len(photos) - len(there)}


@album.task
def unpack(archive: str) -> None:
    """Undoes `pack`: an album that cannot be mailed is not left lying about."""
    Path(archive).unlink(missing_ok=True)


@album.task(on_lost="fail")
def mail(to: str, title: str, archive: str) -> str:
    """Put it into the mailbox. A worker that dies here may have done so: better none than two, and
    so it is not run again."""
    message = EmailMessage()
    message["From"], message["To"], message["Subject"] = "album@example.org", to, title
    message.set_content("Here is your album.")
    data, name = Path(archive).read_bytes(), Path(archive).name
    message.add_attachment(data, maintype="application", subtype="zip", filename=name)
    mailbox.Maildir(os.environ.get("ALBUM_MAIL") or _directory() / "mail").add(message)
    return to


@album.task
def close_album(number: int) -> str | None:
    """However it ended: the photos themselves are no longer needed."""
    shutil.rmtree(_room(number), ignore_errors=True)
    plan = current_job().plan
    return plan.outcome if plan else None


def _directory() -> Path:
    return Path(os.environ.get("ALBUM_DIR") or Path(tempfile.gettempdir()) / "albums")


def _room(number: int) -> Path:
    return _directory() / str(number)


def _get(url: str) -> bytes:
    try:
        with urlopen(url, timeout=30) as answer:
            data: bytes = answer.read()
            return data
    except HTTPError as error:
        if error.code == 404:
            raise Reject(f"there is no {url}") from error
        raise


def _write(path: Path, data: bytes) -> str:
    """The whole file or none, whoever else writes the same one."""
    path.parent.mkdir(parents=True, exist_ok=True)
    with tempfile.NamedTemporaryFile(dir=path.parent, delete=False) as held:
        held.write(data)
    Path(held.name).replace(path)
    return str(path)
