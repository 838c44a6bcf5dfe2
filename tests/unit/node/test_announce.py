"""What a node says when it is ready: enough to see a mistake at a glance, and no secret."""

from __future__ import annotations

import logging
from dataclasses import replace
from typing import Any

import pytest

from tontine.config import StoreConfig, Timing
from tontine_node.config import ContextConfig, NodeConfig
from tontine_node.telling.announce import announce, lines

STORE = StoreConfig("mongodb://u:secret@h/shop?replicaSet=rs0", "shop")
CONFIG = NodeConfig(
    ("shop.tasks",), "ada", processes=2, slots=1, timing=Timing.of_lease(8), store=STORE
)
MODULES = [
    {"name": "shop", "version": "1.2.0", "authors": ["x"], "tasks": ["shop.mail", "shop.resize"]}
]


def test_it_says_where_it_works_with_how_much_room_and_what_it_runs() -> None:
    assert list(lines(CONFIG, MODULES)) == [
        "ada is ready: database shop of mongodb://u:***@h/shop?replicaSet=rs0",
        "  2 processes with 1 slot each, a lease of 8 s, 30 s of grace",
        "  shop 1.2.0: mail, resize",
    ]


def test_contexts_are_told_one_by_one() -> None:
    mail = ContextConfig("mail", ("mail.tasks",), slots=50)
    said = list(lines(replace(CONFIG, contexts=(*CONFIG.contexts, mail)), MODULES))
    assert said[1:] == [
        "  a lease of 8 s, 30 s of grace",
        "  context default: 2 processes with 1 slot each",
        "  context mail: 1 process with 50 slots",
        "  shop 1.2.0: mail, resize",
    ]


def test_many_tasks_and_modules_are_cut_short() -> None:
    many: list[dict[str, Any]] = [
        {"name": "m", "version": "", "tasks": [f"m.t{place}" for place in range(20)]}
    ] * 20
    said = list(lines(CONFIG, many))
    assert said[2] == "  m: t0, t1, t2, t3, t4, t5, t6, t7 and 12 more"
    assert said[-1] == "  and 8 more modules"
    nine = [{"name": "m", "tasks": [f"m.t{place}" for place in range(9)]}]
    assert list(lines(CONFIG, nine))[2].endswith(": t0, t1, t2, t3, t4, t5, t6, t7, t8")
    assert (
        "1 process with 3 slots, a lease"
        in list(lines(replace(CONFIG, processes=1, slots=3, contexts=()), nine))[1]
    )
    assert (
        list(lines(CONFIG, [{"name": "empty", "version": "1", "tasks": []}]))[2]
        == "  empty 1: no tasks"
    )


@pytest.mark.parametrize("as_json", [False, True])
def test_a_module_without_tasks_is_warned_of(
    caplog: pytest.LogCaptureFixture, as_json: bool
) -> None:
    announce(
        "ada-1", CONFIG, [*MODULES, {"name": "empty", "version": "1", "tasks": []}], as_json=as_json
    )
    (warning,) = [record for record in caplog.records if record.levelno == logging.WARNING]
    assert vars(warning)["sentence"].startswith(
        "the module empty has no tasks: this node runs no job of it"
    )


def test_programs_get_one_record(caplog: pytest.LogCaptureFixture) -> None:
    with caplog.at_level(logging.INFO):
        announce("ada-1", CONFIG, MODULES, as_json=True)
    (record,) = caplog.records
    facts = vars(record)
    assert (facts["event"], facts["node"], facts["database"], facts["processes"]) == (
        "ready",
        "ada-1",
        "shop",
        2,
    )
    assert (facts["uri"], facts["lease"]) == ("mongodb://u:***@h/shop?replicaSet=rs0", 8.0)
    assert facts["modules"] == [
        {"name": "shop", "version": "1.2.0", "tasks": ["shop.mail", "shop.resize"]}
    ]
