"""Documents whose log is Kafka's: what counts by the rule of claims, whoever has died, stood still or lost its broker's answer."""

from __future__ import annotations

import asyncio
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from pathlib import Path

import msgspec
import pytest

from headwater.cluster.kafka import KafkaOwnership
from headwater.core.clock import SystemClock
from headwater.core.errors import NotOwner
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import parse_path
from headwater.documents.replay import replay
from headwater.documents.settings import DocumentSettings
from headwater.documents.sqlite import SqliteDocumentStores
from headwater.documents.verify import verify_documents
from headwater.documents.write import Draft, WrittenDocument
from headwater.log import Record
from headwater.log.kafka.log import KafkaLog
from headwater.testing.log_ground import fresh

pytestmark = [pytest.mark.service("kafka"), pytest.mark.anyio]
SETTINGS = DocumentSettings(partitions=1)


@asynccontextmanager
async def documents_on(kafka: str, folder: Path, topic: str, address: str = "") -> AsyncIterator[OpenDocuments]:
    loop = asyncio.get_running_loop()
    with KafkaLog(kafka) as log, SqliteDocumentStores(folder) as stores:
        ownership = KafkaOwnership(
            log,
            group=f"owners-{topic}",
            address=address,
            session=6.0,
            passing=lambda owned: asyncio.run_coroutine_threadsafe(documents.release(owned.partition), loop).result(60) and None,
        )
        documents = OpenDocuments(log, stores, lambda: ownership, settings=SETTINGS, clock=SystemClock(), topic=topic)
        try:
            yield documents
        finally:
            await documents.aclose()
            await asyncio.to_thread(ownership.close)


async def put(documents: OpenDocuments, path: str, body: object) -> WrittenDocument:
    return await documents.write(Draft(path=parse_path(path), verb="put", body=msgspec.json.encode(body)))


async def body_of(documents: OpenDocuments, path: str) -> object:
    _, row = await documents.read(parse_path(path))
    return None if row is None else msgspec.json.decode(row.body)


def revisions(documents: OpenDocuments, uri: str) -> list[int]:
    end = documents.log.bounds(documents.topic_name, 0).end
    found = [one.record for records, _ in replay(documents.log, documents.topic_name, 0, 0, end) for one in records]
    return [change.revision for record in found if record.uri == uri for change in record.changes]


async def test_documents_are_written_read_and_found_again(kafka: str, tmp_path: Path) -> None:
    topic = fresh("documents")
    async with documents_on(kafka, tmp_path, topic) as documents:
        written = await asyncio.gather(*(put(documents, "a", number) for number in range(50)))
        assert [one.revision for one in written] == list(range(1, 51))
        assert await body_of(documents, "a") == 49
        record = documents.log.read(topic, 0, written[0].offset, limit=1)[0]
        headers = {name: value for name, value in record.headers if not name.startswith("headwater")}
        assert headers == {"uri": b"a", "method": b"feed:put", "revision": b"1"}
    for file in tmp_path.iterdir():
        file.unlink()
    async with documents_on(kafka, tmp_path, topic) as documents:
        assert await body_of(documents, "a") == 49  # of the log alone
        assert (await put(documents, "a", "new")).revision == 51
        assert revisions(documents, "a") == list(range(1, 52))
        assert documents.topic is not None
        for found in await asyncio.to_thread(verify_documents, documents.log, documents.stores, documents.topic):
            found.check()


async def test_what_a_former_owner_and_strangers_write_does_not_count(kafka: str, tmp_path: Path) -> None:
    topic = fresh("documents")
    async with documents_on(kafka, tmp_path, topic, "http://one") as one:
        await put(one, "a", 1)
        stale = one.opened(0)
        assert stale is not None
        async with documents_on(kafka, tmp_path, topic, "http://two") as two:
            assert await body_of(two, "a") == 1
            with pytest.raises(NotOwner) as refused:
                await put(two, "a", 2)
            assert refused.value.address == "http://one"
            await two.activate(0, take_over=True)
            one.log.append(topic, 0, [Record(b"a", b"{}")], part="documents")  # a stranger's: it is no record of ours
            assert (await put(two, "a", 2)).revision == 2
            outcomes = await asyncio.gather(*(put(one, "a", number) for number in (8, 9)), return_exceptions=True)
            assert all(isinstance(outcome, NotOwner) for outcome in outcomes)
            assert (await put(two, "a", 3)).revision == 3
            assert await body_of(one, "a") == await body_of(two, "a") == 3
            assert revisions(two, "a") == [1, 2, 3]
