"""`python -m tontine`: the same as the `tontine` command."""

from __future__ import annotations

from .cli import main

main()
