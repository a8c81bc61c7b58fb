"""A certificate and its key: both or none, checked before use. With real ones: tests/acceptance/test_server_tls.py."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import BadConfig
from headwater.core.metrics import HttpMetrics
from headwater.core.settings import ServerSettings
from headwater.server.connections import Connections, Limits
from headwater.server.tls import Certificate


def test_without_settings_there_is_none() -> None:
    assert Certificate.of(ServerSettings()) is None


@pytest.mark.parametrize("one", ["tls_cert", "tls_key"])
def test_one_without_the_other_is_refused(one: str) -> None:
    with pytest.raises(BadConfig, match="set together"):
        Certificate.of(ServerSettings(**{one: Path("x.pem")}))


def test_files_that_are_none_are_refused(tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="cannot be read"):
        Certificate(tmp_path / "cert", tmp_path / "key")
    for name in ("cert", "key"):
        (tmp_path / name).write_text("x")
        (tmp_path / name).chmod(0o600)
    with pytest.raises(BadConfig, match="no certificate with its key"):
        Certificate(tmp_path / "cert", tmp_path / "key")


def test_handshakes_count_as_connections() -> None:
    connections = Connections(Limits.of(ServerSettings(max_connections=3, max_connections_per_address=2), descriptors=10), HttpMetrics())
    with connections.handshake("10.0.0.1") as first, connections.handshake("10.0.0.1") as second:
        assert (first, second) == (None, None)
        with connections.handshake("10.0.0.1") as third:
            assert third == "connections-per-address"
        with connections.handshake("10.0.0.2") as other, connections.handshake("10.0.0.3") as more:
            assert (other, more) == (None, "connections")
    with connections.handshake("10.0.0.1") as again:
        assert again is None
