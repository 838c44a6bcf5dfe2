"""Each finding, from evidence made by hand."""

from __future__ import annotations

from dataclasses import replace
from datetime import UTC, datetime, timedelta
from typing import Any

import pytest

from tontine.diagnose.why import Evidence, Finding, Trace, explain, second_look
from tontine.records.job import UNNUMBERED, Job, JobError, Progress
from tontine.records.loaded import ContextState, Loaded
from tontine.records.node import Sighting
from tontine.records.offer import ModuleOffer, Offer
from tontine.records.roster import Roster
from tontine.records.share import Share
from tontine.records.states import Desired, JobState, NodeState
from tontine.records.trouble import Trouble
from tontine.rules.health import buried_in, is_silent

NOW = datetime(2030, 1, 1, 12, 0, tzinfo=UTC)
TASKS = frozenset({"shop.resize", "shop.mail"})


def ago(seconds: float) -> datetime:
    return NOW - timedelta(seconds=seconds)


def node(name: str, **facts: Any) -> Sighting:
    return Sighting(f"{name}-1", name, **{"tasks": TASKS, "slots": 2, "beat_age": 1.0, **facts})


A, B = node("a"), node("b")


def job(**facts: Any) -> Job:
    return Job(**{"id": 1, "seq": 17, "task": "shop.resize", "created_at": ago(1), **facts})


def evidence(
    job: Job | None, *nodes: Sighting, members: tuple[Sighting, ...] | None = None, **facts: Any
) -> Evidence:
    roster = Roster(3, tuple(one.id for one in (nodes if members is None else members)))
    return Evidence(NOW, job, roster=roster, nodes=nodes, **facts)


def codes(found: Evidence) -> list[str]:
    return [finding.code for finding in explain(found)]


def only(found: Evidence, code: str) -> Finding:
    (finding,) = (one for one in explain(found) if one.code == code)
    return finding


def working(**facts: Any) -> Job:
    return job(
        **{"state": JobState.WORKING, "node": "a-1", "attempt": 1, "started_at": ago(12), **facts}
    )


def failed(error: JobError | None = None, **facts: Any) -> Job:
    facts = {"state": JobState.FAILED, "finished_at": ago(60), "attempt": 3, "node": "a-1", **facts}
    return job(error=error or JobError("ValueError", "no\nmore"), **facts)


def test_a_job_that_is_not_due_says_when_it_will_be() -> None:
    found = evidence(job(run_at=NOW + timedelta(minutes=3)), A)
    assert codes(found) == ["not-due"]
    assert "(in 3 min)" in only(found, "not-due").sentence
    assert "tontine cancel 17" in only(found, "not-due").advice


def test_a_job_that_is_not_due_also_tells_what_will_be_in_its_way() -> None:
    assert codes(evidence(job(run_at=NOW + timedelta(minutes=3)))) == ["not-due", "no-node"]


def test_a_job_waits_behind_older_ones_of_its_owners_share() -> None:
    found = evidence(job(), A, B, ahead=312)
    assert explain(found)[0].sentence == "It waits behind 312 older jobs of node b's share."
    assert "more than 10,000 older jobs" in explain(replace(found, ahead=10_001))[0].sentence
    assert "behind 1 older job of" in explain(replace(found, ahead=1))[0].sentence
    assert (
        "behind 9 jobs of node b's share, 4 of them with a higher"
        in explain(replace(found, ahead=9, ahead_ranked=4))[0].sentence
    )


def test_a_task_that_no_live_node_has_is_told_with_near_matches() -> None:
    finding = only(evidence(job(task="shop.resise"), A), "unknown-task")
    assert finding.sentence == "No live node has the task shop.resise: a has 2 other tasks."
    assert "is shop.resize meant?" in finding.advice
    nobodys = only(evidence(job(task="resize"), A), "unknown-task").advice
    assert nobodys.startswith(
        "`task` must be like \"shop.resize\", its module and its own name, not 'resize'. is "
        "shop.resize"
    )
    assert nobodys.endswith("? `tontine cancel` it and submit the right one")


def test_an_owner_without_the_task_is_helped_by_a_node_that_has_it() -> None:
    other = replace(B, tasks=frozenset({"x.y"}))
    finding = only(evidence(job(), A, other), "owner-lacks-task")
    assert "node b, does not have the task shop.resize; a has it and helps" in finding.sentence


def test_a_silent_owner_is_inherited_in_about_a_lease() -> None:
    found = evidence(job(), A, replace(B, beat_age=18.0))
    assert codes(found) == ["owner-silent", "help"]
    assert "has not beaten for 18 s" in explain(found)[0].sentence
    assert "a will inherit its share in about 4 s" in explain(found)[0].sentence


