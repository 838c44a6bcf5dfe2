"""Photos and their thumbnails, as the tasks use them: one connection per worker process, opened at
its first use."""

from __future__ import annotations

from datetime import datetime
from functools import cache
from typing import Any

from bson import ObjectId
from gridfs import GridFSBucket
from pymongo import MongoClient
from pymongo.database import Database

from .settings import settings


@cache
def database() -> Database[dict[str, Any]]:
    """This process's connection to the photos."""
    mine = settings()
    return MongoClient[dict[str, Any]](mine.uri, tz_aware=True)[mine.database]


def find(photo: str) -> dict[str, Any]:
    """A photo's document."""
    found = database().photos.find_one({"_id": ObjectId(photo)})
    if found is None:
        raise LookupError(f"there is no photo {photo}")
    return found


def original(photo: dict[str, Any]) -> bytes:
    """The bytes that were uploaded."""
    with GridFSBucket(database()).open_download_stream(photo["file"]) as stream:
        return stream.read()


def keep_thumbnail(photo: str, width: int, image: bytes) -> None:
    """Keep a small version; a second run of the same job replaces that of the first."""
    one = {"_id": f"{photo}/{width}", "photo": ObjectId(photo), "width": width, "image": image}
    database().thumbnails.replace_one({"_id": one["_id"]}, one, upsert=True)


def remove_before(limit: datetime) -> int:
    """Remove the photos that came before `limit`, with all that belongs to them; how many there
    were."""
    old = list(database().photos.find({"at": {"$lt": limit}}, {"file": 1}))
    for photo in old:
        database().thumbnails.delete_many({"photo": photo["_id"]})
        database().photos.delete_one({"_id": photo["_id"]})
        GridFSBucket(database()).delete(photo["file"])
    return len(old)
