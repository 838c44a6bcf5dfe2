"""What was measured, as tables for people and as JSON for programs."""

from __future__ import annotations

import os
import platform
from dataclasses import asdict
from pathlib import Path
from typing import Any

import orjson

from tontine.cli.output import console, write_table

from .plan import Plan
from .record import Record, Series
from .targets import Verdict
from .venvs import PINS


def write(record: Record, verdicts: list[Verdict], *, is_quick: bool) -> None:
    """Tables to stdout: every figure, then every target."""
    rows = [
        (figure.part, figure.measure, figure.contender, *_figures(series), series.unit)
        for figure, series in record.series.items()
    ]
    write_table(
        ("PART", "MEASURE", "CONTENDER", "MEDIAN", "SPREAD", "UNIT"),
        rows,
        right=("MEDIAN", "SPREAD"),
    )
    out = console()
    if verdicts:
        out.print()
        write_table(
            ("TARGET", "FOUND", "SPREAD", "WANTED", "VERDICT"),
            map(_row, verdicts),
            right=("FOUND", "SPREAD"),
        )
    for what in record.left_out:
        out.print(f"left out: {what}")
    if is_quick:
        out.print("quick: the counts are too small for the figures to mean anything")


def _figures(series: Series) -> tuple[str, str]:
    return number(series.median), f"{number(min(series.values))}..{number(max(series.values))}"


def number(value: float) -> str:
    """With three digits that count, and none behind the point from a hundred on."""
    if abs(value) >= 100:
        return f"{value:,.0f}"
    return (
        f"{value:.1f}"
        if abs(value) >= 10
        else f"{value:.2f}"
        if abs(value) >= 0.1
        else f"{value:.4f}"
    )


def _row(one: Verdict) -> tuple[str, str, str, str, str]:
    word = {True: "pass", False: "FAIL", None: ""}[one.is_met]
    return (
        one.target,
        number(one.found),
        f"{number(one.spread[0])}..{number(one.spread[1])}",
        one.wanted,
        word,
    )


def document(record: Record, verdicts: list[Verdict], plan: Plan) -> dict[str, Any]:
    figures = [
        {**asdict(figure), "unit": series.unit, "median": series.median, "values": series.values}
        for figure, series in record.series.items()
    ]
    return {
        "place": {"cpus": os.cpu_count(), "python": platform.python_version(), **record.versions},
        "plan": asdict(plan),
        "pins": PINS,
        "figures": figures,
        "targets": [asdict(one) for one in verdicts],
        "left_out": record.left_out,
    }


def save(found: dict[str, Any], directory: Path) -> Path:
    """Write bench.json."""
    directory.mkdir(parents=True, exist_ok=True)
    path = directory / "bench.json"
    path.write_bytes(orjson.dumps(found, option=orjson.OPT_INDENT_2))
    return path
