"""What must hold between any two states of the documents, given who wrote in between (PROTOCOL,
section 8)."""

from __future__ import annotations

from collections import Counter
from collections.abc import Callable, Iterator, Mapping
from dataclasses import dataclass
from typing import Any

from tontine.records.job import LIMIT
from tontine.records.states import FINAL, JOB_MOVES, NODE_MOVES, JobState, NodeState
from tontine.store.call import Call, find
from tontine.store.names import CLUSTER, COUNTER, JOBS, NODES, ROSTER

from .network import Direct, Message
from .worker import signature

Document = Mapping[str, Any]
Documents = dict[Any, Document]

CANCEL, RETRY, ASK = "cancel", "retry", "ask"
"""Senders that are no nodes, and may do what nodes may not."""


class Violation(AssertionError):
    """A document, or what ran, against an invariant."""

    def __init__(self, invariant: str, fact: str) -> None:
        super().__init__(f"{invariant}: {fact}")
        self.invariant = invariant


@dataclass(frozen=True, slots=True)
class Witness:
    """What documents alone do not tell."""

    is_leased: Callable[[str], bool]
    """Whether a node's lease is valid by its own stopwatch."""
    is_running: Callable[[int, int], bool]
    """Whether a worker that is not frozen runs (seq, attempt)."""


