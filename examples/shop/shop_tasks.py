"""A small shop: pictures are resized, customers get a receipt, and a flaky bank is asked again."""

from __future__ import annotations

from tontine import Module, Reject, Retry, current_job

shop = Module("shop", version="1.2.0", authors=["Shop team <shop@example.org>"])


@shop.task
def resize(image: str, width: int = 800) -> dict[str, object]:
    for step, size in enumerate((width // 4, width // 2, width), start=1):
        current_job().progress(step / 3, f"{size} pixels")
    return {"image": image, "width": width}


@shop.task(max_attempts=5)
async def charge(order: int, cents: int) -> str:
    if cents <= 0:
        raise Reject(f"order {order} has nothing to charge")
    if current_job().attempt < 3:
        raise Retry("the bank is busy", in_=0.1)
    # `attempt` only grows, so the bank can refuse a late charge of an earlier attempt.
    return f"order {order}: charged {cents} cents at attempt {current_job().attempt}"
