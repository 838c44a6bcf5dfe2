"""How long finished jobs are kept is the same for all nodes, and never keeps a job from being
settled."""

from __future__ import annotations

import pytest

from tontine.errors import ConfigError
from tontine.store import claim
from tontine.store.call import Store
from tontine.store.retention import FOR_EVER, Retention, keep, read_retention


def test_what_was_said_is_in_force_for_everybody(store: Store) -> None:
    assert store.run(read_retention()) == FOR_EVER
    store.run(keep(Retention(done=3600, failed=None)))
    assert store.run(read_retention()) == Retention(3600, None)
    assert store.run(claim.overview()).retention == Retention(3600, None)


@pytest.mark.parametrize("seconds", [0, 59, -1, 1e12, float("inf"), float("nan")])
def test_times_that_cannot_be_meant_are_refused_and_change_nothing(
    store: Store, seconds: float
) -> None:
    store.run(keep(Retention(done=3600)))
    with pytest.raises(ConfigError, match="a minute to a century"):
        store.run(keep(Retention(done=seconds)))
    assert store.run(read_retention()) == Retention(3600, None)


@pytest.mark.parametrize("value", [1e30, -5, "7d", float("nan"), None])
def test_nonsense_in_the_settings_means_for_ever(store: Store, value: object) -> None:
    settings = {"_id": "settings", "keep_done": value, "keep_failed": value}
    store.database.cluster.insert_one(settings, bypass_document_validation=True)
    assert store.run(read_retention()) == FOR_EVER
