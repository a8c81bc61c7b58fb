from __future__ import annotations

import asyncio
import socket
import sys

import pytest

from headwater.core.errors import BadConfig, Conflict
from headwater.server.listening import listen, url_of


@pytest.mark.parametrize("host", ["127.0.0.1", "localhost", "127.0.0.2"])
def test_this_machine_needs_no_token(host: str) -> None:
    with listen(host, 0, tokens=False) as sock:
        assert sock.getsockname()[0].startswith("127.") or sock.getsockname()[0] == "::1"


@pytest.mark.parametrize("host", ["0.0.0.0", "::", "192.0.2.1"])
def test_beyond_this_machine_is_refused_without_tokens(host: str) -> None:
    with pytest.raises(BadConfig, match="--token-file") as caught:
        listen(host, 0, tokens=False)
    assert caught.value.exit_code == 2


def test_beyond_this_machine_is_fine_with_tokens() -> None:
    with listen("0.0.0.0", 0, tokens=True) as sock:
        assert url_of(sock) == f"http://127.0.0.1:{sock.getsockname()[1]}"


def test_a_taken_port_is_said_with_another() -> None:
    with listen("127.0.0.1", 0, tokens=False) as first:
        port = first.getsockname()[1]
        with pytest.raises(Conflict, match=rf"Port {port} on 127.0.0.1 is taken. Use another: make run PORT={port + 1}"):
            listen("127.0.0.1", port, tokens=False)


@pytest.mark.parametrize("host", ["no.such.host.invalid", "192.0.2.1", "a" * 300])
def test_an_address_of_another_machine_is_refused(host: str) -> None:
    with pytest.raises(BadConfig):
        listen(host, 0, tokens=True)


@pytest.mark.skipif(sys.platform != "linux" or not socket.has_dualstack_ipv6(), reason="no IPv6 here")
def test_an_ipv6_address_is_written_in_brackets() -> None:
    with listen("::1", 0, tokens=False) as sock:
        assert url_of(sock) == f"http://[::1]:{sock.getsockname()[1]}"


@pytest.mark.anyio
async def test_small_answers_leave_at_once() -> None:
    """Nagle's algorithm would hold the second event of a stream back until the first one is acknowledged: for 40 ms."""
    accepted: asyncio.Future[asyncio.StreamWriter] = asyncio.get_running_loop().create_future()
    with listen("127.0.0.1", 0, tokens=False) as sock:
        async with await asyncio.start_server(lambda _, writer: accepted.set_result(writer), sock=sock):
            _, client = await asyncio.open_connection(*sock.getsockname())
            writer = await accepted
            assert writer.get_extra_info("socket").getsockopt(socket.IPPROTO_TCP, socket.TCP_NODELAY) == 1
            writer.close()
            client.close()
