from __future__ import annotations

import asyncio
import socket
import stat
from pathlib import Path

import pytest

from headwater.core.unix_socket import connect_unix, listen_unix, remove_unix

pytestmark = pytest.mark.anyio


@pytest.mark.parametrize("length", [10, 250])
async def test_it_is_reached_however_long_its_path_is(tmp_path: Path, length: int) -> None:
    data = tmp_path / ("d" * length)
    data.mkdir()
    with_socket = listen_unix(data, "server.sock")
    assert with_socket is not None
    with with_socket, await connect_unix(data / "server.sock") as client:
        taken, _ = await asyncio.get_running_loop().sock_accept(with_socket)
        taken.close()
        assert client.getsockname() == ""
    assert stat.S_IMODE((data / "server.sock").stat().st_mode) == 0o600


async def test_one_that_was_left_is_replaced_and_a_file_is_not(tmp_path: Path) -> None:
    first = listen_unix(tmp_path, "server.sock")
    assert first is not None
    first.close()
    with pytest.raises(ConnectionRefusedError):
        await connect_unix(tmp_path / "server.sock")
    second = listen_unix(tmp_path, "server.sock")
    assert second is not None
    (await connect_unix(tmp_path / "server.sock")).close()
    second.close()
    remove_unix(tmp_path, "server.sock")
    remove_unix(tmp_path, "server.sock")
    assert not (tmp_path / "server.sock").exists()
    (tmp_path / "server.sock").write_text("somebody's")
    assert listen_unix(tmp_path, "server.sock") is None
    remove_unix(tmp_path, "server.sock")
    assert (tmp_path / "server.sock").read_text() == "somebody's"


async def test_a_full_queue_is_waited_for(tmp_path: Path) -> None:
    with socket.socket(socket.AF_UNIX) as server:
        server.bind(str(tmp_path / "s"))
        server.listen(0)
        server.setblocking(False)
        waiting = [asyncio.ensure_future(connect_unix(tmp_path / "s")) for _ in range(5)]
        for _ in waiting:
            taken, _address = await asyncio.get_running_loop().sock_accept(server)
            taken.close()
        for client in await asyncio.gather(*waiting):
            client.close()
