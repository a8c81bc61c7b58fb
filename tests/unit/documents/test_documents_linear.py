"""Concurrent callers of one document see one order of its changes, which agrees with the times of their calls."""

from __future__ import annotations

import asyncio
from pathlib import Path
from random import Random

import msgspec
import pytest
from tests.revision_history import Call, check_order
from tests.unit.documents.ground import documents_in, put

from headwater.core.document_errors import NotMatched
from headwater.documents.change import decode_record
from headwater.documents.open_documents import TOPIC, OpenDocuments
from headwater.documents.path import parse_path
from headwater.documents.settings import DocumentSettings

pytestmark = pytest.mark.anyio


class Clients:
    """Callers with one count of their steps."""

    def __init__(self, documents: OpenDocuments, random: Random) -> None:
        self.documents, self.random, self.step = documents, random, 0
        self.calls: list[Call] = []

    def tick(self) -> int:
        self.step += 1
        return self.step

    async def run(self, first: int) -> None:
        known = 0
        for number in range(first, first + 15):
            began = self.tick()
            kind = self.random.choice(["put", "put", "swap", "get"])
            if kind == "get":
                _, row = await self.documents.read(parse_path("a"))
                known = 0 if row is None else row.revision
                value = 0 if row is None else msgspec.json.decode(row.body)
                self.calls.append(Call(began, self.tick(), known, value, False))
                await asyncio.sleep(0)
                continue
            try:
                match = (known,) if kind == "swap" and known else None
                written = await put(self.documents, "a", number, match=match)
            except NotMatched:
                continue
            if match is not None:
                assert written.revision == known + 1
            known = written.revision
            self.calls.append(Call(began, self.tick(), known, number, True))


@pytest.mark.parametrize("seed", range(5))
async def test_every_history_has_one_order(tmp_path: Path, seed: int) -> None:
    async with documents_in(tmp_path, settings=DocumentSettings(partitions=1)) as documents:
        clients = Clients(documents, Random(seed))
        await asyncio.gather(*(clients.run(1000 * lane) for lane in range(1, 13)))
        records = [decode_record(record.value, "") for record in documents.log.read(TOPIC, 0, 0)]
        order = {change.revision: msgspec.json.decode(change.event) for record in records for change in record.changes}
    check_order(clients.calls, order)