def test_a_dead_owner_is_inherited_in_seconds() -> None:
    dead = replace(B, state=NodeState.DEAD, death="lease expired")
    assert "dead (lease expired)" in only(evidence(job(), A, dead), "owner-dead").sentence
    assert codes(evidence(job(), A, members=(A, B)))[0] == "owner-dead"


@pytest.mark.parametrize("desired", [Desired.PAUSED, Desired.STOPPED])
def test_an_owner_that_leaves_is_inherited_in_a_moment(desired: Desired) -> None:
    assert (
        desired.value
        in only(evidence(job(), A, replace(B, desired=desired)), "owner-leaving").sentence
    )


def test_an_owner_that_beats_and_does_not_tick_is_stuck() -> None:
    found = evidence(job(), A, B, owner_ticks=False)
    assert codes(found) == ["owner-stuck", "help"]
    assert "restart" in explain(found)[0].advice


def test_no_node_at_all() -> None:
    assert codes(evidence(job())) == ["no-node"]
    assert codes(evidence(job(), replace(A, beat_age=300.0))) == ["all-silent"]


def test_nodes_that_are_all_paused_or_starting_or_outside() -> None:
    paused = replace(A, state=NodeState.PAUSED, desired=Desired.PAUSED)
    assert only(evidence(job(), paused, members=()), "all-paused").advice == "`tontine resume a`"
    starting = replace(A, state=NodeState.INITIALIZING)
    assert codes(evidence(job(), starting, members=())) == ["starting"]
    assert codes(evidence(job(), A, members=())) == ["roster-empty"]


def test_only_a_paused_node_has_the_task() -> None:
    other = replace(A, tasks=frozenset({"x.y"}))
    paused = replace(B, state=NodeState.PAUSED, desired=Desired.PAUSED)
    assert (
        only(evidence(job(), other, paused, members=(other,)), "able-paused").advice
        == "`tontine resume b`"
    )
    silent = replace(B, beat_age=15.0)
    assert "b is silent" in only(evidence(job(), other, silent), "able-away").sentence


def test_busy_slots_are_told_and_who_could_help() -> None:
    found = evidence(job(), A, replace(B, running=2))
    assert codes(found) == ["slots-busy", "help"]
    assert explain(found)[0].sentence == "All 2 slots of its owner, node b, are busy."


def test_a_job_that_is_next() -> None:
    assert codes(evidence(job(), A)) == ["next"]


def test_a_long_wait_that_nothing_explains_says_so() -> None:
    found = evidence(job(created_at=ago(300)), A, owner_ticks=True)
    assert "due for 5 min" in only(found, "unexplained").sentence


def test_a_second_look_is_taken_only_when_the_first_explains_nothing() -> None:
    old = job(created_at=ago(60))
    assert second_look(evidence(old, A)) == pytest.approx(2.6)
    assert second_look(evidence(job(), A)) == 0
    assert second_look(evidence(old, replace(A, running=2))) == 0
    assert second_look(evidence(old, replace(A, lease=600.0))) == 0
    assert second_look(evidence(working(created_at=ago(60)), A)) == 0
    assert second_look(evidence(None)) == 0


def test_a_running_job_says_where_since_when_and_how_far() -> None:
    found = evidence(working(progress=Progress(0.4, "resizing"), timeout=30), A)
    expected = (
        "Node a has been running it for 12 s (attempt 1), 40%: resizing. Its time limit is 30 s."
    )
    assert [finding.sentence for finding in explain(found)] == [expected]


def test_a_claimed_job_has_not_started_when_its_start_is_of_an_earlier_attempt() -> None:
    assert codes(evidence(working(started_at=None), A)) == ["claimed"]
    again = working(run_at=ago(1), attempt=2, fails=1, error=JobError("E", "boom"))
    assert codes(evidence(again, A)) == ["claimed", "retried"]


def test_cancelling_that_was_asked_for_and_a_holder_that_leaves() -> None:
    found = evidence(working(cancel=True), replace(A, desired=Desired.PAUSED))
    assert codes(found) == ["running", "holder-leaving", "cancel-asked"]


def test_a_silent_holder() -> None:
    silent = replace(A, beat_age=19.0)
    found = evidence(working(), silent, B)
    assert codes(found) == ["holder-silent"]
    assert "b will give the job back in about 3 s" in explain(found)[0].sentence
    assert "nobody else is there" in explain(evidence(working(), silent))[0].sentence


