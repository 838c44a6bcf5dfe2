"""The screen of a board that stands still, on the terminal it is started on: for tests of the
terminal itself."""

from __future__ import annotations

import os
import sys
from dataclasses import replace
from datetime import UTC
from pathlib import Path

from tests.screens.still import HOSTILE, StillBoard, StillSource, changes, hostile, job
from tontine_observer.draw.themes import DARK, MONO
from tontine_observer.terminal.app import ObserverApp
from tontine_observer.terminal.settings import Settings


class Broken(StillSource):
    """Fails a moment after it has started, with a secret in a local variable and in the message."""

    async def start(self) -> None:
        secret = "local-secret"
        raise RuntimeError(f"no use: hunter2 {len(secret)}")


def main(kind: str) -> None:
    rows = tuple(job(number)._replace(task=HOSTILE, error=HOSTILE) for number in range(30))
    told = tuple(replace(one, text=HOSTILE, subject=HOSTILE) for one in changes())
    board = StillBoard(hostile(), rows, told) if kind == "hostile" else StillBoard()
    source = Broken(board) if kind == "broken" else StillSource(board)
    theme = MONO if os.environ.get("NO_COLOR") else DARK
    crashes, pager = Path(os.environ.get("CRASHES", ".")), os.environ.get("PAGER", "less")
    app = ObserverApp(source, Settings(theme=theme, zone=UTC, crashes=crashes, pager=pager))
    app.run()
    sys.exit(app.return_code or 0)


if __name__ == "__main__":
    main(sys.argv[1] if len(sys.argv) > 1 else "still")
