"""What one member does for all: how often each of them sees to it."""

from __future__ import annotations

import pytest

from tontine.records.share import Share
from tontine_node.duty import Duty


@pytest.mark.parametrize(
    ("share", "members", "every"),
    [
        (Share(1, 0, 1), 0, 2.0),
        (Share(1, 0, 100), 0, 2.0),
        (Share(1, 1, 8), 0, 10.0),
        (Share(1, 15, 16), 0, 20.0),
        (None, 0, 10.0),
        (None, 16, 20.0),
    ],
)
def test_the_first_sees_to_it_often_and_others_the_more_rarely_the_more_they_are(
    share: Share | None, members: int, every: float
) -> None:
    assert Duty(2.0, 10.0).every(share, members) == every
