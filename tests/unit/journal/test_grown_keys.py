"""A retry of an Append from before its topic grew is answered as the first call was."""

from __future__ import annotations

import pytest
from tests.unit.journal.ground import Ground
from tests.unit.journal.test_grown import ID, NEW, OLD
from tests.unit.journal.test_grown_snapshots import GrownSnapshotsGround

from headwater.core.errors import KeyReused
from headwater.journal.append_draft import plain_draft
from headwater.journal.idempotency import KeyIndex
from headwater.journal.open_topic import OpenTopic, PlainJournalLog
from headwater.journal.partition_writer import PartitionWriter
from headwater.journal.settings import JournalSettings
from headwater.journal.topics import PART
from headwater.journal.write import Appended, Condition

pytestmark = pytest.mark.anyio


async def test_a_key_of_an_older_place_counts(ground: Ground) -> None:
    grown = GrownSnapshotsGround(ground)
    older = grown.grown.partition(OLD)
    keys = KeyIndex(ground.log, older.topic.name, OLD, now=ground.clock.now_ms)
    before = PartitionWriter(PlainJournalLog(older, exact=True, part=PART), partition=OLD, keys=keys)
    first = await before.write(plain_draft(ID, 1), Condition(None, "k", "d"))
    await before.aclose()
    opened = OpenTopic(ground.log, lambda: ground.store, grown.grown.topic, writers="owner", settings=JournalSettings(), clock=ground.clock)
    writer = opened.writer(ID)
    assert isinstance(first, Appended)
    assert await writer.write(plain_draft(ID, 1), Condition(None, "k", "d")) == Appended(1, 1, OLD, 0, True)
    with pytest.raises(KeyReused):
        await writer.write(plain_draft(ID, 1), Condition(None, "k", "other"))
    assert await writer.write(plain_draft(ID, 1), Condition(None, "new", "d")) == Appended(2, 2, NEW, 0)
    assert await writer.write(plain_draft(ID, 1), Condition(None, "new", "d")) == Appended(2, 2, NEW, 0, True)
    await opened.aclose()
