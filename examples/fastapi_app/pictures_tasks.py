"""What nodes run: `tontine node pictures_tasks`."""

from __future__ import annotations

import asyncio

from tontine import Module, Reject, current_job

pictures = Module("pictures", version="1.0.0", authors=["Pictures team <pictures@example.org>"])


@pictures.task(max_attempts=3, timeout=60)
async def thumbnail(image: str, width: int) -> dict[str, object]:
    if not image.endswith((".png", ".jpg")):
        raise Reject(f"{image} is no picture")
    for step in (1, 2, 3):
        current_job().progress(step / 3, f"step {step} of 3")
        await asyncio.sleep(0.01)
    return {"image": f"{image}@{width}", "width": width}
