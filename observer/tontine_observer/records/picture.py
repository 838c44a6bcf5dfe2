"""The picture: frozen records that every face draws. All text in them is clean, all moments are the server's. Pure.

`Board.picture()` makes one; ages are seconds at the picture's own moment, so a past picture is as true as a live one.
"""

from __future__ import annotations

from collections.abc import Mapping, Sequence
from dataclasses import dataclass, field
from datetime import datetime
from enum import StrEnum
from typing import NamedTuple

from tontine.records.share import Share
from tontine.records.states import FINAL, NodeState
from tontine.records.trouble import Trouble

_ENDED = frozenset(state.value for state in FINAL)


class Mode(StrEnum):
    """How the data comes in. What the user froze or scrolled back to is the screen's own business."""

    CONNECTING = "connecting"
    LIVE = "live"
    SAMPLED = "sampled"  # more than anybody can follow: looked at every two seconds, jobs are counted and some shown
    POLL = "poll"  # no change stream: looked at every two seconds, what happens in between is unseen
    STALE = "stale"  # the store does not answer: the last known data
    REPLAY = "replay"  # from a recording, without a store


class Pane(StrEnum):
    """What there is to look at; also where an alert leads, and what can be dirty."""

    NODES = "nodes"
    SHARES = "shares"
    FLOW = "flow"
    JOBS = "jobs"
    CHANGES = "changes"
    TIME = "time"


class Weight(StrEnum):
    """How bad an alert is; a notice alone leaves the system healthy."""

    BAD = "bad"
    WARNING = "warning"
    NOTICE = "notice"


ELECTION = "election"
"""The reason of a link while the replica set has no primary."""


@dataclass(frozen=True, slots=True)
class Link:
    """How the observer hears of the system: shown as LIVE, STALE 14 s, retry in 4 s, and so on."""

    mode: Mode = Mode.CONNECTING
    reason: str = ""
    """Why the mode is not LIVE, in one line; also `ELECTION`."""
    age: float = 0.0
    """Seconds since the store last answered."""
    retry_in: float | None = None
    lag: float | None = None
    """Seconds from a change to its arrival here; None without a stream."""
    rate: float = 0.0
    """Changes a second while SAMPLED, as far as the counters tell."""
    ahead: float = 0.0
    """How far this machine's clock is ahead of the server's."""
    refused: Mapping[str, str] = field(default_factory=dict)
    """Collections that may not be read, and what the server said."""
    read_only: str = ""
    """Why nothing may be asked of nodes or jobs; empty when it may (RW)."""
    unknown: int = 0
    """States and kinds of changes seen that this version does not know."""

    @property
    def is_fresh(self) -> bool:
        return self.mode in (Mode.LIVE, Mode.SAMPLED, Mode.POLL)

    @property
    def may_ask(self) -> bool:
        """Whether operator requests make sense now."""
        return self.is_fresh and not self.read_only


@dataclass(frozen=True, slots=True)
class Status:
    """The first line."""

    database: str
    replica_set: str = ""
    primary: str = ""
    epoch: int = 0
    since: datetime | None = None
    """When this epoch began, if that was seen or recorded."""
    members: int = 0
    states: Mapping[str, int] = field(default_factory=dict)
    """Nodes by state; the known states first, unknown ones as they are."""
    backlog: int = 0
    rate: float = 0.0
    """Jobs settled per second, over the last ten seconds."""
    seq: int = 0
    """The last number given."""


@dataclass(frozen=True, slots=True)
class Target:
    """What `enter` on an alert or a change shows: a pane, and the row in it (node id, rank, seq or task as text)."""

    pane: Pane
    key: str = ""
    filter: str = ""
    """For the jobs pane: a filter text that finds what is meant."""


@dataclass(frozen=True, slots=True)
class Alert:
    """Something that needs somebody: its kind for programs, its text for people."""

    kind: str
    subject: str
    text: str
    weight: Weight = Weight.BAD
    target: Target = Target(Pane.NODES)


@dataclass(frozen=True, slots=True)
class ModuleRow:
    """A module that a node has."""

    name: str
    version: str
    tasks: tuple[str, ...]


