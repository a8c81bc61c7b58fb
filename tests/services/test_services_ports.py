from __future__ import annotations

import random
import socket

import pytest
from tools.services import ports

pytestmark = pytest.mark.service()  # no server is needed, but these belong to them


@pytest.mark.parametrize("host", ["127.0.0.1", "0.0.0.0"])
def test_a_port_with_a_listener_is_not_free(host: str) -> None:
    with socket.create_server((host, 0)) as server:
        taken = server.getsockname()[1]
        assert not ports.free(taken)
    assert ports.free(taken)


def test_free_ones_are_kept_and_taken_ones_replaced() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server, socket.create_server(("127.0.0.1", 0)) as other:
        taken, free = server.getsockname()[1], other.getsockname()[1]
        other.close()
        chosen = ports.choose([free, taken, taken, free], chance=random.Random(1))
    assert chosen[0] == free
    assert len(set(chosen)) == 4
    assert all(port in ports.OTHERS for port in chosen[1:])


def test_ports_to_avoid_are_avoided() -> None:
    with socket.create_server(("127.0.0.1", 0)) as server:
        port = server.getsockname()[1]
    assert ports.choose([port], chance=random.Random(1), avoid=frozenset([port])) != [port]
