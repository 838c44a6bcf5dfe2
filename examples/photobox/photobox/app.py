"""The web application: it takes photos, submits jobs, and shows how far they are."""

from __future__ import annotations

import json
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from datetime import UTC, datetime
from pathlib import Path
from typing import Annotated, Any

from bson import ObjectId
from bson.errors import InvalidId
from fastapi import Depends, FastAPI, Form, HTTPException, Request, UploadFile
from fastapi.responses import HTMLResponse, Response, StreamingResponse
from gridfs.asynchronous import AsyncGridFSBucket
from pymongo import AsyncMongoClient
from pymongo.asynchronous.client_session import AsyncClientSession
from pymongo.asynchronous.database import AsyncDatabase

from tontine import AsyncClient, Job

from .settings import settings

PAGE = Path(__file__).with_name("page.html")
LARGEST = 20 * 1024 * 1024


class Box:
    """What every request needs: the photos, and the queue. One connection for both."""

    def __init__(self, mongo: AsyncMongoClient[dict[str, Any]]) -> None:
        mine = settings()
        self.mongo = mongo
        self.photos: AsyncDatabase[dict[str, Any]] = mongo[mine.database]
        self.files = AsyncGridFSBucket(self.photos)
        self.jobs = AsyncClient(mongo[mine.queue])

    async def add(self, name: str, to: str, content: bytes) -> tuple[ObjectId, Job]:
        """Keep a photo and submit its job: both or neither, in one transaction."""
        file = await self.files.upload_from_stream(name, content)
        new = ObjectId()
        photo = {"_id": new, "name": name, "to": to, "file": file, "at": datetime.now(UTC)}

        async def insert(session: AsyncClientSession) -> Job:
            await self.photos.photos.insert_one(photo, session=session)
            return await self.jobs.submit(
                "photobox.thumbnails",
                {"photo": str(new)},
                key=f"thumbnails {new}",
                meta={"uploader": to},
                session=session,
            )

        async with self.mongo.start_session() as session:
            job = await session.with_transaction(insert)
        await self.jobs.ring()  # nodes would find it by themselves, some seconds later
        await self.photos.photos.update_one({"_id": new}, {"$set": {"job": job.seq}})
        return new, job

    async def find(self, photo: str) -> dict[str, Any]:
        """A photo's document; 404 if there is none."""
        try:
            found = await self.photos.photos.find_one({"_id": ObjectId(photo)})
        except InvalidId:
            found = None
        if found is None:
            raise HTTPException(404, f"there is no photo {photo}")
        return found


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    """One connection for as long as the application runs."""
    async with AsyncMongoClient[dict[str, Any]](settings().uri, tz_aware=True) as mongo:
        app.state.box = Box(mongo)
        await (
            app.state.box.jobs.prepare()
        )  # its jobs are submitted in transactions, which cannot do it
        yield


def box(request: Request) -> Box:
    """The box of this application."""
    found: Box = request.app.state.box
    return found


app = FastAPI(title="Photobox", lifespan=lifespan)
TheBox = Annotated[Box, Depends(box)]


@app.get("/")
async def page() -> HTMLResponse:
    return HTMLResponse(PAGE.read_text())


@app.post("/photos", status_code=202)
async def upload(box: TheBox, photo: UploadFile, to: Annotated[str, Form()]) -> dict[str, Any]:
    """Take a photo; its thumbnails are made in the background."""
    content = await photo.read(LARGEST + 1)
    if len(content) > LARGEST:
        raise HTTPException(413, f"a photo may have {LARGEST // 1024 // 1024} MB")
    added, job = await box.add(photo.filename or "photo", to, content)
    return {"photo": str(added), "job": job.seq}


@app.get("/photos/{photo}")
async def status(box: TheBox, photo: str) -> dict[str, Any]:
    """How far a photo is."""
    return _told(await box.jobs.get((await box.find(photo))["job"]))


@app.get("/photos/{photo}/events")
async def events(box: TheBox, photo: str) -> StreamingResponse:
    """The same, told to the browser whenever it changes, until the job has ended."""
    seq = (await box.find(photo))["job"]

    async def lines() -> AsyncIterator[str]:
        async for job in box.jobs.follow(seq):
            yield f"data: {json.dumps(_told(job))}\n\n"

    return StreamingResponse(lines(), media_type="text/event-stream")


@app.get("/photos/{photo}/{width}.jpg")
async def thumbnail(box: TheBox, photo: str, width: int) -> Response:
    found = await box.photos.thumbnails.find_one({"_id": f"{photo}/{width}"})
    if found is None:
        raise HTTPException(404, f"there is no thumbnail of {width} pixels yet")
    return Response(found["image"], media_type="image/jpeg")


def _told(job: Job) -> dict[str, Any]:
    return {
        "state": job.state,
        "progress": job.progress.value if job.progress else 0.0,
        "note": job.progress.note if job.progress else "",
        "error": job.error.message if job.error else None,
    }