@dataclass(frozen=True, slots=True)
class NodeRow:
    """One node as people see it."""

    id: str
    name: str
    state: str
    share: Share | None
    running: int
    slots: int
    done: int
    failed: int
    beat_age: float | None
    tick: int
    host: str
    pid: int
    version: str
    note: str
    desired: str = ""
    rank: int | None = None
    """Its place in the roster; None when it is no member."""
    job: int | None = None
    """The job it has held longest."""
    job_for: float | None = None
    """Seconds since that job started; None when its start is not known."""
    is_job_doubtful: bool = False
    """The node is dead: the job is one that it held when it died."""
    held: int = 0
    """Jobs that are claimed by it, started or not, as far as they are in the window."""
    rate: tuple[float, ...] = ()
    """Jobs settled per second, in steps of 2 s over the last minute, oldest first; shorter when younger."""
    cpu: float | None = None
    memory: int | None = None
    lease: float = 0.0
    skew: float | None = None
    """Seconds that its clock is ahead of the server's; None when it does not tell."""
    since: datetime | None = None
    """When it came into this state, if that was seen."""
    started_at: datetime | None = None
    died_at: datetime | None = None
    death: str = ""
    modules: tuple[ModuleRow, ...] = ()
    is_silent: bool = False
    """Alive by its record, but its beat is late."""
    troubles: tuple[Trouble, ...] = ()
    """What fails inside it; nothing is known of one that is dead or silent."""
    workers: int | None = None
    workers_wanted: int | None = None
    bytes: int | None = None
    """Of the jobs and results that its master holds."""


CELLS: dict[str, str] = {
    "q": "queued and due",
    "l": "queued for later",
    "c": "working: claimed, its start not known",
    "r": "working: started",
    "d": "done",
    "f": "failed",
    "x": "cancelled",
    "?": "in a state this version does not know, or held by a dead node",
    "h": "hole: the number was taken, and there is no such job",
    " ": "not known here",
}
"""One character per seq; a screen chooses its own glyphs for them."""


@dataclass(frozen=True, slots=True)
class ShareRow:
    """One rank of the roster: the seqs it should claim, and how they fare."""

    rank: int
    size: int
    owner: str
    """The owner's node id."""
    name: str
    state: str
    """The owner's state; `missing` when there is no record of it."""
    oldest_age: float | None
    """Seconds that its oldest due job has waited; None when none waits."""
    oldest: int | None
    waiting: int
    first: int
    """The seq of the first cell; cell i is seq `first + i * size`."""
    cells: str
    note: str = ""
    """`owner dead`, `owner silent`, `#4893 claimed by ada`, `3 holes` ..., separated by commas."""
    foreign: tuple[tuple[int, str], ...] = ()
    """Seqs that others than the owner hold, and the holders' names: help, usually."""
    is_stalled: bool = False
    is_partial: bool = False
    """There are more waiting than were counted: `waiting` is a lower bound."""


@dataclass(frozen=True, slots=True)
class Series:
    """Numbers over time, oldest first; None is a stretch that was not recorded."""

    start: datetime
    step: float
    values: tuple[float | None, ...]


@dataclass(frozen=True, slots=True)
class Flow:
    """What goes in, through and out."""

    counts: Mapping[str, int] = field(default_factory=dict)
    """Jobs per state, the known states first."""
    started: int | None = None
    """Of those working, how many are known to have started; None when the window does not hold all of them."""
    later: int = 0
    """Of those queued, how many are for later, as far as known."""
    unnumbered: int = 0
    in_rate: float = 0.0
    out_rate: float = 0.0
    done_rate: float = 0.0
    failed_rate: float = 0.0
    retried_rate: float = 0.0
    """Working jobs that went back to the queue, per second."""
    cancelled_rate: float = 0.0
    wait_p50: float | None = None
    """Seconds from due to claimed, of the jobs claimed in the last minute."""
    wait_p95: float | None = None
    run_p50: float | None = None
    run_p95: float | None = None
    oldest: int | None = None
    oldest_age: float | None = None
    oldest_rank: int | None = None
    incoming: Series | None = None
    outgoing: Series | None = None
    depth: Series | None = None
    """Jobs queued; all three series share one axis: ten minutes."""
    is_counted: bool = True
    """False until the finished jobs were counted once."""

    @property
    def net_rate(self) -> float:
        return self.in_rate - self.out_rate


class JobRow(NamedTuple):
    """One job as the window knows it. Moments are the server's, in seconds since 1970, so a row never ages.

    A tuple, because thousands are made every second: a frozen dataclass takes five times as long to make.
    """

    id: str
    seq: int | None
    task: str
    state: str
    node: str = ""
    """The holder's node id."""
    attempt: int = 0
    fails: int = 0
    lost: int = 0
    priority: int = 0
    key: str = ""
    cancel: bool = False
    run_at: float | None = None
    created_at: float | None = None
    claimed_at: float | None = None
    """When the claim was seen; None when it was older than the observer."""
    started_at: float | None = None
    finished_at: float | None = None
    progress: float | None = None
    progress_note: str = ""
    error: str = ""
    """Type and message in one line."""

    @property
    def is_open(self) -> bool:
        return self.state not in _ENDED

    @property
    def due_at(self) -> float | None:
        return self.run_at if self.run_at is not None else self.created_at

    @property
    def ran(self) -> float | None:
        """Seconds it ran, once it has ended."""
        if self.started_at is None or self.finished_at is None:
            return None
        return max(0.0, self.finished_at - self.started_at)


