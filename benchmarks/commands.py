"""What a server counts of what it is asked."""

from __future__ import annotations

import time
from collections import Counter
from collections.abc import Collection, Mapping

from tontine.store.call import Store


def asked_for(store: Store, seconds: float, without: Collection[str]) -> Counter[str]:
    """The commands, by name, that it is given in the next seconds."""
    before = _counted(store)
    time.sleep(seconds)
    return Counter(
        {name: times for name, times in (_counted(store) - before).items() if name not in without}
    )


def _counted(store: Store) -> Counter[str]:
    commands = store.database.client.admin.command("serverStatus")["metrics"]["commands"]
    return Counter(
        {
            name: int(one["total"])
            for name, one in commands.items()
            if isinstance(one, Mapping) and "total" in one
        }
    )
