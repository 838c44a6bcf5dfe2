"""Nodes that change one roster from copies of any age: the condition on the epoch is all they
need."""

from __future__ import annotations

from dataclasses import dataclass, field

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tontine.records.roster import Roster
from tontine.records.share import Share

SEQS = range(24)
WHO = st.integers(0, 9)


@dataclass
class Node:
    """One that wants to be a member, or not, and knows the roster as it was when it last looked."""

    name: str
    is_wanted: bool = True
    is_dead: bool = False
    seen: Roster = field(default_factory=Roster)
    claimed: dict[int, set[int]] = field(default_factory=dict)
    """By epoch, what it took for its own."""


class Changes(RuleBasedStateMachine):
    """Reads, writes and their landing are steps of their own, in any order; a write may also land
    twice, or never."""

    def __init__(self) -> None:
        super().__init__()
        self.roster = Roster()
        self.nodes = [Node("a"), Node("b")]
        self.on_their_way: list[tuple[Roster, Roster]] = []
        self.epochs = {0: Roster()}

    def alive(self, pick: int) -> Node | None:
        alive = [node for node in self.nodes if not node.is_dead]
        return alive[pick % len(alive)] if alive else None

    @rule(pick=WHO)
    def look(self, pick: int) -> None:
        if node := self.alive(pick):
            node.seen = self.roster

    @rule(pick=WHO)
    def change_one_s_mind(self, pick: int) -> None:
        if node := self.alive(pick):
            node.is_wanted = not node.is_wanted

    @rule(pick=WHO)
    def die(self, pick: int) -> None:
        if node := self.alive(pick):
            node.is_dead = True

    @rule(pick=WHO)
    def a_node_is_born(self, pick: int) -> None:
        if len(self.nodes) < 10:
            self.nodes.append(Node("abcdefghij"[len(self.nodes)]))

    @rule(pick=WHO)
    def keep_one_s_place(self, pick: int) -> None:
        if node := self.alive(pick):
            new = (
                node.seen.joined_by(node.name) if node.is_wanted else node.seen.without([node.name])
            )
            if new is not node.seen:
                self.on_their_way.append((node.seen, new))

    @rule(pick=WHO)
    def remove_the_dead(self, pick: int) -> None:
        if node := self.alive(pick):
            new = node.seen.without(other.name for other in self.nodes if other.is_dead)
            if new is not node.seen:
                self.on_their_way.append((node.seen, new))

    @precondition(lambda self: bool(self.on_their_way))
    @rule(pick=WHO, again=st.booleans())
    def a_change_lands(self, pick: int, again: bool) -> None:
        place = pick % len(self.on_their_way)
        seen, new = self.on_their_way[place] if again else self.on_their_way.pop(place)
        wins = self.roster.epoch == seen.epoch  # M3: what the store's filter asks
        if wins:
            assert seen == self.roster, "an epoch has one roster, so nobody else's change is undone"
            assert new.epoch == seen.epoch + 1
            self.epochs[new.epoch] = self.roster = new

    @precondition(lambda self: bool(self.on_their_way))
    @rule(pick=WHO)
    def a_change_is_lost(self, pick: int) -> None:
        self.on_their_way.pop(pick % len(self.on_their_way))

    @rule(pick=WHO)
    def claim(self, pick: int) -> None:
        node = self.alive(pick)
        share = node.seen.share_of(node.name) if node else None
        if node and share:
            node.claimed.setdefault(share.epoch, set()).update(
                seq for seq in SEQS if share.owns(seq)
            )

    @invariant()
    def within_an_epoch_each_seq_has_one_owner(self) -> None:
        shares = self.roster.shares().values()
        assert all(sum(share.owns(seq) for share in shares) == bool(shares) for seq in SEQS)

    @invariant()
    def of_one_epoch_no_seq_is_taken_by_two(self) -> None:
        taken: dict[tuple[int, int], str] = {}
        for node in self.nodes:
            for epoch, seqs in node.claimed.items():
                for seq in seqs:
                    assert taken.setdefault((epoch, seq), node.name) == node.name

    @invariant()
    def epochs_leave_no_gap_and_repeat_nobody(self) -> None:
        assert sorted(self.epochs) == list(range(self.roster.epoch + 1))
        assert all(
            len(set(roster.members)) == len(roster.members) for roster in self.epochs.values()
        )

    def teardown(self) -> None:
        """Calm: whoever lives looks and puts right what concerns it. A few rounds are enough,
        whatever was before."""
        for _ in range(len(self.nodes)):
            for node in self.nodes:
                if not node.is_dead:
                    self.put_right(node)
        alive = [node for node in self.nodes if not node.is_dead]
        if alive:
            wanted = {node.name for node in alive if node.is_wanted}
            assert set(self.roster.members) == wanted
            assert [self.roster.share_of(name) for name in self.roster.members] == [
                Share(self.roster.epoch, rank, len(wanted)) for rank in range(len(wanted))
            ]

    def put_right(self, node: Node) -> None:
        mine = (
            self.roster.joined_by(node.name) if node.is_wanted else self.roster.without([node.name])
        )
        for new in (mine, mine.without(other.name for other in self.nodes if other.is_dead)):
            if new is not self.roster:
                self.roster = self.epochs[new.epoch] = new


Changes.TestCase.settings = settings(max_examples=60, stateful_step_count=50, deadline=None)
TestChanges = Changes.TestCase
