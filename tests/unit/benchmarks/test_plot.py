from __future__ import annotations

from pathlib import Path

from benchmarks.plot import draw


def test_figures_that_no_panel_is_for_leave_no_plot(tmp_path: Path) -> None:
    figure = {
        "part": "idle",
        "measure": "1 node: CPU per node",
        "unit": "% of a core",
        "contender": "Tontine",
    }
    assert not draw({"figures": [figure]}, tmp_path / "bench.svg")
    assert not (tmp_path / "bench.svg").exists()
