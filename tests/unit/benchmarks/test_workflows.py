"""How the traces of chains and chords are read, whoever ran them."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path

import pytest

from benchmarks.peers.wire import STAMPS, TALLY
from benchmarks.workflows import Chained, Shape, Survived, chain, chord, lose


class Played:
    """A contender, and its stage, that leaves traces without running anything: those of before the
    kill, and those of after."""

    name = "played"

    def __init__(self, traces: Path, *acts: tuple[int, list[tuple[float, float]]]) -> None:
        self.traces = traces
        self._acts = iter(acts)

    @contextmanager
    def stage(self) -> Iterator[Played]:
        yield self

    def submit(self, shape: Shape, jobs: int, seconds: float) -> None:
        self.replace()

    def check(self) -> None: ...

    def replace(self) -> None:
        runs, stamps = next(self._acts)
        (self.traces / f"{runs}.tally").write_bytes(TALLY.pack(runs, 1.0, 2.0))
        with (self.traces / STAMPS).open("a") as file:
            file.writelines(f"{sent} {started}\n" for sent, started in stamps)


def test_a_chain_has_a_rate_and_its_gaps_without_the_one_before_the_first(tmp_path: Path) -> None:
    played = Played(tmp_path, (3, [(10.0, 10.5), (11.0, 11.25), (11.25, 12.0)]))
    assert chain(played, 3) == Chained(1.5, [250.0, 750.0])


def test_a_chord_ends_when_its_results_are_in_one_hand(tmp_path: Path) -> None:
    assert chord(Played(tmp_path, (100, [(10.0, 14.0)])), 100) == 25.0


def test_a_link_that_began_twice_is_one_link_and_two_runs(tmp_path: Path) -> None:
    played = Played(
        tmp_path, (2, [(1.0, 2.0), (2.0, 3.0)]), (3, [(2.0, 9.0), (9.1, 9.2), (9.3, 9.4)])
    )
    survived = lose(played, "chain", 4, 0, watch=5)
    assert survived.ended_after is not None
    assert survived.again == 1


@pytest.mark.parametrize("shape", ["chain", "chord"])
def test_what_does_not_end_while_somebody_watches_has_not_ended(
    tmp_path: Path, shape: Shape
) -> None:
    assert lose(Played(tmp_path, (2, []), (1, [])), shape, 4, 0, watch=0) == Survived(-1, None)
