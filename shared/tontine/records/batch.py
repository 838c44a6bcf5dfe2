"""The jobs of one `submit_many`: a sequence that keeps 20 bytes of each, whatever its arguments
were."""

from __future__ import annotations

from array import array
from collections.abc import Mapping, Sequence
from typing import Any, overload

from bson import ObjectId

from .job import Job

_ID = 12


class Batch(Sequence[Job]):
    """The jobs of one `submit_many`, in order: numbers and ids; `client.get` and `client.wait` read
    the rest."""

    __slots__ = ("_ids", "_seqs", "task")

    def __init__(self, task: str) -> None:
        self.task = task
        """The task of all of them."""
        self._seqs = array("q")
        self._ids = bytearray()

    def add(self, documents: Sequence[Mapping[str, Any]]) -> None:
        """Take note of jobs that were inserted."""
        self._seqs.extend([document["seq"] for document in documents])
        self._ids += b"".join([document["_id"].binary for document in documents])

    def __len__(self) -> int:
        return len(self._seqs)

    @overload
    def __getitem__(self, place: int) -> Job: ...
    @overload
    def __getitem__(self, place: slice) -> list[Job]: ...
    def __getitem__(self, place: int | slice) -> Job | list[Job]:
        if isinstance(place, slice):
            return [self[one] for one in range(*place.indices(len(self)))]
        seq = self._seqs[place]  # an IndexError for a place that is not there
        start = (place % len(self)) * _ID
        return Job(id=ObjectId(bytes(self._ids[start : start + _ID])), seq=seq, task=self.task)

    def __repr__(self) -> str:
        return f"<Batch of {len(self)} jobs of {self.task}>"
