"""Shows a long text in the user's own pager, and comes back."""

from __future__ import annotations

import shlex
import signal
import subprocess

from textual.app import App, SuspendNotSupported


def show(app: App[None], text: str, command: str) -> str | None:
    """Give the terminal to the pager until it ends; what there is to say when that cannot be."""
    try:
        words = shlex.split(command)
    except ValueError as error:
        return f"PAGER cannot be read: {error}"
    if not words:
        return "there is no pager: set PAGER"
    try:
        with app.suspend():
            return _run(words, text)
    except SuspendNotSupported:
        return "a pager needs a terminal of its own"


def _run(words: list[str], text: str) -> str | None:
    """Raises nothing: what is raised while the app is suspended leaves it so for ever."""
    # A ctrl+c is the pager's. Not ignored: that the pager would inherit.
    before = signal.signal(signal.SIGINT, lambda *_: None)
    try:
        subprocess.run(words, input=text.encode("utf-8", "replace"), check=False)
    except OSError as error:
        return f"{words[0]} cannot be started: {error.strerror}"
    finally:
        signal.signal(signal.SIGINT, before)
    return None
