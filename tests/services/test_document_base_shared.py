"""Base copies in the keyspace of the store: a log that forgets, and owners on several machines in turn."""

from __future__ import annotations

import asyncio
import uuid
from collections.abc import AsyncIterator
from contextlib import asynccontextmanager
from functools import partial
from pathlib import Path

import msgspec
import pytest

from headwater.cluster.kafka import KafkaOwnership
from headwater.core.clock import SystemClock
from headwater.core.settings import CassandraSettings
from headwater.core.timers import Timers
from headwater.core.units import Duration
from headwater.documents.base import DocumentBases
from headwater.documents.calls import RedriveCall
from headwater.documents.cassandra import CassandraDocumentStores
from headwater.documents.chores import DocumentChores
from headwater.documents.open_documents import OpenDocuments
from headwater.documents.path import parse_path
from headwater.documents.settings import DocumentSettings
from headwater.documents.verify import verify_documents
from headwater.documents.write import Draft
from headwater.log.kafka.log import KafkaLog
from headwater.store.cassandra.keyspace import Keyspace
from headwater.testing.clock import ManualClock
from headwater.testing.log_ground import fresh

pytestmark = [pytest.mark.service("kafka"), pytest.mark.service("cassandra"), pytest.mark.anyio]
DAY = 86_400_000
SETTINGS = DocumentSettings(partitions=1, keep=Duration(DAY))


@asynccontextmanager
async def machine(kafka: str, settings: CassandraSettings, folder: Path, topic: str, clock: ManualClock) -> AsyncIterator[OpenDocuments]:
    """A process with a disk of its own."""
    with KafkaLog(kafka) as log, CassandraDocumentStores(Keyspace(settings)) as stores:
        ownership = KafkaOwnership(log, group=f"owners-{topic}", session=6.0)
        bases = DocumentBases(folder / "base", kept=stores.base_files(), clock=clock)
        documents = OpenDocuments(log, stores, lambda: ownership, settings=SETTINGS, clock=clock, bases=bases, topic=topic)
        try:
            yield documents
        finally:
            await documents.aclose()
            await asyncio.to_thread(ownership.close)


async def test_every_owner_in_turn_finds_the_base_copy_of_the_one_before(kafka: str, cassandra: tuple[str, int], tmp_path: Path) -> None:
    host, port = cassandra
    name, topic, clock = (
        f"documents_{uuid.uuid4().hex}",
        fresh("documents"),
        ManualClock(SystemClock().now_ms() / 1000),
    )  # claims have the machine's time
    settings = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))
    started, starts = 0, [0]
    try:
        for turn in range(3):
            async with machine(kafka, settings, tmp_path / str(turn % 2), topic, clock) as documents:
                await documents.activate(0)
                assert documents.topic is not None
                bases = documents.bases
                assert bases is not None
                if turn:
                    check = partial(verify_documents, documents.log, documents.stores, documents.topic)
                    (found,) = await asyncio.to_thread(check, bases=partial(bases.opened, documents.topic))
                    found.check()
                    await documents.call_partition(0, RedriveCall(rebuild=True))
                for _ in range(20):
                    started += 1
                    await documents.write(Draft(path=parse_path(f"c~/{started:03}"), verb="put", body=msgspec.json.encode({"n": started})))
                clock.advance(2 * DAY / 1000)
                chores = DocumentChores(documents, settings=SETTINGS, clock=clock, timers=Timers(clock), least=5)
                starts.append(await asyncio.to_thread(chores.shorten, 0))
                note = await asyncio.to_thread(bases.note, documents.topic, 0)
                assert note is not None
                assert note.applied >= starts[-1] > starts[-2]
                head, _ = await documents.read(parse_path("c~"))
                assert head is not None
                assert head.revision == started
                rows = documents.reads(0).store
                with rows.view() as view:
                    assert [row.item for row in view.rows("c~", limit=100)] == [f"{number:03}" for number in range(1, started + 1)]
        assert not list(tmp_path.glob("*/base/*.db")), "nothing of it is left on a machine"
    finally:
        with Keyspace(settings) as keyspace:
            keyspace.run(f"drop keyspace if exists {name}")