def test_a_dead_holder() -> None:
    dead = replace(A, state=NodeState.DEAD, death="lease expired", died_at=ago(2))
    assert (
        "a live node will give it back"
        in only(evidence(working(), dead, B), "holder-dead").sentence
    )
    assert "no node is alive" in only(evidence(working()), "holder-dead").sentence


def test_a_retried_job_says_why_and_how_many_attempts_are_used() -> None:
    found = evidence(
        job(fails=1, attempt=1, run_at=NOW + timedelta(seconds=9), error=JobError("E", "boom")), A
    )
    assert explain(found)[0].sentence.startswith("Its next attempt is not due until")
    assert only(found, "retried").sentence == "1 attempt failed, the last with E: boom."
    limited = evidence(job(fails=2, max_attempts=4, attempt=2, error=JobError("E", "boom")), A)
    assert only(limited, "retried").sentence == "2 of 4 attempts failed, the last with E: boom."


def test_lost_attempts_make_a_suspect() -> None:
    assert codes(evidence(job(lost=1, attempt=1), A)) == ["next", "lost"]
    found = evidence(job(lost=3, attempt=3), A)
    assert codes(found) == ["next", "suspect"]
    assert "ended 3 times" in explain(found)[1].sentence
    assert "alone" in explain(found)[1].sentence


def test_a_job_that_was_given_back() -> None:
    assert "claimed twice and" in only(evidence(job(attempt=2), A), "given-back").sentence
    assert "given-back" not in codes(evidence(working(attempt=1), A))


def test_a_done_job_says_when_by_whom_and_how_long() -> None:
    done = job(state=JobState.DONE, node="a-1", attempt=2, started_at=ago(65), finished_at=ago(60))
    found = evidence(
        replace(done, errors=(JobError("E", "boom"),)), A, expire_at=NOW + timedelta(hours=1)
    )
    assert codes(found) == ["done", "earlier-errors", "expires"]
    assert "node a finished it" in explain(found)[0].sentence
    assert "(60 s ago) after 5.0 s, at attempt 2" in explain(found)[0].sentence
    assert "failed once, the last time with E: boom" in explain(found)[1].sentence


def test_a_failed_job_says_why_and_how_to_retry() -> None:
    finding = only(evidence(failed(), A), "failed")
    assert finding.sentence.endswith("on node a, at attempt 3: ValueError: no.")
    assert finding.advice == "`tontine retry 17` puts it back in the queue"
    finding = only(evidence(failed(), A, plan=4), "failed")
    assert finding.advice == "`tontine retry 4` goes on with its plan, if that has not succeeded"


def test_a_poison_job_says_what_it_did() -> None:
    lost = failed(
        JobError(
            "Lost", "its worker or node ended 4 times while it ran: its worker exited with code 11"
        )
    )
    assert "ended 4 times while it ran" in only(evidence(lost, A), "failed-lost").sentence


def test_a_cancelled_job() -> None:
    assert codes(evidence(job(state=JobState.CANCELLED, finished_at=ago(1)), A)) == ["cancelled"]


def test_a_document_that_cannot_be_a_job_was_refused() -> None:
    refused = failed(
        JobError("InvalidJob", "this document cannot be a job: it has no `task`"), node=None
    )
    finding = only(evidence(refused, A), "refused")
    assert "it has no `task`" in finding.sentence
    assert finding.advice == "insert a corrected document"


def test_a_key_that_was_taken_names_the_job_that_has_it() -> None:
    error = JobError(
        "InvalidJob", "this document cannot be a job: an unfinished job has its key 'k' already"
    )
    holder = Job(id=2, seq=9, state=JobState.WORKING)
    found = evidence(failed(error, key="k"), A, key_holder=holder)
    assert "key 'k' is taken by job 9, which is working" in only(found, "key-taken").sentence
    assert "ended since" in only(replace(found, key_holder=None), "key-was-taken").sentence


def test_a_job_without_a_number() -> None:
    raw = job(seq=UNNUMBERED, created_at=None)
    assert codes(evidence(raw, A, inserted_at=ago(1))) == ["unnumbered"]
    assert codes(evidence(raw, A, inserted_at=ago(60))) == ["unnumbered-long"]
    assert codes(evidence(raw)) == ["unnumbered", "no-node"]
    assert codes(evidence(replace(raw, task=""), A, refusal="it has no `task`")) == [
        "will-be-refused",
        "unnumbered",
    ]
    holder = Job(id=2, seq=9)
    assert codes(evidence(replace(raw, key="k"), A, key_holder=holder)) == [
        "key-taken",
        "unnumbered",
    ]
    assert codes(evidence(replace(raw, task="x.y"), A)) == ["unnumbered", "unknown-task"]