@dataclass(frozen=True, slots=True)
class JobList:
    """The jobs that are known at the moment, by seq; and how much of all jobs that is."""

    rows: tuple[JobRow, ...] = ()
    total: int = 0
    """All jobs in the store, as far as counted."""
    is_complete: bool = True
    """Whether every unfinished job is among them."""
    note: str = ""
    """What is missing and why, in one line: `older than what is kept`, `jobs may not be read: ...`."""


class ChangeKind(StrEnum):
    """What kind of thing happened; the changes pane filters by these."""

    NODE = "node"
    EPOCH = "epoch"
    ERROR = "error"  # a job that failed
    REQUEST = "request"  # of an operator
    JOB = "job"
    GAP = "gap"  # of the recording: something may be missing
    NOTE = "note"  # said by the demo, or of a kind this version does not know


@dataclass(frozen=True, slots=True)
class Change:
    """One line of the changes pane."""

    at: datetime
    kind: ChangeKind
    subject: str
    """Whom or what it is about, as shown: a node's name, `E14`, `#4889`."""
    text: str
    target: Target | None = None
    times: int = 1
    """How many like it were folded into this one."""


@dataclass(frozen=True, slots=True)
class Lane:
    """One node's life over the columns of a timeline: one character per column."""

    id: str
    name: str
    states: str
    """`w` working, `-` waiting, `p` paused, `i` initializing, `x` dead, `?` unknown, space: not there."""
    is_gone: bool = False
    """Its record is gone, or it stopped: it left."""


@dataclass(frozen=True, slots=True)
class EpochMark:
    """Where an epoch begins."""

    column: int
    epoch: int
    at: datetime
    members: int


@dataclass(frozen=True, slots=True)
class Timeline:
    """The time pane: `columns` columns of `step` seconds from `start`."""

    start: datetime
    step: float
    columns: int
    oldest: datetime
    """The oldest moment of which anything is known."""
    epochs: tuple[EpochMark, ...]
    members: tuple[int | None, ...]
    waiting: tuple[float | None, ...]
    recorded: tuple[bool, ...]
    """False where nothing was recorded: to be hatched, never drawn as idle."""
    lanes: tuple[Lane, ...]


@dataclass(frozen=True, slots=True)
class Picture:
    """Everything there is to show at one moment, but for the jobs, which `Board.jobs` lists."""

    at: datetime
    """The moment shown, by the server's clock."""
    is_past: bool
    status: Status
    link: Link
    alerts: tuple[Alert, ...]
    nodes: tuple[NodeRow, ...]
    shares: tuple[ShareRow, ...]
    flow: Flow
    members: tuple[str, ...] = ()
    note: str = ""
    """What of this moment is not known: `jobs are kept from 12:01:40 on`."""

    @property
    def is_healthy(self) -> bool:
        return all(alert.weight is Weight.NOTICE for alert in self.alerts)


@dataclass(frozen=True, slots=True)
class Attempt:
    """One run of a job, as far as anything of it is left."""

    number: int
    text: str
    error: str = ""
    traceback: str = ""


@dataclass(frozen=True, slots=True)
class JobPage:
    """One job whole, read when it was asked for."""

    at: datetime
    row: JobRow
    owner: str
    """The name of the member whose share it is in."""
    holder: str
    why: tuple[tuple[str, str], ...]
    """Sentences, and the advice to each."""
    attempts: tuple[Attempt, ...]
    logs: tuple[tuple[datetime, int, str], ...]
    """When, in which attempt, what."""
    facts: tuple[tuple[str, str], ...]
    """Every other field of the document, those this version does not know included."""
    args: str
    result: str
    """Both redacted; hidden until they are asked for."""
    family: tuple[tuple[str, str], ...] = ()
    """The job whose task submitted it, and those that its own has submitted."""


def node_counts(states: Sequence[str]) -> dict[str, int]:
    """How many nodes are in each state, the known states first."""
    found = {state.value: 0 for state in NodeState}
    for state in states:
        found[state] = found.get(state, 0) + 1
    return found
