"""Rebuilding the store of documents while several servers own parts of it."""

from __future__ import annotations

import socket
from pathlib import Path

import pytest
from tests.unit.client.document_servers import door, named, opened, server

from headwater.core.errors import NotOwner, UnknownPartition
from headwater.documents.follow_requests import RebuildDocuments

pytestmark = pytest.mark.anyio
BOTH = [*named(0, 1), *named(1, 1)]


async def test_every_server_rebuilds_the_partitions_that_it_owns(tmp_path: Path) -> None:
    async with server(tmp_path, 0) as first, server(tmp_path, 1) as second:
        for near in ("", first, second):
            async with door(tmp_path, near) as documents:
                await documents.batch([("put", path, 1) for path in BOTH])
                ends = sum(one.end for one in (await documents.status()).partitions)
                assert (await documents.rebuild(dry_run=True)).records == ends
                found = await documents.rebuild(why="a test")
                assert (found.partitions, found.records, found.elsewhere) == (2, ends, [])
                one = await documents.rebuild(partitions=[1])
                assert (one.partitions, one.elsewhere) == (1, [])
                assert [(await documents[path].get()).body for path in BOTH] == [1, 1]
                assert (await documents.verify()).partitions == 2
                with pytest.raises(UnknownPartition):
                    await documents.rebuild(partitions=[0, 2])


async def test_a_server_names_the_partitions_that_it_leaves(tmp_path: Path) -> None:
    async with server(tmp_path, 1) as owner, opened(tmp_path) as (_, performer):
        found = await performer.care.rebuild(RebuildDocuments())
        assert found.partitions == 1
        assert [(one.partition, one.address) for one in found.elsewhere] == [(1, owner)]


@pytest.mark.parametrize("serves", [True, False])
async def test_a_partition_whose_owner_cannot_be_asked_is_named_once_the_others_are_done(tmp_path: Path, serves: bool) -> None:
    with socket.create_server(("127.0.0.1", 0)) as free:
        away = f"http://127.0.0.1:{free.getsockname()[1]}" if serves else ""
    async with opened(tmp_path, away) as (_, performer), door(tmp_path) as documents:
        await (await performer.opened()).activate(1)
        await documents[BOTH[0]].put(1)
        with pytest.raises(NotOwner, match="but for the partitions 1: hyper-storage/1 is owned by"):
            await documents.rebuild()
