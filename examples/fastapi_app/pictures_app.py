"""A FastAPI application that orders thumbnails and tells how far they are: `uvicorn
pictures_app:app`."""

from __future__ import annotations

from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from typing import Annotated, Any

from fastapi import Depends, FastAPI, HTTPException, Request
from pydantic import BaseModel, Field

from tontine import AsyncClient
from tontine.errors import StoreError, UnknownJob

THUMBNAIL = "pictures.thumbnail"


@asynccontextmanager
async def lifespan(app: FastAPI) -> AsyncIterator[None]:
    # In each server process, after it was forked, and on the event loop that will use it.
    async with AsyncClient() as client:  # TONTINE_URI, TONTINE_DATABASE
        await client.prepare()
        app.state.jobs = client
        yield


app = FastAPI(lifespan=lifespan)


def jobs_of(request: Request) -> AsyncClient:
    client: AsyncClient = request.app.state.jobs
    return client


Jobs = Annotated[AsyncClient, Depends(jobs_of)]


class Order(BaseModel):
    image: str
    width: int = Field(default=800, ge=1, le=4000)


class Status(BaseModel):
    job: int
    state: str
    progress: float = 0.0
    result: Any = None
    problem: str | None = None


@app.post("/thumbnails", status_code=202)
async def order(order: Order, jobs: Jobs) -> Status:
    # Whoever orders the same picture while it is not done yet gets the same job.
    key = f"thumbnail-{order.image}-{order.width}"
    try:
        job = await jobs.submit(THUMBNAIL, order.model_dump(), key=key)
    except StoreError as error:
        raise HTTPException(503, "orders cannot be taken at the moment") from error
    return Status(job=job.seq, state=job.state)


@app.get("/thumbnails/{number}")
async def status(number: int, jobs: Jobs) -> Status:
    try:
        job = await jobs.get(number)
    except UnknownJob:
        raise HTTPException(404, "there is no such thumbnail") from None
    if job.task != THUMBNAIL:  # the queue has other jobs, and numbers can be guessed
        raise HTTPException(404, "there is no such thumbnail")
    return Status(
        job=number,
        state=job.state,
        progress=1.0 if job.state == "done" else (job.progress.value if job.progress else 0.0),
        result=job.result,
        problem=job.error.message if job.error else None,
    )
