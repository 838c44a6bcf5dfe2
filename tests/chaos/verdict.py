"""What a run came to: the protocol's invariants, each checked from every side there is, and the figures."""

from __future__ import annotations

from collections import Counter
from collections.abc import Iterator, Mapping
from dataclasses import dataclass
from typing import TYPE_CHECKING, Any

from tontine.audit.invariant import Finding, Tally
from tontine.audit.invariant import Verdict as Judgement
from tontine.cli.audit import examine, read_runs
from tontine.states import FINAL, JobState

if TYPE_CHECKING:
    from tests.chaos.run import Scene

LARGEST_MASTER = 250 * 1024 * 1024
_KEPT = 10


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
    tally.add(runs.judge(scene.crew.frozen_pids))
    for document in documents.values():
        tally.add(runs.judge_job(document))
        tally.add(_judge_outcome(document))
        if document.get("task") == "chaos.careful" and document.get("seq") not in scene.load.retried:
            tally.add(_judge_care(document, len(runs.by_seq.get(document["seq"], ()))))
    tally.add(Finding("L1", "its insertion was acknowledged, and it is gone") for _ in scene.load.sure - set(documents))
    tally.add(_judge_deaths(scene))
    conclusions = examine(scene.store, tally)
    violations = [
        f"{one.invariant} ({one.sentence}): {one.violations}: "
        + "; ".join(f"{found.subject} {found.fact}" for found in one.examples)
        for one in conclusions
        if one.verdict is Judgement.VIOLATED
    ]
    violations += [f"unfinished: {document['seq']} {document['state']}" for document in _unfinished(documents)][:_KEPT]
    violations += scene.crew.deserters
    if scene.witness.trouble:
        violations.append(scene.witness.trouble)
    if scene.scales.largest > LARGEST_MASTER:
        violations.append(f"a master took {scene.scales.largest // 1024**2} MB")
    nodes = list(scene.store.database.nodes.find())
    figures = {
        "faults": sum(scene.injector.injected.values()),
        "faults by kind": dict(sorted(scene.injector.injected.items())),
        "faults missed": sum(scene.injector.missed.values()),
        "jobs": len(documents),
        "jobs by state": dict(Counter(document["state"] for document in documents.values())),
        "runs": runs.total,
        "reruns": runs.repeated,
        "attempts given back unstarted": sum(document["attempt"] for document in documents.values()) - runs.total,
        "met a frozen run": len(runs.meetings),
        "refused settlements": sum(node.get("metrics", {}).get("dropped", 0) for node in nodes),
        "answers lost": sum(hand.proxy.lost for hand in scene.crew.hands),
        "incarnations": len(nodes),
        "buried": sum(node.get("death") == "lease expired" for node in nodes),
        "epochs": scene.store.database.cluster.find_one({"_id": "roster"})["epoch"],
        "changes judged": scene.witness.history.changes,
        "largest master, MB": scene.scales.largest // 1024**2,
        "longest stall, s": round(scene.stall.longest, 2),
        **scene.load.counts,
    }
    return Verdict(tuple(violations), figures)


def _unfinished(documents: Mapping[Any, Mapping[str, Any]]) -> list[Mapping[str, Any]]:
    return [document for document in documents.values() if document.get("state") not in FINAL]


def _judge_outcome(document: Mapping[str, Any]) -> Iterator[Finding]:
    """A result names the attempt that made it."""
    if document.get("state") == JobState.DONE and document["result"]["attempt"] != document["attempt"]:
        made = document["result"]["attempt"]
        yield Finding("S2", f"attempt {document['attempt']} is done with the result of attempt {made}", document["seq"])


def _judge_care(document: Mapping[str, Any], runs: int) -> Iterator[Finding]:
    if runs > 1:
        yield Finding("S3", f"must not run twice, and ran {runs} times", document["seq"])


def _judge_deaths(scene: Scene) -> Iterator[Finding]:
    """A node that nobody hurt must not be buried, whatever happens to the servers (L2), unless this machine stalled."""
    if scene.stall.longest > scene.lease / 4:
        return
    for node in scene.store.database.nodes.find({"death": "lease expired"}):
        hurts = scene.hurts.get(node["name"], [])
        was_extra = node["name"].startswith("extra")  # asked to stop, and perhaps without a store to say goodbye to
        if not was_extra and not any(hurt.explains(node["started_at"], node["died_at"]) for hurt in hurts):
            yield Finding("L2", f"{node['name']} was buried at {node['died_at']:%H:%M:%S}, and nobody had hurt it")
