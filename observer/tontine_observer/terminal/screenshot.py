"""One picture of the screen in a file, drawn without a terminal."""

from __future__ import annotations

import asyncio
from pathlib import Path
from time import monotonic

import click

from ..feed.source import Source
from ..records.link import Mode
from . import export
from .app import ObserverApp
from .settings import Settings

SETTLED_AFTER = 5.0
"""Seconds of life before the picture is taken: rates need a moment."""


def take(source: Source, settings: Settings, file: Path, within: float) -> bool:
    """Draw the screen into a file, as SVG or as text; whether the store answered in time."""
    app = ObserverApp(source, settings)
    taken: list[str] = []

    async def watch() -> None:
        until = monotonic() + within
        # A board tells nobody when it is filled: it is asked.
        while app.stage.scene.picture.link.mode is Mode.CONNECTING and monotonic() < until:  # noqa: ASYNC110
            await asyncio.sleep(0.1)
        await asyncio.sleep(SETTLED_AFTER)
        taken.append(export.screen(app, app.stage, file.suffix))
        app.exit()

    async def run() -> None:
        async with asyncio.TaskGroup() as group:
            group.create_task(app.run_async(headless=True, size=settings.size))
            group.create_task(watch())

    asyncio.run(run())
    try:
        file.write_text(taken[0], encoding="utf-8")
    except OSError as error:
        raise click.UsageError(f"cannot write {file}: {error.strerror}") from error
    return app.stage.scene.picture.link.mode not in (Mode.CONNECTING, Mode.STALE)
