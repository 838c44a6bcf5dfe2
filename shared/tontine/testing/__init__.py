"""Testing help for applications: a task inline, a queue in memory, or real jobs on a real node.

`run_task` calls one task with a job around it, `run_plan` runs a whole plan, `EagerQueue` stands in
for a client without MongoDB, and `Queue` is a database of one's own with a node on demand.
`Cluster` starts nodes that a test can stop, kill and freeze. The pytest fixtures `tontine_eager`
and `tontine_queue` come with it.
"""

from __future__ import annotations

from .cluster import Cluster, NodeProcess
from .eager import AsyncEagerQueue, EagerQueue
from .inline import Run, arun_task, run_task
from .plans import run_plan
from .real import Queue

__all__ = [
    "AsyncEagerQueue",
    "Cluster",
    "EagerQueue",
    "NodeProcess",
    "Queue",
    "Run",
    "arun_task",
    "run_plan",
    "run_task",
]
