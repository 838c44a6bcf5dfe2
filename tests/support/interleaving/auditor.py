"""The product's own auditor in a simulated world: it hears of every change as a change stream would
tell it."""

from __future__ import annotations

from collections.abc import Callable, Mapping
from datetime import UTC, datetime, timedelta
from typing import Any

from tests.support.changes import delta
from tontine.diagnose.audit.history import History
from tontine.diagnose.audit.invariant import Finding
from tontine.records.change import Delta
from tontine.store.names import CLUSTER, JOBS, NODES, PLANS

Document = Mapping[str, Any]
START = datetime(2026, 1, 1, tzinfo=UTC)


class Auditor:
    """Judges changes by the documents before and after them."""

    def __init__(self, now: Callable[[], float]) -> None:
        self.findings: list[Finding] = []
        self._history = History(JOBS, NODES, CLUSTER, PLANS)
        self._now = now

    def see(self, collection: str, old: Document | None, new: Document | None) -> None:
        # Jobs carry times of the server, which knows nothing of this world's clock.
        at = START + timedelta(seconds=self._now()) if collection == NODES else None
        self.findings += self._history.see(_change(collection, old, new, at))


def _change(
    collection: str, old: Document | None, new: Document | None, at: datetime | None
) -> Delta:
    if new is None:
        assert old is not None
        return delta(collection, "delete", old["_id"], at=at)
    if old is None:
        return delta(collection, "insert", new["_id"], new, at=at)
    fields = {name: value for name, value in new.items() if name not in old or old[name] != value}
    return delta(collection, "update", new["_id"], fields, sorted(old.keys() - new.keys()), at)
