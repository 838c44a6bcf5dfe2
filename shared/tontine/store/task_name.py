"""The name of a job's task in an expression of MongoDB: the part of its key before the range."""

from __future__ import annotations

from ..records.task_key import MARK

TASK_NAME = {
    "$cond": [
        {"$eq": [{"$type": "$task"}, "string"]},
        {"$arrayElemAt": [{"$split": ["$task", MARK]}, 0]},
        "",
    ]
}
"""Empty where `task` is no text: any driver may have written it."""
