"""What a run came to: the protocol's invariants, each checked from every side there is, and the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tests.chaos.endings import judge_care, judge_ending
from tontine.audit.invariant import UNSEEN, Conclusion, Finding, Tally
from tontine.audit.invariant import Verdict as Judgement
from tontine.audit.runs import Runs
from tontine.cli.audit import examine, read_runs

if TYPE_CHECKING:
    from tests.chaos.run import Scene

LARGEST_MASTER = 250 * 1024 * 1024
LARGEST_GROWTH = 1.5
_KEPT = 10

Documents = Mapping[Any, Mapping[str, Any]]


@dataclass(frozen=True, slots=True)
class Verdict:
    """Zero violations, or not; and what happened."""

    violations: tuple[str, ...]
    figures: Mapping[str, Any]


def judge(scene: Scene) -> Verdict:
    """Audit the documents, the history of changes, the record of runs, the processes and the accounts."""
    runs = read_runs(scene.crew.runs)
    documents = {document["_id"]: document for document in scene.store.database.jobs.find()}
    tally = Tally(_KEPT)
    tally.add(scene.witness.findings)
    tally.add(runs.judge(scene.crew.spells))
    tally.add(_judge_jobs(scene, documents, runs))
    tally.add(_judge_accounts(scene, documents))
    tally.add(_judge_deaths(scene))
    tally.add(_judge_places(scene))
    violations = [text for one in examine(scene.store, tally) if (text := _violation(one))]
    return Verdict((*violations, *_troubles(scene)), _figures(scene, documents, runs))


def _violation(one: Conclusion) -> str:
    if one.verdict is Judgement.UNKNOWN and one.invariant not in UNSEEN:
        return f"{one.invariant} could not be judged: {one.why_unknown}"
    if one.verdict is not Judgement.VIOLATED:
        return ""
    examples = "; ".join(f"{found.subject} {found.fact}" for found in one.examples)
    return f"{one.invariant} ({one.sentence}): {one.violations}: {examples}"


def _judge_jobs(scene: Scene, documents: Documents, runs: Runs) -> Iterator[Finding]:
    for document in documents.values():
        yield from judge_ending(document)
        if document.get("seq") is not None:
            yield from runs.judge_job(document)
            yield from judge_care(document, len(runs.by_seq.get(document["seq"], ())), scene.load.retried)


def _judge_accounts(scene: Scene, documents: Documents) -> Iterator[Finding]:
    """Whatever was acknowledged is there, and whatever came back to the queue was put there by an operator."""
    for gone in scene.load.sure - set(documents):
        yield Finding("L1", f"the insertion of {gone} was acknowledged, and it is gone")
    for seq in scene.witness.history.put_back - scene.load.retried:
        yield Finding("S1", "had ended, and went back to the queue without an operator", seq)


def _judge_deaths(scene: Scene) -> Iterator[Finding]:
    """A node that nobody hurt must not be buried, whatever happens to the servers (L2)."""
    for node in scene.store.database.nodes.find({"death": "lease expired"}):
        hurts = scene.hurts.get(node["name"], [])
        if not any(hurt.explains(node["started_at"], node["died_at"]) for hurt in hurts):
            yield Finding("L2", f"{node['name']} was buried at {node['died_at']:%H:%M:%S}, and nobody had hurt it")


def _judge_places(scene: Scene) -> Iterator[Finding]:
    """Every node that should be there came back by itself, and owns a share (L3)."""
    roster = scene.store.database.cluster.find_one({"_id": "roster"})
    members = scene.store.database.nodes.find({"_id": {"$in": roster["members"]}})
    there = {node["name"] for node in members}
    for hand in scene.crew.hands:
        if not hand.name.startswith("extra") and hand.name not in there:
            yield Finding("L3", f"{hand.name} is no member after calm returned")


def _troubles(scene: Scene) -> Iterator[str]:
    yield from scene.crew.deserters
    yield from (trouble for trouble in (scene.witness.trouble, scene.load.trouble) if trouble)
    if scene.scales.largest > LARGEST_MASTER:
        yield f"a master took {scene.scales.largest // 1024**2} MB"
    if scene.scales.growth > LARGEST_GROWTH:
        yield f"a master grew to {scene.scales.growth:.2f} of its size"


def _figures(scene: Scene, documents: Documents, runs: Runs) -> dict[str, Any]:
    nodes = list(scene.store.database.nodes.find())
    attempts = sum(document.get("attempt", 0) for document in documents.values())
    return {
        "faults": sum(scene.injector.injected.values()),
        "faults by kind": dict(sorted(scene.injector.injected.items())),
        "faults missed": sum(scene.injector.missed.values()),
        "jobs": len(documents),
        "jobs by state": dict(Counter(str(document.get("state")) for document in documents.values())),
        "runs": runs.total,
        "reruns": runs.repeated,
        "attempts given back unstarted": attempts - runs.total,
        "met a frozen run": len(runs.meetings),
        "refused settlements": sum(node.get("metrics", {}).get("dropped", 0) for node in nodes),
        "answers lost": scene.crew.answers_lost + scene.injector.producer.lost,
        "incarnations": len(nodes),
        "buried": sum(node.get("death") == "lease expired" for node in nodes),
        "epochs": scene.store.database.cluster.find_one({"_id": "roster"})["epoch"],
        "changes judged": scene.witness.history.changes,
        "largest master, MB": scene.scales.largest // 1024**2,
        "most growth of a master": round(scene.scales.growth, 2),
        "longest stall, s": round(scene.stall.longest, 2),
        **scene.load.counts,
    }
