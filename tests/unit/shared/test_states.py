"""The two state tables: what everything else is allowed to rely on."""

from __future__ import annotations

from collections.abc import Mapping

import pytest

from tontine.records.states import (
    FINAL,
    JOB_MOVES,
    LIVE,
    NODE_MOVES,
    OPEN,
    JobState,
    NodeState,
    State,
    sources,
)


def reachable(moves: Mapping[State, frozenset[State]], start: State) -> set[State]:
    found, todo = {start}, [start]
    while todo:
        for state in moves[todo.pop()] - found:
            found.add(state)
            todo.append(state)
    return found


def test_the_tables_name_every_state() -> None:
    assert set(NODE_MOVES) == set(NodeState)
    assert set(JOB_MOVES) == set(JobState)


def test_every_state_can_be_reached_from_the_first_one() -> None:
    assert reachable(NODE_MOVES, NodeState.INITIALIZING) == set(NodeState)
    assert reachable(JOB_MOVES, JobState.QUEUED) == set(JobState)


def test_the_dead_stay_dead() -> None:
    assert NODE_MOVES[NodeState.DEAD] == frozenset()
    assert set(NodeState) - {NodeState.DEAD} == LIVE


@pytest.mark.parametrize("state", sorted(LIVE))
def test_every_live_node_may_die(state: NodeState) -> None:
    assert NodeState.DEAD in NODE_MOVES[state]


def test_nobody_becomes_initializing_again() -> None:
    assert sources(NODE_MOVES, NodeState.INITIALIZING) == []


@pytest.mark.parametrize("state", sorted(FINAL))
def test_a_final_job_leaves_only_to_the_queue(state: JobState) -> None:
    assert JOB_MOVES[state] == {JobState.QUEUED}


def test_every_job_is_either_open_or_final() -> None:
    assert set(JobState) == OPEN | FINAL
    assert not OPEN & FINAL


def test_only_a_claim_leads_to_working_and_only_work_to_done() -> None:
    assert sources(JOB_MOVES, JobState.WORKING) == ["queued"]
    assert sources(JOB_MOVES, JobState.DONE) == ["working"]


def test_every_unfinished_job_can_be_cancelled_and_can_fail() -> None:
    for target in (JobState.CANCELLED, JobState.FAILED):
        assert sources(JOB_MOVES, target) == ["queued", "working"]


@pytest.mark.parametrize("target", list(NodeState))
def test_the_sources_of_a_state_are_those_whose_moves_lead_to_it(target: NodeState) -> None:
    found = sources(NODE_MOVES, target)
    assert {state.value for state in NodeState if target in NODE_MOVES[state]} == set(found)
    assert found == sorted(found)
    assert all(type(state) is str for state in found), "a filter takes plain texts"
