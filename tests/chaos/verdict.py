"""What a run came to: the protocol's invariants, each checked from every side there is, and the
figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterable, Iterator, Mapping
from dataclasses import dataclass
from functools import partial
from typing import TYPE_CHECKING, Any

from tests.chaos import accounts
from tests.chaos.crew import ALL_WORKERS, Hand
from tests.chaos.endings import judge_care, judge_ending, judge_final
from tests.chaos.leftovers import orphans
from tests.chaos.plan_judge import PlansEnded
from tests.support.eventually import eventually
from tontine.cli.audit import examine, read_runs
from tontine.diagnose.audit.invariant import UNSEEN, Checked, Conclusion, Finding
from tontine.diagnose.audit.invariant import AuditVerdict as Judgement
from tontine.diagnose.audit.plan_changes import plan_of
from tontine.diagnose.audit.runs import Runs
from tontine.records.change import Delta

if TYPE_CHECKING:
    from tests.chaos.run import Scene
    from tests.chaos.vandal import Vandal

LARGEST_MASTER = 250 * 1024 * 1024
LARGEST_GROWTH = 1.5
FULL_WITHIN = 30.0
_KEPT = 10

Documents = Mapping[str, Mapping[str, Any]]
"""By the text of their `_id`s, which may be anything."""


@dataclass(frozen=True, slots=True)
class Verdict:
    """Zero violations, or not; and what happened."""

    violations: tuple[str, ...]
    figures: Mapping[str, Any]


def judge(scene: Scene) -> Verdict:
    """Audit the documents, the history of changes, the record of runs, the processes and the
    accounts."""
    runs = read_runs(scene.crew.runs)
    found = scene.store.database.jobs.find({}, {"args.load": 0, "result.load": 0, "result.deep": 0})
    documents = {repr(document["_id"]): document for document in found}
    tally = _Excusing(
        _KEPT,
        scene.vandal,
        {documents[one].get("seq") for one in scene.vandal.jobs & set(documents)},
    )
    tally.add_seen(scene.witness.findings)
    tally.add(runs.judge(scene.crew.spells))
    tally.add(_judge_jobs(scene, documents, runs))
    tally.add(_judge_accounts(scene, documents))
    plans = PlansEnded(scene, documents)
    tally.add(plans.judge_runs(runs))
    tally.add(_judge_deaths(scene))
    tally.add(_judge_places(scene))
    violations = [text for one in _examine(scene, tally) if (text := _violation(one))]
    stuck = [finding.subject + " " + finding.fact for finding in _judge_touched(scene, documents)]
    wrong = [*accounts.judge_stages(scene, documents), *accounts.judge_counts(scene, documents)]
    found = (*violations, *stuck, *wrong, *plans.judge_ends(), *_troubles(scene))
    return Verdict(found, {**_figures(scene, documents, runs), **plans.figures()})


class _Excusing(Checked):
    """Leaves out what is about documents that somebody scribbled on."""

    def __init__(self, limit: int, vandal: Vandal, seqs: set[Any]) -> None:
        super().__init__(limit)
        self._vandal, self._seqs = vandal, seqs

    def add_seen(self, findings: Iterable[tuple[Delta, Finding]]) -> None:
        """Of a change it is known which document it was, and when."""
        super().add(
            finding
            for change, finding in findings
            if not self._vandal.excuses(change) and finding.plan not in self._vandal.plan_seqs
        )

    def add(self, findings: Iterable[Finding]) -> None:
        super().add(one for one in findings if not self._vandal.excuses_finding(one, self._seqs))


def _examine(scene: Scene, tally: Checked) -> list[Conclusion]:
    try:
        return examine(scene.store, tally)
    except Exception as error:  # noqa: BLE001 - whatever is in the documents, an audit says so, and the rest is told
        scene.troubles.append(f"the audit itself failed: {error!r}")
        return tally.conclusions()


def _violation(one: Conclusion) -> str:
    if one.verdict is Judgement.UNKNOWN and one.invariant not in UNSEEN:
        return f"{one.invariant} could not be judged: {one.why_unknown}"
    if one.verdict is not Judgement.VIOLATED:
        return ""
    examples = "; ".join(f"{found.subject} {found.fact}" for found in one.examples)
    return f"{one.invariant} ({one.sentence}): {one.violations}: {examples}"


def _judge_jobs(scene: Scene, documents: Documents, runs: Runs) -> Iterator[Finding]:
    for key, document in documents.items():
        if _is_touched(scene, key, document):
            continue
        yield from judge_ending(document)
        if document.get("seq") is not None:
            yield from runs.judge_job(document)
            yield from judge_care(
                document, len(runs.by_seq.get(document["seq"], ())), scene.load.retried
            )


def _judge_touched(scene: Scene, documents: Documents) -> Iterator[Finding]:
    """A job that somebody scribbled on may end in any way, but it ends."""
    for key, document in documents.items():
        if _is_touched(scene, key, document):
            yield from judge_final(document)


def _is_touched(scene: Scene, key: str, document: Mapping[str, Any]) -> bool:
    """Whether somebody scribbled on a job, on the schedule that inserted it or on its plan."""
    vandal, plan = scene.vandal, plan_of(document["_id"])
    is_theirs = key in vandal.jobs or document.get("schedule") in vandal.schedules
    return is_theirs or (plan is not None and plan in vandal.plan_seqs)


def _judge_accounts(scene: Scene, documents: Documents) -> Iterator[Finding]:
    """Whatever was acknowledged is there, and whatever came back to the queue was put there by an
    operator."""
    for gone in set(map(repr, scene.load.sure)) - set(documents) - scene.vandal.jobs:
        yield Finding("L1", f"the insertion of {gone} was acknowledged, and it is gone")
    touched = {documents[one].get("seq") for one in scene.vandal.jobs & set(documents)}
    for seq in scene.witness.history.put_back - scene.load.retried - touched:
        yield Finding("S1", "had ended, and went back to the queue without an operator", seq)


def _judge_deaths(scene: Scene) -> Iterator[Finding]:
    """A node that nobody hurt must not be buried, whatever happens to the servers (L2)."""
    for node in scene.store.database.nodes.find({"death": "lease expired"}):
        hurts = scene.hurts.get(node["name"], [])
        if repr(node["_id"]) not in scene.vandal.nodes and not any(
            hurt.explains(node["started_at"], node["died_at"]) for hurt in hurts
        ):
            yield Finding(
                "L2",
                f"{node['name']} was buried at {node['died_at']:%H:%M:%S}, and nobody had hurt it",
            )


def _judge_places(scene: Scene) -> Iterator[Finding]:
    """Every node that should be there came back by itself, and owns a share (L3)."""
    roster = scene.store.database.cluster.find_one({"_id": "roster"}) or {}
    there = {
        node.get("name")
        for node in scene.store.database.nodes.find({"_id": {"$in": members_of(roster)}})
    }
    for hand in scene.crew.hands:
        if not hand.name.startswith("extra") and hand.name not in there:
            yield Finding("L3", f"{hand.name} is no member after calm returned")


def members_of(roster: Mapping[str, Any]) -> list[str]:
    """Its members, if that is what they are."""
    members = roster.get("members")
    return [str(member) for member in members] if isinstance(members, list) else []


def _is_full(scene: Scene, hand: Hand) -> bool:
    return scene.crew.count_workers(hand) == ALL_WORKERS


def _judge_workers(scene: Scene) -> Iterator[str]:
    """Every node has all of its workers, and none of them left anything behind."""
    for hand in scene.crew.hands:
        try:
            eventually(partial(_is_full, scene, hand), FULL_WITHIN)
        except AssertionError:
            yield f"{hand.name} has {scene.crew.count_workers(hand)} of {ALL_WORKERS} workers"
    crew = scene.crew
    try:
        eventually(lambda: not orphans(crew.runs, crew.left, crew.killed), FULL_WITHIN)
    except AssertionError:
        yield from orphans(crew.runs, crew.left, crew.killed)


def _troubles(scene: Scene) -> Iterator[str]:
    yield from scene.troubles
    yield from _judge_workers(scene)
    yield from (trouble for trouble in (scene.witness.trouble, scene.load.trouble) if trouble)
    if scene.scales.largest > LARGEST_MASTER:
        yield f"a master took {scene.scales.largest // 1024**2} MB"
    if scene.scales.growth > LARGEST_GROWTH:
        yield f"a master grew to {scene.scales.growth:.2f} of its size"


def _figures(scene: Scene, documents: Documents, runs: Runs) -> dict[str, Any]:
    nodes = list(scene.store.database.nodes.find())
    attempts = sum(
        document.get("attempt", 0)
        for key, document in documents.items()
        if key not in scene.vandal.jobs
    )
    return {
        "faults": sum(scene.injector.injected.values()),
        "faults by kind": dict(sorted(scene.injector.injected.items())),
        "faults missed": sum(scene.injector.missed.values()),
        "jobs": len(documents),
        "jobs by state": dict(
            Counter(str(document.get("state")) for document in documents.values())
        ),
        "runs": runs.total,
        "reruns": runs.repeated,
        "attempts given back unstarted": attempts - runs.total,
        "met a frozen run": len(runs.meetings),
        "refused settlements": sum(_dropped(node) for node in nodes),
        "answers lost": scene.crew.answers_lost + scene.injector.producer.lost,
        "incarnations": len(nodes),
        "buried": sum(node.get("death") == "lease expired" for node in nodes),
        "epochs": (scene.store.database.cluster.find_one({"_id": "roster"}) or {}).get("epoch"),
        "jobs scribbled on": len(scene.vandal.jobs),
        "records scribbled on": len(scene.vandal.nodes),
        "processes left behind": len(scene.crew.left.read_text().splitlines()),
        "changes judged": scene.witness.history.changes,
        **accounts.figures(scene),
        "largest master, MB": scene.scales.largest // 1024**2,
        "most growth of a master": round(scene.scales.growth, 2),
        "longest stall, s": round(scene.stall.longest, 2),
        **scene.load.counts,
    }


def _dropped(node: Mapping[str, Any]) -> int:
    metrics = node.get("metrics")
    dropped = metrics.get("dropped") if isinstance(metrics, Mapping) else 0
    return dropped if isinstance(dropped, int) else 0
