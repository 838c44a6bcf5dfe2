"""A node on a MongoDB that wants TLS, as a user that is a certificate; and what is refused
there."""

from __future__ import annotations

from collections.abc import Iterator
from dataclasses import dataclass
from pathlib import Path
from typing import Any

import pytest
from click.testing import CliRunner
from pymongo import MongoClient
from pymongo.errors import PyMongoError

from tests.support.certificates import Authority
from tests.support.cluster import LIVE, Cluster
from tests.support.mongod import with_users
from tontine import Client
from tontine.cli import tontine
from tontine.store.call import Store

pytestmark = pytest.mark.story


@dataclass(slots=True)
class Scene:
    """A server that wants TLS, and where the certificates are."""

    host: str
    authority: Path
    stranger: Path
    node: Path
    root: Any
    cluster: Cluster

    def uri(self, credentials: str = "", authority: Path | None = None, **options: str) -> str:
        tls = f"tls=true&tlsCAFile={authority or self.authority}"
        return "&".join(
            [
                f"mongodb://{credentials}{self.host}/?replicaSet=rs",
                tls,
                *(f"{n}={v}" for n, v in options.items()),
            ]
        )


@pytest.fixture(scope="module")
def scene(tmp_path_factory: pytest.TempPathFactory) -> Iterator[Scene]:
    directory = tmp_path_factory.mktemp("tls")
    authority, stranger = Authority(directory, "authority"), Authority(directory, "stranger")
    server = authority.sign("server", "/O=Example/OU=servers/CN=db1", address="127.0.0.1")
    node = authority.sign("node", "/O=Example/OU=nodes/CN=node-1")
    wanted = ["--tlsMode", "requireTLS", "--tlsCertificateKeyFile", str(server)]
    wanted += [
        "--tlsCAFile",
        str(authority.certificate),
        "--tlsAllowConnectionsWithoutCertificates",
    ]
    tls: dict[str, Any] = {"tls": True, "tlsCAFile": str(authority.certificate)}
    with (
        with_users(directory, *wanted, **tls) as (uri, host),
        MongoClient[dict[str, Any]](uri, **tls) as root,
    ):
        cluster = Cluster("", Store(root["tontine"]), directory)
        yield Scene(host, authority.certificate, stranger.certificate, node, root, cluster)
        cluster.close()


def run(uri: str, *arguments: str) -> tuple[int, str]:
    ended = CliRunner().invoke(tontine, [*arguments, "--uri", uri])
    return ended.exit_code, f"{ended.output}{ended.exception or ''}"


def test_a_node_runs_over_tls_as_the_user_that_its_certificate_is(scene: Scene) -> None:
    password = scene.uri("root:root@", authSource="admin")
    assert "role tontineNode: created" in run(password, "init", "--roles")[1]
    roles = [{"role": "tontineNode", "db": "tontine"}]
    scene.root["$external"].command("createUser", "CN=node-1,OU=nodes,O=Example", roles=roles)
    certificate = scene.uri(tlsCertificateKeyFile=str(scene.node), authMechanism="MONGODB-X509")
    scene.cluster.uri = certificate
    scene.cluster.begin("ada")
    scene.cluster.wait_for_state("ada", *LIVE)
    with Client(password) as client:
        assert client.wait(client.submit("story.double", {"x": 21}), timeout=60).result == 42
    code, told = run(certificate, "doctor", "--quick")
    assert (code, "this user can be: node, producer" in told) == (0, True), told


def test_what_has_no_tls_no_certificate_or_another_authority_is_refused(scene: Scene) -> None:
    for uri, why, within in [
        (f"mongodb://{scene.host}/?replicaSet=rs", "connection closed", 2000),
        (scene.uri("root:root@", scene.stranger), "certificate verify failed", 2000),
        (scene.uri(authMechanism="MONGODB-X509"), "No verified subject name", 30_000),
    ]:
        client = MongoClient[dict[str, Any]](uri, serverSelectionTimeoutMS=within)
        with client, pytest.raises(PyMongoError, match=why):
            client["tontine"].jobs.find_one()
