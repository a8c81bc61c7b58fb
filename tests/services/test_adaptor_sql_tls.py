"""The adaptors of PostgreSQL and MariaDB over TLS, against real servers with a certificate of their own."""

from __future__ import annotations

import shutil
import subprocess
from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import ClassVar

import msgspec
import pytest
from mysql_ground import a_mysql_ground
from postgres_ground import a_postgres_ground
from sql_ground import SERVERS, Ground, a_ground, copied, followed, insert, summary, write
from tools.services.mariadb import MariaDB
from tools.services.postgres import Postgres
from tools.services.private import PrivateServers
from tools.services.running import KINDS
from tools.services.server import Command, Node

from headwater.core.errors import BadConfig
from headwater.wire.part import load

_NEW = ("req", "-newkey", "ec", "-pkeyopt", "ec_paramgen_curve:prime256v1", "-nodes")


@pytest.fixture
def certificates(tmp_path: Path) -> Path:
    """Of an authority, of the server that it vouches for, and of a stranger."""
    if shutil.which("openssl") is None:
        pytest.skip("there is no openssl to make certificates with")

    def openssl(*words: str) -> None:
        subprocess.run(["openssl", *words], cwd=tmp_path, check=True, capture_output=True)

    for name in ("authority", "stranger"):
        openssl(*_NEW, "-x509", "-days", "2", "-subj", f"/CN={name}", "-keyout", f"{name}.key", "-out", f"{name}.pem")
    openssl(*_NEW, "-subj", "/CN=server", "-keyout", "server.key", "-out", "server.csr")
    (tmp_path / "names").write_text("subjectAltName=IP:127.0.0.1\n")
    signed = ("-CA", "authority.pem", "-CAkey", "authority.key", "-CAcreateserial", "-days", "2", "-extfile", "names")
    openssl("x509", "-req", "-in", "server.csr", *signed, "-out", "server.pem")
    (tmp_path / "server.key").chmod(0o600)  # or PostgreSQL refuses it
    return tmp_path


class SecurePostgres(Postgres):
    certificates: ClassVar[Path]

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        given = super().command(node, nodes, folder)
        more = [f"ssl_cert_file={self.certificates / 'server.pem'}", f"ssl_key_file={self.certificates / 'server.key'}", "ssl=on"]
        return Command([*given.words, *(word for setting in more for word in ("-c", setting))], given.env)


class SecureMariaDB(MariaDB):
    certificates: ClassVar[Path]

    def command(self, node: Node, nodes: Sequence[Node], folder: Path) -> Command:
        given = super().command(node, nodes, folder)
        more = [f"--ssl-cert={self.certificates / 'server.pem'}", f"--ssl-key={self.certificates / 'server.key'}"]
        return Command([*given.words, *more], given.env)


@pytest.mark.parametrize("kind", ["postgres", "mariadb"])
def test_copies_changes_and_writes_go_over_tls_to_a_server_that_is_verified(
    kind: str, certificates: Path, private_servers: PrivateServers, monkeypatch: pytest.MonkeyPatch
) -> None:
    secure = SecurePostgres if kind == "postgres" else SecureMariaDB
    monkeypatch.setattr(secure, "certificates", certificates, raising=False)
    monkeypatch.setitem(KINDS, kind, secure)
    running = private_servers.up(kind)
    with a_postgres_ground(running.postgres) if kind == "postgres" else a_mysql_ground(running.mariadb) as ground:
        stranger, nowhere = ground.trusting(certificates / "stranger.pem"), ground.trusting(certificates / "none.pem")
        ground.uri = ground.trusting(certificates / "authority.pem")
        ground.run("CREATE TABLE t (id int PRIMARY KEY, v text)", "INSERT INTO t VALUES (1, 'a')")
        source = ground.source(tail=True)
        cursor = source.plan(ground.chosen("t"), 1).cursor
        assert copied(ground.source(), ground.chosen("t")) == [{"id": 1, "v": "a"}]
        write(ground.sink(), [insert(0, id=2, v="b")])
        assert summary(followed(source, cursor, ground.chosen("t"), 1)[0]) == [("INSERT", {"id": 2, "v": "b"})]
        sink = ground.sink()
        with load(sink.sink_class)(sink).session() as session:
            assert session.ask(ground.encrypted)
        for uri, says in ((stranger, r"(?i)certificate"), (nowhere, r"none\.pem")):
            with pytest.raises(BadConfig, match=says) as refused:
                msgspec.structs.replace(source, uri=uri).check("source", ground.chosen("t"))
            assert "authority" in refused.value.hint


@pytest.fixture(params=SERVERS)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with a_ground(request) as made:
        yield made


def test_a_server_without_tls_is_not_waited_for(ground: Ground, certificates: Path) -> None:
    with pytest.raises(BadConfig, match=r"SSL (is|was) required"):
        msgspec.structs.replace(ground.source(), uri=ground.trusting(certificates / "authority.pem")).check("source", ground.chosen())
