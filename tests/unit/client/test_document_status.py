"""The states of the partitions, as their owners have them."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.unit.client.document_servers import door, named, opened, server

from headwater.documents.follow_requests import ListDocumentPartitions

pytestmark = pytest.mark.anyio


async def test_every_partition_is_shown_as_its_owner_sees_it(tmp_path: Path) -> None:
    async with server(tmp_path, 0) as first, server(tmp_path, 1) as second:
        for near in ("", first, second):
            async with door(tmp_path, near) as documents:
                await documents[named(0, 1)[0]].put(1)
                found = (await documents.status()).partitions
                assert [(one.state, one.address) for one in found] == [("Active", first), ("Active", second)]
                assert [one.lag for one in found] == [0, 0]
                assert all(one.address in one.owner for one in found)
                assert not any(one.error for one in found)


@pytest.mark.parametrize("serves", [True, False])
async def test_a_partition_whose_owner_cannot_be_asked_is_unknown(tmp_path: Path, serves: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = f"http://127.0.0.1:{free.getsockname()[1]}" if serves else ""
    async with server(tmp_path, 0) as first, opened(tmp_path, away) as (_, performer):
        await (await performer.opened()).activate(1)
        async with door(tmp_path, first) as documents:
            active, unknown = (await documents.status()).partitions
            assert (active.state, active.address) == ("Active", first)
            assert (unknown.state, unknown.address) == ("Unknown", away)
            assert (away in unknown.error) if serves else (unknown.error == "Its owner serves at no address.")
        here = await performer.care.status(ListDocumentPartitions())
        assert [one.state for one in here.partitions] == ["Passive", "Active"], "one server alone knows its own side"


async def test_a_partition_without_an_owner_is_passive(tmp_path: Path) -> None:
    async with server(tmp_path, 0) as first, door(tmp_path, first) as documents:
        passive = (await documents.status()).partitions[1]
        assert (passive.state, passive.owner, passive.address, passive.error) == ("Passive", "", "", "")
