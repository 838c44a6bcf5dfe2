"""Both state tables as filters of conditional writes: however late a write lands, a history is a
walk in the table."""

from __future__ import annotations

from itertools import pairwise

from hypothesis import settings
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, invariant, precondition, rule

from tontine.records.job import Job
from tontine.records.states import FINAL, JOB_MOVES, NODE_MOVES, JobState, NodeState, sources

WHO = st.integers(0, 9)


class NodeMoves(RuleBasedStateMachine):
    """A node moves itself, others bury it, and every write may land late: `move` filters on the
    table's sources."""

    def __init__(self) -> None:
        super().__init__()
        self.history = [NodeState.INITIALIZING]
        self.late: list[NodeState] = []

    @rule(goal=st.sampled_from(NodeState), late=st.booleans())
    def write(self, goal: NodeState, late: bool) -> None:
        if late:
            self.late.append(goal)
        else:
            self.land(goal)

    @precondition(lambda self: self.late)
    @rule(pick=WHO)
    def a_write_lands_late(self, pick: int) -> None:
        self.land(self.late.pop(pick % len(self.late)))

    def land(self, target: NodeState) -> None:
        if self.history[-1].value in sources(NODE_MOVES, target):
            self.history.append(target)

    @invariant()
    def every_step_is_in_the_table(self) -> None:
        assert all(after in NODE_MOVES[before] for before, after in pairwise(self.history))

    @invariant()
    def a_life_begins_once_and_ends_once(self) -> None:
        assert self.history.count(NodeState.INITIALIZING) == 1
        assert NodeState.DEAD not in self.history[:-1]

    @invariant()
    def a_node_works_only_after_it_waited(self) -> None:
        assert all(
            before is NodeState.WAITING
            for before, after in pairwise(self.history)
            if after in (NodeState.WORKING, NodeState.PAUSED) and before is not NodeState.WORKING
        )


class JobMoves(RuleBasedStateMachine):
    """Claims, outcomes and operators' wishes land in any order, fenced by (node, attempt) and the
    table."""

    def __init__(self) -> None:
        super().__init__()
        self.document = {
            "_id": 1,
            "seq": 1,
            "task": "t.t",
            "state": "queued",
            "attempt": 0,
            "node": None,
        }
        self.history = [JobState.QUEUED]
        self.licences: list[tuple[str, int]] = []
        self.settled: list[tuple[str, int]] = []

    def move(self, target: JobState, **values: object) -> bool:
        if self.document["state"] not in sources(JOB_MOVES, target):
            return False
        self.document |= {"state": target.value, **values}
        self.history.append(target)
        return True

    @rule(node=st.sampled_from("xyz"), attempt=st.integers(0, 6))
    def claim(self, node: str, attempt: int) -> None:
        """From any memory of the job: only the one that is true now can win."""
        if self.document["attempt"] == attempt and self.move(
            JobState.WORKING, node=node, attempt=attempt + 1
        ):
            self.licences.append((node, attempt + 1))

    @precondition(lambda self: self.licences)
    @rule(pick=WHO, goal=st.sampled_from([*sorted(FINAL), JobState.QUEUED]))
    def settle(self, pick: int, goal: JobState) -> None:
        """With any licence that was ever given, however old."""
        node, attempt = self.licences[pick % len(self.licences)]
        if (self.document["node"], self.document["attempt"]) != (node, attempt):
            return
        if self.document["state"] == JobState.WORKING and self.move(goal):
            self.settled.append((node, attempt))

    @rule()
    def cancel(self) -> None:
        if self.document["state"] == JobState.QUEUED:
            self.move(JobState.CANCELLED)

    @rule()
    def retry(self) -> None:
        if Job.from_document(self.document).is_final:
            assert self.move(JobState.QUEUED, node=None)

    @invariant()
    def every_step_is_in_the_table(self) -> None:
        assert all(after in JOB_MOVES[before] for before, after in pairwise(self.history))
        assert self.document["state"] == self.history[-1]

    @invariant()
    def every_licence_settles_at_most_once(self) -> None:
        assert len(set(self.settled)) == len(self.settled)
        assert (
            len({attempt for _, attempt in self.licences})
            == len(self.licences)
            == self.document["attempt"]
        )

    @invariant()
    def the_record_says_what_the_table_says(self) -> None:
        job = Job.from_document(self.document)
        assert job.is_final == (JOB_MOVES[job.state] == {JobState.QUEUED})


for machine in (NodeMoves, JobMoves):
    machine.TestCase.settings = settings(max_examples=50, stateful_step_count=40, deadline=None)
TestNodeMoves = NodeMoves.TestCase
TestJobMoves = JobMoves.TestCase