class History:
    """The documents as they were after the last write, judged with every new one."""

    def __init__(
        self,
        store: Direct,
        witness: Witness,
        tell: Callable[[str, Document | None, Document | None], None],
    ) -> None:
        self.documents: dict[str, Documents] = {JOBS: {}, NODES: {}, CLUSTER: {}}
        self._store = store
        self._witness = witness
        self._tell = tell
        """Hears of every change, before it is judged here."""

    @property
    def jobs(self) -> Documents:
        return self.documents[JOBS]

    @property
    def nodes(self) -> Documents:
        return self.documents[NODES]

    @property
    def roster(self) -> Document:
        return self.documents[CLUSTER].get(ROSTER, {"epoch": 0, "members": []})

    @property
    def counter(self) -> int:
        return int(self.documents[CLUSTER].get(COUNTER, {"seq": 0})["seq"])

    def by_seq(self, seq: int) -> Document:
        return next(job for job in self.jobs.values() if job.get("seq") == seq)

    def dead(self) -> set[str]:
        return {node for node, record in self.nodes.items() if record["state"] == NodeState.DEAD}

    def look(self, message: Message) -> Iterator[Violation]:
        """Read what the write may have changed, and judge the change."""
        collection = message.call.collection
        if collection not in self.documents:
            return
        before, after = self.documents[collection], self._read(collection)
        self.documents[collection] = after
        for one in sorted(before.keys() | after.keys(), key=str):
            old, new = before.get(one), after.get(one)
            if old != new:
                self._tell(collection, old, new)
                yield from self._judge(collection, old, new, message.sender)
        if collection == JOBS:
            twice = [
                seq
                for seq, count in Counter(job.get("seq") for job in after.values()).items()
                if seq and count > 1
            ]
            if twice:
                yield Violation("S7", f"two jobs have the seqs {twice}")

    def _read(self, collection: str) -> Documents:
        return {document["_id"]: document for document in self._store.make(find(collection, {}))}

    def _judge(
        self, collection: str, old: Document | None, new: Document | None, sender: str
    ) -> Iterator[Violation]:
        if new is None:
            yield Violation("L1" if collection == JOBS else "S6", f"{old} is gone")
        elif collection == JOBS and old is not None:
            yield from self._judge_job(old, new, sender)
        elif collection == NODES:
            yield from self._judge_node(old, new, sender)
        elif new["_id"] == ROSTER:
            yield from self._judge_roster(old, new, sender)

    def _judge_job(self, old: Document, new: Document, sender: str) -> Iterator[Violation]:
        change = f"{sender} made {_shown(old)} {_shown(new)}"
        if old.get("seq") is None:
            if new.get("attempt") != 0 or new["state"] not in (JobState.QUEUED, JobState.FAILED):
                yield Violation("S4", f"numbered as if it had run: {change}")
            return
        if new.get("seq") != old["seq"]:
            yield Violation("S7", f"a seq was changed: {change}")
        before, after = JobState(old["state"]), JobState(new["state"])
        is_retry = (
            sender == RETRY
            and after is JobState.QUEUED
            and not (new["lost"] or new["fails"] or "cancel" in new)
        )
        if before in FINAL and not is_retry:
            yield Violation("S1", f"a final job changed: {change}")
        if new["attempt"] != old["attempt"] + (
            before is JobState.QUEUED and after is JobState.WORKING
        ):
            yield Violation("S4", f"attempts: {change}")
        if after is not before and after not in JOB_MOVES[before]:
            yield Violation("S1", f"a move that there is not: {change}")
        if before is JobState.QUEUED:
            yield from _judge_queued(new, sender, change)
        elif before is JobState.WORKING and after is not before:
            yield from self._judge_end(old, new, sender, change)
        elif before is JobState.WORKING and (
            new["node"] != old["node"] or sender not in (old["node"], CANCEL)
        ):
            yield Violation("S2", f"a held job was changed by another: {change}")

    def _judge_end(
        self, old: Document, new: Document, sender: str, change: str
    ) -> Iterator[Violation]:
        """An attempt was ended: by its holder, or by anybody after its holder's death."""
        holder, attempt = old["node"], old["attempt"]
        if self._witness.is_running(old["seq"], attempt):
            yield Violation("S3", f"ended while it runs: {change}")
        if sender != holder:
            if holder not in self.dead():
                yield Violation("S2", f"a live node's job was ended by another: {change}")
            if (
                new["lost"] != old["lost"] + 1
                or new["fails"] != old["fails"]
                or new["state"] == JobState.DONE
            ):
                yield Violation("S2", f"not a repair: {change}")
        elif new["state"] == JobState.DONE and new["result"] != signature(holder, attempt):
            yield Violation("S2", f"the result is another attempt's: {change} {new['result']}")
        elif new["fails"] > old["fails"] and new["error"]["message"] != signature(holder, attempt):
            yield Violation("S2", f"the error is another attempt's: {change} {new['error']}")
        if new["state"] == JobState.QUEUED and (new["lost"] >= LIMIT or old.get("cancel")):
            yield Violation("L1", f"poison or cancelled, yet queued: {change}")

    def _judge_node(self, old: Document | None, new: Document, sender: str) -> Iterator[Violation]:
        node = new["_id"]
        change = f"{sender} made {node} {old and _life(old)} {_life(new)}"
        if old is None:
            if sender != node and new["state"] != NodeState.DEAD:
                yield Violation("S6", f"born by another: {change}")
            return
        if old["state"] == NodeState.DEAD:
            yield Violation("S6", f"a dead record changed: {change}")
        elif new["state"] == NodeState.DEAD and sender != node:
            if self._witness.is_leased(node):
                yield Violation("S8", f"declared dead within its lease: {change}")
        elif sender not in (node, ASK):
            yield Violation("S6", f"changed by another: {change}")
        elif (
            new["state"] != old["state"]
            and NodeState(new["state"]) not in NODE_MOVES[NodeState(old["state"])]
        ):
            yield Violation("S6", f"a move that there is not: {change}")
        if not old["beat"] <= new["beat"] <= old["beat"] + 1:
            yield Violation("S6", f"the beat jumped: {change}")

    def _judge_roster(
        self, old: Document | None, new: Document, sender: str
    ) -> Iterator[Violation]:
        members, before = new["members"], old["members"] if old else []
        change = f"{sender} made {old and (old['epoch'], before)} {(new['epoch'], members)}"
        if new["epoch"] != (old["epoch"] + 1 if old else 0):
            yield Violation("S5", f"epochs: {change}")
        if len(set(members)) < len(members):
            yield Violation("S5", f"a member is there twice: {change}")
        if set(members) - set(before) - {sender}:
            yield Violation("S5", f"joined by another: {change}")
        if set(before) - set(members) - {sender} - self.dead():
            yield Violation("S5", f"a live member was removed: {change}")


def _judge_queued(new: Document, sender: str, change: str) -> Iterator[Violation]:
    expected = sender == CANCEL if new["state"] == JobState.CANCELLED else new.get("node") == sender
    if new["state"] not in (JobState.WORKING, JobState.CANCELLED) or not expected:
        yield Violation("S2", f"a queued job changed, and not by a claim: {change}")


def _shown(job: Document) -> str:
    names = ("seq", "state", "node", "attempt", "fails", "lost", "cancel")
    return "{" + ", ".join(f"{name}: {job[name]}" for name in names if name in job) + "}"


def _life(record: Document) -> str:
    return f"({record['state']}, beat {record.get('beat')})"


def is_claim(call: Call) -> bool:
    """Whether this call would make jobs somebody's (J1)."""
    return is_announced_claim(call) or (
        call.collection == JOBS and call.method == "update_many" and "$set" in call.args[1]
    )


def is_announced_claim(call: Call) -> bool:
    """Whether this call would claim a job by its number alone."""
    return call.collection == JOBS and call.method == "find_one_and_update"


def is_roster_change(call: Call) -> bool:
    return call.collection == CLUSTER and call.method == "update_one" and "epoch" in call.args[0]