@pytest.mark.parametrize(
    ("trace", "code", "words"),
    [
        (Trace(None, 5), "no-such-id", "_id"),
        (Trace(0, 5, 1), "no-such-number", "start at 1"),
        (Trace(9, 5, 1), "beyond", "the last one given is 5"),
        (Trace(9, 0), "beyond", "none has been given"),
        (Trace(3, 50, 10, removes=True), "removed", "removed by retention"),
        (Trace(3, 50, 10), "removed", "by hand"),
        (Trace(20, 50, 10, ago(5)), "hole-young", "may still insert"),
        (Trace(20, 50, 10, ago(5000)), "hole", "ended before it inserted"),
        (
            Trace(20, 50, 10, ago(5000), removes=True),
            "hole",
            "or its job has been removed by retention",
        ),
    ],
)
def test_a_job_that_is_not_there(trace: Trace, code: str, words: str) -> None:
    (finding,) = explain(evidence(None, trace=trace))
    assert (finding.code, words in finding.sentence) == (code, True), finding.sentence


def test_a_sighting_takes_any_record() -> None:
    assert Sighting.from_document({"_id": "x", "state": "dead"}).is_dead
    odd = {
        "_id": 5,
        "state": "waiting",
        "metrics": 3,
        "modules": "no",
        "share": {"rank": 1},
        "lease": "x",
        "slots": None,
    }
    assert Sighting.from_document(odd) == Sighting("5", "5")
    now = {
        "lease": 10,
        "lease_until": NOW + timedelta(seconds=4),
        "now": NOW,
        "share": {"epoch": 1, "rank": 0, "size": 2},
    }
    seen = Sighting.from_document({"_id": "x", "state": "working", **now})
    assert (seen.beat_age, is_silent(seen), seen.share) == (6.0, True, Share(1, 0, 2))
    assert buried_in(seen, seen.lease) == pytest.approx(5.0)


def trouble(what: str) -> Trouble:
    return Trouble(what, "not authorized", ago(40), 12)


@pytest.mark.parametrize("what", ["claiming", "settling", "workers"])
def test_an_owner_that_cannot_claim_says_why_and_who_else_can(what: str) -> None:
    owner = replace(B, troubles=(trouble(what),))
    found = evidence(job(created_at=ago(60)), A, owner)
    assert codes(found) == ["owner-troubled", "help"]
    finding = explain(found)[0]
    assert finding.sentence.startswith("Its owner, node b, has not been able to ")
    assert finding.sentence.endswith(" for 40 s (12 tries): not authorized.")
    assert "the log of node b" in finding.advice
    assert second_look(found) == 0.0
    assert codes(evidence(job(), replace(A, troubles=(trouble(what),)), owner)) == [
        "owner-troubled"
    ]
    assert codes(evidence(job(), A, owner, ahead=3)) == ["owner-troubled", "behind", "help"]


def test_an_owner_without_a_worker_says_so() -> None:
    found = evidence(job(), A, replace(B, workers=0, workers_wanted=4))
    assert "node b, has none of its 4 workers" in only(found, "owner-troubled").sentence
    assert codes(evidence(job(), A, replace(B, workers=1, workers_wanted=4))) == ["next"]


def test_helpers_that_cannot_claim_are_no_help() -> None:
    able = replace(A, troubles=(trouble("claiming"),))
    found = evidence(job(), able, replace(B, tasks=frozenset()))
    assert codes(found) == ["owner-lacks-task", "helpers-troubled"]
    assert "node a has not been able to claim jobs" in only(found, "helpers-troubled").sentence


def test_other_troubles_of_an_owner_do_not_matter_to_a_job() -> None:
    assert codes(
        evidence(job(), A, replace(B, troubles=(trouble("schedules"), trouble("samples"))))
    ) == ["next"]


def test_a_job_whose_node_cannot_store_outcomes_says_so_first() -> None:
    found = evidence(working(), replace(A, troubles=(trouble("settling"), trouble("workers"))))
    assert codes(found) == ["holder-troubled", "running"]
    told = "Its node, a, has not been able to store outcomes for 40 s (12 tries): not authorized."
    assert explain(found)[0].sentence == told
    claimed = evidence(working(started_at=None), replace(A, troubles=(trouble("workers"),)))
    assert codes(claimed) == ["holder-troubled", "claimed"]
    assert codes(evidence(working(), replace(A, troubles=(trouble("claiming"),)))) == ["running"]


