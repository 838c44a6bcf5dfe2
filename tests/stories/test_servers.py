"""Servers that cannot carry a queue, or users that may not: one clear line each."""

from __future__ import annotations

import subprocess
import sys
from pathlib import Path

import pytest
from pymongo import MongoClient

from tests.support.cluster import ROOT
from tests.support.mongod import mongod, with_users
from tontine.store import schema
from tontine.store.call import Store

pytestmark = pytest.mark.story


def run_node(uri: str) -> subprocess.CompletedProcess[str]:
    command = [sys.executable, "-m", "tontine", "node", "tests.support.tasks", "--uri", uri]
    return subprocess.run(
        command, capture_output=True, text=True, cwd=ROOT, timeout=60, check=False
    )


def assert_one_line(ended: subprocess.CompletedProcess[str], *words: str) -> None:
    assert ended.returncode in (1, 2), ended.stderr
    lines = ended.stderr.strip().splitlines()
    assert len(lines) == 1, ended.stderr
    for word in words:
        assert word in lines[0]


def test_a_server_that_is_no_replica_set_is_refused(tmp_path: Path) -> None:
    with mongod(tmp_path) as port:
        assert_one_line(
            run_node(f"mongodb://127.0.0.1:{port}/?directConnection=true"),
            "no replica set",
            "rs.initiate",
        )


def test_missing_rights_are_named(tmp_path: Path) -> None:
    with with_users(tmp_path) as (root, host), MongoClient[dict[str, object]](root) as client:
        client["tontine"].command("createUser", "reader", pwd="pw", roles=["read"])
        client["tontine"].command("createUser", "writer", pwd="pw", roles=["readWrite"])
        reader = run_node(f"mongodb://reader:pw@{host}/tontine?replicaSet=rs")
        assert_one_line(reader, "may not create", "tontine init")
        wrong = run_node(f"mongodb://reader:wrong@{host}/tontine?replicaSet=rs")
        assert_one_line(wrong, "the password is wrong")
        nobody = run_node(f"mongodb://{host}/tontine?replicaSet=rs")
        assert_one_line(nobody, "requires authentication")
        Store(client["tontine"]).run(schema.init())
        assert_one_line(
            run_node(f"mongodb://reader:pw@{host}/tontine?replicaSet=rs"), "may not", "it needs"
        )
