"""An error that the master met for a task, as the task sees it."""

from __future__ import annotations

from tontine import errors
from tontine.errors import ClaimLost, TontineError


def raised(seq: int, attempt: int, kind: str, message: str) -> TontineError:
    """The error of that type, if it can be made of a text, for a job's attempt."""
    if kind == ClaimLost.__name__:
        return ClaimLost(seq, attempt)
    known = getattr(errors, kind, None)
    if isinstance(known, type) and issubclass(known, TontineError):
        try:
            return known(message)
        except Exception:  # noqa: BLE001, S110 - one that is made of more than a text
            pass
    return TontineError(message)