def test_a_job_without_a_number_tells_why_nobody_gives_it_one() -> None:
    a, b = (replace(one, troubles=(trouble("numbering"),)) for one in (A, B))
    found = evidence(job(seq=UNNUMBERED), a, b, inserted_at=ago(60))
    assert (
        "node a has not been able to number jobs for 40 s"
        in only(found, "numbering-troubled").sentence
    )
    assert codes(evidence(job(seq=UNNUMBERED), a, B, inserted_at=ago(60))) == ["unnumbered-long"]


def test_a_field_that_was_meant_to_be_another_is_told_last() -> None:
    found = replace(
        evidence(job(run_at=NOW + timedelta(minutes=3)), A),
        odd_fields=("its field `dely` means nothing",),
    )
    assert codes(found)[-1] == "odd-field"
    assert only(found, "odd-field").sentence == "Its field `dely` means nothing."


def test_a_range_that_nobody_satisfies_is_told_with_what_there_is() -> None:
    nodes = [
        node(name, modules=(("shop", version),))
        for name, version in (("web-1", "1.2.0"), ("web-2", "1.2.0"), ("web-3", "1.3.0"))
    ]
    finding = only(evidence(job(task="shop.resize@>=3"), *nodes), "no-version")
    assert finding.sentence == (
        "no live node has shop in >=3 (there are 1.2.0 on web-1, web-2 and 1.3.0 on web-3)"
    )
    assert "no-version" not in codes(evidence(job(task="shop.resize@>=1.3"), *nodes))
    assert codes(evidence(job(task="shop.resise@>=3"), *nodes)) == ["unknown-task"]


def test_the_owner_is_one_of_those_who_offer_the_task() -> None:
    shop = Offer((ModuleOffer("shop", "1", ("mail", "resize")),))
    other = replace(A, tasks=frozenset({"x.y"}))
    roster = Roster().joined_by(B.id, shop).joined_by(A.id, Offer())
    found = replace(evidence(job(seq=18), other, B), roster=roster)
    assert found.owner_id == B.id
    assert replace(found, job=job(seq=19)).owner_id == B.id
    unsaid = replace(found, roster=Roster().joined_by(B.id, Offer()))
    assert codes(unsaid) == ["not-offered"]


def unready(name: str, state: str = "initializing", tasks: tuple[str, ...] = ()) -> Sighting:
    """A node whose context mail is not ready; without tasks its module has never been loaded."""
    context = ContextState("mail", state, 1, 0, "away", 3, NOW + timedelta(seconds=4))
    module = Loaded("mail" if tasks else "mail.tasks", "1.2", "loading", "mail", tasks=tasks)
    return node(name, contexts=(context,), loaded=(module,))


def test_a_task_in_a_context_that_is_failing_is_told_with_its_error_and_next_try() -> None:
    failing = unready("a", "failing", ("mail.send",))
    finding = only(evidence(job(task="mail.send"), failing, B), "not-ready")
    assert finding.sentence.startswith(
        "No node can run mail.send yet: node a has it in the context mail, which is failing after "
        "3 tries: away; it tries again "
    )
    assert finding.sentence.endswith("(in 4 s).")
    assert "`tontine nodes`" in finding.advice
    with_range = evidence(job(task="mail.send@>=1,<2"), failing, B)
    assert codes(with_range) == ["not-ready"]
    assert codes(evidence(job(task="mail.send@>=2"), failing, B)) == ["unknown-task"]


def test_a_source_that_no_worker_has_loaded_yet_may_have_the_task() -> None:
    finding = only(evidence(job(task="mail.send"), unready("a"), B), "not-ready")
    assert "node a may get it with mail.tasks in the context mail, which is init" in (
        finding.sentence
    )
    served = replace(B, modules=(("mail", "1.2"),))
    assert codes(evidence(job(task="mail.sned"), unready("a"), served)) == ["unknown-task"]


def test_a_source_that_cannot_be_loaded_beside_others_is_told_with_its_error() -> None:
    broken = Loaded("mail.tasks", "", "broken", "default", error="No module named mail")
    ready = ContextState("default", "ready", 1, 1)
    found = evidence(job(task="mail.send"), replace(A, contexts=(ready,), loaded=(broken,)))
    assert only(found, "not-ready").sentence == (
        "No node can run mail.send yet: node a may get it with mail.tasks in the context default, "
        "where it is broken: No module named mail."
    )


def test_a_task_that_another_node_serves_does_not_wait_for_a_failing_context() -> None:
    failing = unready("a", "failing", ("shop.resize",))
    assert "not-ready" not in codes(evidence(job(), failing, B, members=(B,)))
