"""`tontine why` of a plan, and what it says of a plan's job."""

from __future__ import annotations

from dataclasses import asdict
from typing import TYPE_CHECKING

from rich.text import Text

from ..diagnose.why import Finding
from ..diagnose.why.plan import explain_place, explain_plan
from ..errors import UnknownPlan
from ..legible import legible
from ..records.job import Job
from ..rules.plan_check import odd_fields
from ..rules.plan_graph import PlanGraph
from .output import console, write_json
from .plan import read_both
from .plan_tree import plan_state

if TYPE_CHECKING:
    from ..store.call import Store


def why_plan(store: Store, seq: int, *, as_json: bool) -> None:
    """Write why a plan is where it is."""
    from ..diagnose.why.read import nobody_there
    from ..store.plans.accept import all_know_plans
    from ..store.plans.read import read_document

    plan, status = read_both(store, seq)
    know, nobody = store.run(all_know_plans()), store.run(nobody_there())
    findings = explain_plan(plan, status, all_know=know, nobody=nobody)
    odd = odd_fields(store.run(read_document(seq)))
    findings += [Finding("odd-field", f"{one[0].upper()}{one[1:]}.") for one in odd]
    if as_json:
        facts = {"seq": seq, "plan": True, "state": plan.state, "name": plan.name}
        write_json({**facts, "findings": [asdict(finding) for finding in findings]})
        return
    out = console()
    name = f"  {legible(plan.name, 100)}" if plan.name else ""
    out.print(Text.assemble((f"plan {seq}", "bold"), f"{name}  ", plan_state(plan.state)))
    for finding in findings:
        out.print(Text(f"  {legible(finding.sentence)}"))
        if finding.advice:
            out.print(Text(f"  → {legible(finding.advice)}", style="dim"))


def about_place(store: Store, job: Job | None) -> list[Finding]:
    """Of which plan a job is, and what waits for it; nothing of any other job."""
    if job is None or not isinstance(job.id, str) or not job.id.startswith("plan/"):
        return []
    from ..store.plans.facts import read_facts
    from ..store.plans.read import read_plan

    fact = store.run(read_facts([job.id])).get(job.id)
    if fact is None:
        return []
    try:
        graph = PlanGraph(store.run(read_plan(fact.place.seq)).steps)
    except UnknownPlan:
        graph = None
    return explain_place(fact, graph)
