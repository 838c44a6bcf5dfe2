"""Shows a long text in the user's own pager, and comes back."""

from __future__ import annotations

import shlex
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
            subprocess.run(words, input=text.encode("utf-8", "replace"), check=False)
    except SuspendNotSupported:
        return "a pager needs a terminal of its own"
    except OSError as error:
        return f"{words[0]} cannot be started: {error.strerror}"
    return None
