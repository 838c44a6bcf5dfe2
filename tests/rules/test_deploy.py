"""The unit, the image and the manifests of docs/deploy.md, which no test can run: what they
promise."""

from __future__ import annotations

import configparser
import os
import re
import shlex
import shutil
import subprocess
import sys
from pathlib import Path
from typing import Any

import click
import pytest
import yaml

from tontine.config import seconds
from tontine_node.command import node
from tontine_node.telling.live_file import TOUCH_EVERY

ROOT = Path(__file__).resolve().parents[2]
PAGE = (ROOT / "docs" / "deploy.md").read_text()
LAST_WRITES = 15.0
"""Seconds beyond its grace that a node may need to give back what it ended."""


def block(fence: str) -> str:
    (found,) = re.findall(rf"^```{fence}\n(.*?)^```", PAGE, re.DOTALL | re.MULTILINE)
    assert isinstance(found, str)
    return found


def told(arguments: list[str]) -> dict[str, Any]:
    """What `tontine node` makes of these arguments; an option that does not exist is an error."""
    given = dict(node.make_context("node", arguments).params)
    given["live_file"] = str(given["live_file"])
    return given


@pytest.fixture(scope="module")
def unit() -> configparser.ConfigParser:
    parser = configparser.ConfigParser(interpolation=None)
    parser.optionxform = str  # type: ignore[assignment,method-assign]
    parser.read_string(block(r"ini /etc/systemd/system/tontine@\.service"))
    return parser


@pytest.fixture(scope="module")
def manifests() -> dict[str, Any]:
    return {one["kind"]: one for one in yaml.safe_load_all(block("yaml"))}


@pytest.fixture(scope="module")
def pod(manifests: dict[str, Any]) -> dict[str, Any]:
    spec: dict[str, Any] = manifests["Deployment"]["spec"]["template"]["spec"]
    return spec


def test_the_unit_starts_a_node_and_leaves_it_time_to_stop(unit: configparser.ConfigParser) -> None:
    service = unit["Service"]
    _, command, *arguments = shlex.split(service["ExecStart"])
    assert command == "node"
    given = told(arguments)
    assert float(service["TimeoutStopSec"]) >= seconds(given["grace"]) + LAST_WRITES
    assert service["KillMode"] == "mixed"
    assert given["live_file"].startswith(f"/run/{service['RuntimeDirectory']}/")


def test_systemd_has_nothing_against_the_unit(tmp_path: Path) -> None:
    if shutil.which("systemd-analyze") is None:
        pytest.skip("no systemd here")
    text = block(r"ini /etc/systemd/system/tontine@\.service")
    # What a unit names must be there; the rest of the unit is verified as it stands.
    text = re.sub(r"^ExecStart=\S+", f"ExecStart={sys.executable}", text, flags=re.MULTILINE)
    (tmp_path / "tontine@.service").write_text(text)
    verified = subprocess.run(
        [
            "systemd-analyze",
            "verify",
            "--man=no",
            "--recursive-errors=no",
            str(tmp_path / "tontine@1.service"),
        ],
        capture_output=True,
        text=True,
        check=False,
    )
    ours = [line for line in verified.stderr.splitlines() if "tontine@" in line]
    assert (verified.returncode, ours) == (0, []), verified.stderr


def test_the_pod_starts_a_node_and_leaves_it_time_to_stop(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    command, *arguments = container["args"]
    assert command == "node"
    assert pod["terminationGracePeriodSeconds"] >= seconds(told(arguments)["grace"]) + LAST_WRITES


def test_the_probes_look_at_the_live_file_where_the_node_can_write_it(pod: dict[str, Any]) -> None:
    (container,) = pod["containers"]
    live = Path(told(container["args"][1:])["live_file"])
    mounted = {one["mountPath"]: one["name"] for one in container["volumeMounts"]}
    assert {mounted[str(live.parent)], mounted["/tmp"]} == {one["name"] for one in pod["volumes"]}
    for probe in ("readinessProbe", "livenessProbe"):
        shell, flag, script = container[probe]["exec"]["command"]
        assert (shell, flag) == ("sh", "-c")
        assert f"find {live} -mmin -1" in script


def test_the_probe_tells_a_young_live_file_from_an_old_one_and_from_none(
    pod: dict[str, Any], tmp_path: Path
) -> None:
    live = tmp_path / "live"
    *shell, script = pod["containers"][0]["readinessProbe"]["exec"]["command"]
    command = [*shell, script.replace("/run/tontine/live", str(live))]

    def code() -> int:
        return subprocess.run(command, capture_output=True, check=False).returncode

    assert code() == 1
    live.touch()
    assert code() == 0
    os.utime(live, (0, 0))
    assert code() == 1
    assert TOUCH_EVERY * 6 <= 60, "a node that is well is never late for it"


def test_the_pod_runs_as_the_user_of_the_image_and_finds_what_it_refers_to(
    pod: dict[str, Any], manifests: dict[str, Any]
) -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    user = re.findall(r"^USER (\d+):(\d+)$", dockerfile, re.MULTILINE)
    assert user == [
        (str(pod["securityContext"]["runAsUser"]), str(pod["securityContext"]["runAsGroup"]))
    ]
    assert f"--uid {user[0][0]} " in dockerfile
    (container,) = pod["containers"]
    assert [one["secretRef"]["name"] for one in container["envFrom"]] == [
        manifests["Secret"]["metadata"]["name"]
    ]
    labels = manifests["Deployment"]["spec"]["template"]["metadata"]["labels"]
    assert manifests["Deployment"]["spec"]["selector"]["matchLabels"] == labels
    assert manifests["PodDisruptionBudget"]["spec"]["selector"]["matchLabels"] == labels


def test_an_image_built_on_ours_can_install_packages() -> None:
    dockerfile = (ROOT / "Dockerfile").read_text()
    assert "pip uninstall" not in dockerfile
    assert re.search(
        r"^COPY --from=build --chown=tontine:tontine /opt/tontine /opt/tontine$",
        dockerfile,
        re.MULTILINE,
    )
    assert "PATH=/opt/tontine/bin:$PATH" in dockerfile, "`pip` is the one of that environment"
    assert "USER" not in block("dockerfile")


def test_the_commands_of_the_page_exist() -> None:
    from tontine.cli import tontine

    words = re.findall(r"`tontine ([a-z]+)((?: [^`\n]*)?)`", PAGE)
    for name, rest in words:
        command = tontine.get_command(click.Context(tontine), name)
        assert command is not None, name
        known = {option for parameter in command.params for option in parameter.opts}
        if not isinstance(command, click.Group):
            assert set(re.findall(r"--[a-z-]+", rest)) <= known, rest
