"""A batch is a sequence of jobs that keeps little of each."""

from __future__ import annotations

import sys

import pytest
from bson import Int64, ObjectId

from tontine.records.batch import Batch


def test_a_batch_gives_back_numbers_and_ids_in_order() -> None:
    documents = [{"_id": ObjectId(), "seq": Int64(seq)} for seq in (7, 9, 1 << 40)]
    batch = Batch("shop.resize")
    batch.add(documents[:1])
    batch.add(documents[1:])
    assert [(job.id, job.seq, job.task) for job in batch] == [
        (one["_id"], one["seq"], "shop.resize") for one in documents
    ]
    assert batch[-1].seq == 1 << 40
    assert batch[-1].id == documents[-1]["_id"]
    assert [job.seq for job in batch[1:]] == [9, 1 << 40]
    with pytest.raises(IndexError):
        batch[3]


def test_a_hundred_thousand_jobs_take_little_memory() -> None:
    batch = Batch("t.t")
    batch.add([{"_id": ObjectId(), "seq": Int64(seq)} for seq in range(100_000)])
    assert len(batch) == 100_000
    assert sys.getsizeof(batch._seqs) + sys.getsizeof(batch._ids) < 3_000_000
