"""The observer as a process among others: it stands behind those who work, and tidies up in large
steps."""

from __future__ import annotations

import contextlib
import gc
import os
from pathlib import Path

NICE = 19
"""Behind everything that works: what is looked at must not be slower for it."""
_COLLECT_AFTER = (20_000, 20, 50)
_SESSION = Path("/proc/self/autogroup")


def settle_in(nice: int = NICE) -> None:
    """Once everything is imported: give way to others, and look for garbage less often.

    Thousands of records come and go every second, hardly ever in circles, and many thousands stay:
    looking through them all as often as Python does by itself would cost a tenth of the observer's
    time.
    """
    gc.collect()
    gc.freeze()
    gc.set_threshold(*_COLLECT_AFTER)
    with contextlib.suppress(
        OSError, AttributeError
    ):  # Windows has none of it, and a sandbox may forbid it
        os.nice(max(0, nice - os.nice(0)))
        # Linux may weigh whole sessions against each other, and niceness only within one. This
        # one's own can give way; a user's shell, which would stay behind when the observer is gone,
        # is left alone.
        if nice and os.getsid(0) == os.getpid():
            _SESSION.write_text(str(nice))
