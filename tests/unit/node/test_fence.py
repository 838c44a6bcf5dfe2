"""How often the lease is looked at: no job may be late to be ended, or to be given back."""

from __future__ import annotations

from types import SimpleNamespace
from typing import Any, cast

import pytest

from tontine_node.fence import GUARD_EVERY, GUARD_IDLE_EVERY, Fence


@pytest.mark.parametrize(
    ("held", "is_up", "left", "pause"),
    [
        ([], False, 15.0, GUARD_IDLE_EVERY),
        ([], False, 0.5, 0.5),
        ([], False, -3.0, GUARD_EVERY),
        (["a job"], False, 15.0, GUARD_EVERY),
        ([], True, 15.0, GUARD_EVERY),  # the lease came back while workers were being ended: new ones must start
    ],
)
def test_the_lease_is_looked_at_often_unless_there_is_nothing_to_end(
    held: list[str], is_up: bool, left: float, pause: float
) -> None:
    clock, board, nobody = SimpleNamespace(now=lambda: 100.0), SimpleNamespace(deadline=100.0 + left), None
    fence = Fence(*cast("Any", (clock, nobody, board, held, nobody)))
    fence._is_up = is_up
    assert fence._pause() == pause
