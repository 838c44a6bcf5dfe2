"""Which orders a worker had begun when it crashed: told from how many, whatever was sent, recalled
and reported."""

from __future__ import annotations

from collections import deque
from typing import Any, cast

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tontine_node.claims import Entry
from tontine_node.running.pool import Child
from tontine_node.running.workload import Workload


class Line:
    """The master's end of the connection."""

    def __init__(self) -> None:
        self.recalls = 0

    def is_closing(self) -> bool:
        return False

    def write(self, frame: bytes) -> None:
        self.recalls += 1


class Orders(RuleBasedStateMachine):
    """A worker with any number of slots. Each side acts on its own; what one says arrives later, in
    order."""

    def __init__(self) -> None:
        super().__init__()
        self.line = Line()
        child = Child(
            0, cast("Any", None), cast("Any", None), cast("Any", self.line), is_ready=True
        )
        self.workload = Workload(child)
        self.next = 1
        self.on_their_way: deque[int | None] = deque()  # None is a recall
        self.inbox: deque[int] = deque()
        self.running: list[int] = []
        self.reports: deque[int | list[int]] = deque()
        self.begun: list[int] = []
        self.over: set[int] = set()

    @precondition(lambda self: self.workload.can_take)
    @rule(count=st.integers(1, 4))
    def the_master_sends(self, count: int) -> None:
        for seq in range(self.next, self.next + count):
            self.workload.sent[seq] = Entry(seq, 1, 0.0)
            self.on_their_way.append(seq)
        self.next += count

    @rule()
    def the_master_recalls(self) -> None:
        self.workload.recall()
        self.on_their_way.append(None)

    @precondition(lambda self: self.on_their_way)
    @rule()
    def the_worker_reads(self) -> None:
        order = self.on_their_way.popleft()
        if order is not None:
            self.inbox.append(order)
        else:
            self.reports.append(list(self.inbox))
            self.inbox.clear()

    @precondition(lambda self: self.inbox)
    @rule()
    def a_slot_begins(self) -> None:
        seq = self.inbox.popleft()
        self.begun.append(seq)
        self.running.append(seq)

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 99))
    def a_slot_ends(self, pick: int) -> None:
        self.reports.append(self.running.pop(pick % len(self.running)))

    @precondition(lambda self: self.reports)
    @rule()
    def the_master_reads(self) -> None:
        report = self.reports.popleft()
        if isinstance(report, int):
            self.workload.take_report(report)
            self.over.add(report)
        else:
            self.workload.recalls -= 1
            for seq in report:
                del self.workload.sent[seq]

    @precondition(lambda self: self.running)
    @rule(pick=st.integers(0, 99))
    def the_master_gives_one_up(self, pick: int) -> None:
        """Past its time limit: it is out of `sent` at once, and its report may still come."""
        seq = self.running[pick % len(self.running)]
        self.workload.take_report(seq)
        self.over.add(seq)

    @invariant()
    def the_begun_are_known(self) -> None:
        assert self.workload.begun(len(self.begun)) == [
            seq for seq in self.begun if seq not in self.over
        ]


TestOrders = Orders.TestCase
TestOrders.settings = settings(max_examples=60, stateful_step_count=40, deadline=None)
