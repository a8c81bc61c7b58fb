"""The documents of two workers in one process, as a server opens, shares and closes them."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from headwater.client.document_workers import home, shares
from headwater.client.documents_performer import DocumentsPerformer
from headwater.client.local import LocalLog
from headwater.cluster import forward
from headwater.core.document_errors import BadPath
from headwater.core.settings import Settings
from headwater.documents.index_operations import INDEX_LIST, INDEX_POST
from headwater.documents.path import parse_path, partition_of
from headwater.documents.requests import BatchLine, WriteBatch
from headwater.documents.write import Draft
from headwater.log.embedded.log import EmbeddedLog
from headwater.wire.part import WorkerPlace

pytestmark = pytest.mark.anyio


@pytest.fixture(autouse=True)
def impatient(monkeypatch: pytest.MonkeyPatch) -> None:
    """The workers of these tests end one after the other: the first does not wait for the calls of the second."""
    monkeypatch.setattr(forward, "_LEAVING", 0.0)


@asynccontextmanager
async def worker(folder: Path, slot: int, size: int = 2) -> AsyncIterator[DocumentsPerformer]:
    log = LocalLog(lambda: EmbeddedLog(folder))
    performer = DocumentsPerformer(log=log, settings=Settings(data=folder))
    (folder / "workers").mkdir(exist_ok=True)
    shares(performer, WorkerPlace(slot, size, folder / "workers"))
    await performer.serve()
    try:
        yield performer
    finally:
        await performer.aclose()
        await log.aclose()


def names(partition: int, count: int) -> list[str]:
    return [name for name in map("d{}".format, range(100)) if partition_of(name, 2) == partition][:count]


async def test_the_home_of_a_collection_does_what_is_about_its_indexes(tmp_path: Path) -> None:
    async with worker(tmp_path, 0) as first:
        assert await home(first, INDEX_LIST, {"path": "a~"}) is None, "nothing was ever written"
        for name in ("a", "b/c", "d"):
            expected = partition_of(f"{name}~", 2)
            assert await home(first, INDEX_POST, {"path": f"{name}~"}) == expected
            assert await home(first, INDEX_LIST, {"path": name}) == expected, "the ~ may be left out"
        with pytest.raises(BadPath):
            await home(first, INDEX_POST, {"path": "a b"})


async def test_a_batch_at_one_worker_keeps_the_order_of_lines_of_all_partitions(tmp_path: Path) -> None:
    async with worker(tmp_path, 0) as first, worker(tmp_path, 1):
        paths = [*names(0, 2), *names(1, 2)]
        lines = tuple(BatchLine(method="put", path=path, body=msgspec.Raw(b"%d" % count)) for count in range(25) for path in paths)
        answers = [msgspec.json.decode(line) for line in (await first.batch(WriteBatch(lines=lines))).splitlines()]
        assert [answer["revision"] for answer in answers] == [count for count in range(1, 26) for _ in paths]
        documents = await first.opened()
        assert sorted(documents.owned()) == [0]


async def test_a_worker_that_ends_has_its_partitions_taken_by_its_successor_alone(tmp_path: Path) -> None:
    async with worker(tmp_path, 0) as first:
        (path,) = names(1, 1)
        async with worker(tmp_path, 1):
            assert (await (await first.opened()).write(_put(path))).revision == 1
        waits = asyncio.ensure_future((await first.opened()).write(_put(path)))
        await asyncio.sleep(0)
        async with worker(tmp_path, 1) as second:
            assert (await waits).revision == 2
            assert (await second.opened()).owned() == [1]
        assert (await first.opened()).owned() == []


def _put(path: str) -> Draft:
    return Draft(path=parse_path(path), verb="put", body=b"1")
