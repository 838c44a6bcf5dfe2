"""bench.json as a picture: `python -m benchmarks.plot RESULTS/bench.json` writes bench.svg beside
it."""

from __future__ import annotations

import json
import re
import sys
from pathlib import Path
from typing import Any

Figures = list[dict[str, Any]]
_OURS, _LIMIT, _THEIRS = "#1b7f5c", "#9aa0a6", "#4c78a8"


def draw(found: dict[str, Any], path: Path) -> bool:
    """One panel for each thing that was measured; whether there was any. Needs the extra
    `bench`."""
    panels = _panels(found["figures"])
    if not panels:
        return False
    import matplotlib as mpl

    mpl.use("svg")
    mpl.rcParams["svg.hashsalt"] = "tontine"  # the same figures give the same file
    from matplotlib import pyplot

    heights = [
        2.4 if title.startswith("growth") else 0.7 + 0.26 * len(some) for title, _, some in panels
    ]
    size, ratios = (8, sum(heights) + 0.3), {"height_ratios": heights}
    figure, places = pyplot.subplots(
        len(panels), 1, figsize=size, squeeze=False, gridspec_kw=ratios
    )
    for (title, unit, figures), axes in zip(panels, places[:, 0], strict=True):
        if title.startswith("growth"):
            _lines(axes, figures)
        else:
            _bars(axes, figures)
        axes.set_title(title, loc="left", fontsize=10)
        axes.set_xlabel(unit, fontsize=8)
        axes.tick_params(labelsize=8)
        axes.spines[["top", "right"]].set_visible(False)
    figure.text(
        0.01,
        0.002,
        f"{found['place']['cpus']} CPUs; median, least and most of all rounds",
        fontsize=7,
    )
    figure.tight_layout(rect=(0, 0.01, 1, 1))
    figure.savefig(path, format="svg", metadata={"Date": None, "Creator": None})
    pyplot.close(figure)
    return True


def _panels(figures: Figures) -> list[tuple[str, str, Figures]]:
    """Title, unit and figures of each panel; nothing for what was not measured."""
    groups: dict[tuple[str, str], Figures] = {}
    for one in figures:
        if one["part"] == "drain" and one["unit"] == "jobs/s":
            groups.setdefault((f"drain, {one['measure']}", "jobs/s"), []).append(one)
        elif one["part"] == "submit":
            groups.setdefault((f"submit, {one['measure']}", "jobs/s"), []).append(one)
        elif one["part"] == "latency" and one["measure"].startswith("50 %"):
            groups.setdefault(("latency", "ms at 50 % load"), []).append(one)
        elif one["part"] == "latency" and one["measure"].endswith(("p50", "p99")):
            groups.setdefault((f"latency, {one['measure']}", "ms"), []).append(one)
        elif one["part"] == "growth" and one["measure"].startswith("keys per job by look-ups"):
            groups.setdefault(("growth: keys examined to find a job", "nodes"), []).append(one)
        elif one["part"] in ("skew", "recovery", "memory"):
            groups.setdefault((one["part"], one["unit"]), []).append(one)
    return [(title, unit, some) for (title, unit), some in groups.items()]


def _bars(axes: Any, figures: Figures) -> None:
    several = len({one["measure"] for one in figures}) > 1
    names = [one["measure"] if several else one["contender"] for one in figures]
    middles = [one["median"] for one in figures]
    spread = [
        [one["median"] - min(one["values"]) for one in figures],
        [max(one["values"]) - one["median"] for one in figures],
    ]
    colours = [_colour(one["contender"]) for one in figures]
    axes.barh(
        names,
        middles,
        xerr=spread,
        color=colours,
        height=0.6,
        error_kw={"elinewidth": 1, "capsize": 2},
    )
    axes.invert_yaxis()


def _colour(contender: str) -> str:
    return {"Tontine": _OURS, "bare loop": _LIMIT, "bare insert_many": _LIMIT}.get(
        contender, _THEIRS
    )


def _lines(axes: Any, figures: Figures) -> None:
    lines: dict[str, list[tuple[int, float]]] = {}
    for one in figures:
        place = re.search(r"(\d+) nodes?, backlog ([\d,]+)", one["measure"])
        assert place is not None
        lines.setdefault(f"backlog {place[2]}", []).append((int(place[1]), one["median"]))
    for name, points in lines.items():
        axes.plot(*zip(*sorted(points), strict=True), marker="o", markersize=3, label=name)
    axes.set_ylim(bottom=0)
    axes.legend(fontsize=7, frameon=False)


if __name__ == "__main__":
    source = Path(sys.argv[1])
    draw(json.loads(source.read_text()), source.with_name("bench.svg"))
