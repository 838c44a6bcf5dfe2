"""A node's part in plans: what is due, what is new, and what was left undone."""

from __future__ import annotations

from collections.abc import Awaitable, Callable

from tontine.clock import Clock
from tontine.config import Timing
from tontine.store.bell import Hint
from tontine.store.call import AsyncStore
from tontine.store.retention import Retention

from ..claiming.claimer import Claimer
from ..membership.member import Member
from ..settling.repairer import Repairer
from ..settling.settler import Settler
from ..telling.troubles import Troubles
from .accepter import Accepter
from .advances import Advances
from .onlooker import Onlooker
from .remover import Remover


class Planning:
    """The four loops, and to whom they listen."""

    def __init__(
        self,
        store: AsyncStore,
        timing: Timing,
        clock: Clock,
        member: Member,
        retention: Callable[[], Retention],
        troubles: Troubles,
    ) -> None:
        self.advances = Advances(store, clock, member.own_share, retention, troubles)
        self.accepter = Accepter(
            store, timing, clock, member.own_share, self.advances, retention, troubles
        )
        self.onlooker = Onlooker(store, timing, clock, member, self.advances, troubles)
        self.remover = Remover(store, member.own_share, troubles)
        self.loops: dict[str, Callable[[], Awaitable[None]]] = {
            "accepting": self.accepter.run,
            "advancing": self.advances.run,
            "looking at plans": self.onlooker.run,
            "removing plans": self.remover.run,
        }

    def connect(self, settler: Settler, repairer: Repairer, claimer: Claimer) -> None:
        """Plans go on when their jobs are settled, and when those of the dead are repaired."""
        settler.advance = self.advances.settled
        settler.advanced = self.advances.drained
        settler.causal = self.advances.causal
        self.advances.claim = claimer.claim_released
        self.advances.keep = claimer.keep_released
        self.onlooker.repair = repairer.repair
        repairer.repaired = self.onlooker.repaired

    def take_hint(self, hint: Hint) -> None:
        """The bell tells of plans."""
        self.accepter.wake.set()
        self.onlooker.take_hint(hint)
