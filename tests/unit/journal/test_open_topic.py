"""A topic that is open: its partitions and their writers."""

from __future__ import annotations

import asyncio
import threading
from collections.abc import Sequence
from pathlib import Path

import pytest
from tests.unit.journal.partitions import TOPIC, Ground
from tests.unit.journal.test_partition import Reached
from tests.until import until

from headwater.cluster import OwnedPartition
from headwater.core.clock import SystemClock
from headwater.core.errors import BadInput, Differs, Fenced, NotOwner, OutcomeUnknown, Unreachable
from headwater.journal import open_topic
from headwater.journal.action import Purge
from headwater.journal.append_draft import plain_draft
from headwater.journal.discovery import JournalTopic
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.idempotency import KeyIndex
from headwater.journal.open_topic import OpenTopic, OwnedJournalLog, PlainJournalLog, record_shown
from headwater.journal.partition_writer import PartitionWriter
from headwater.journal.settings import JournalSettings
from headwater.journal.snapshot import SnapshotCriteria
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.store_address import StoreAddress
from headwater.journal.store_reach import PAUSE
from headwater.journal.topics import PART, JournalTopics
from headwater.journal.verify import verify_topic
from headwater.journal.write import Appended, Condition, DeleteDraft
from headwater.log import Guard, Record, Writer
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.partitioner import partition_for
from headwater.testing.clock import ManualClock
from headwater.testing.journal_cases_ground import raw_append


@pytest.mark.anyio
async def test_journals_have_their_partition_and_its_writer(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path / "data") as log, SqliteJournalStore(tmp_path / "store") as store:
        topic, _ = JournalTopics(log, JournalSettings()).create("bank", 8)
        opened = OpenTopic(log, lambda: store, topic, writers="owner", settings=JournalSettings(), clock=SystemClock())
        ids = [f"id-{number}" for number in range(50)]
        assert [opened.place(id) for id in ids] == [partition_for(id.encode(), 8) for id in ids]
        assert opened.partition("id-1").number == opened.place("id-1")
        assert opened.writer("id-1") is opened.writer("id-1")
        placed = await opened.writer("id-1").write(plain_draft("id-1", 1))
        assert isinstance(placed, Appended)
        assert placed.partition == opened.place("id-1")
        with pytest.raises(BadInput):
            opened.place("")
        await opened.aclose()
        await opened.aclose()


class FakeWriter:
    """A Writer of which the next append fails as a test says."""

    epoch = 0

    def __init__(self, ground: Ground) -> None:
        self._ground = ground
        self.failures: list[Exception] = []

    def append(self, records: Sequence[Record], *, guard: Guard | None = None) -> Sequence[int]:
        assert guard is None
        if self.failures:
            raise self.failures.pop(0)
        return self._ground.log.append(TOPIC, 0, records, part=PART)


class FakeOwned(OwnedPartition):
    lost = False

    def __init__(self, ground: Ground) -> None:
        self.writer = FakeWriter(ground)  # type: ignore[assignment]
        self.renewed = self.released = 0
        self.taken = False

    def renew(self) -> Writer:
        self.renewed += 1
        if self.taken:
            raise Fenced("Another process is the owner by now.")
        return self.writer

    def release(self) -> None:
        self.released += 1


@pytest.mark.anyio
async def test_a_partition_is_owned_and_claimed_again_after_what_is_not_known(tmp_path: Path) -> None:
    ground, owned = Ground(tmp_path), list[FakeOwned]()

    def own(topic: str, number: int) -> OwnedPartition:
        if len(owned) == 3:
            raise NotOwner("Another one is.", address="http://other")
        owned.append(FakeOwned(ground))
        return owned[-1]

    keys = KeyIndex(ground.log, TOPIC, 0, now=SystemClock().now_ms)
    writer = PartitionWriter(OwnedJournalLog(ground.partition, own), partition=0, keys=keys)

    async def append() -> int:
        appended = await writer.write(plain_draft("a", 1))
        assert isinstance(appended, Appended)
        return appended.first

    assert [await append(), await append(), len(owned)] == [1, 2, 1]
    ground.append("a", 3)  # written under way, and counted by a claim
    owned[0].writer.failures = [OutcomeUnknown("Nobody knows.")]  # type: ignore[attr-defined]
    with pytest.raises(OutcomeUnknown):
        await append()
    assert [await append(), owned[0].renewed] == [4, 1]
    owned[0].writer.failures = [Fenced("Another claim.")]  # type: ignore[attr-defined]
    ground.append("a", 5)
    assert [await append(), owned[0].released, len(owned)] == [6, 1, 2]
    owned[1].lost = True
    assert [await append(), owned[1].released, len(owned)] == [7, 1, 3]
    owned[2].writer.failures, owned[2].taken = [OutcomeUnknown("Nobody knows.")], True  # type: ignore[attr-defined]
    with pytest.raises(OutcomeUnknown):
        await append()
    with pytest.raises(NotOwner, match="Another one is"):
        await append()
    assert owned[2].released == 1
    await writer.aclose()
    ground.close()


def test_a_record_is_shown_while_reads_give_its_event(tmp_path: Path) -> None:
    ground = Ground(tmp_path)
    offset = ground.append("a", 1, 2)
    places = (("a", 1, offset), ("a", 1, offset + 1), ("a", 3, offset), ("b", 1, offset))
    assert [record_shown(ground.partition, *place) for place in places] == [True, False, False, False]
    ground.put("a", Purge())
    assert not record_shown(ground.partition, "a", 1, offset)
    ground.log.delete_before(TOPIC, 0, 1, part=PART)
    assert not record_shown(ground.partition, "a", 1, offset)  # nothing can be read
    ground.close()


@pytest.mark.anyio
async def test_appends_and_reads_go_on_without_the_store(tmp_path: Path) -> None:
    """Those of journals that are not known here, too: and the copy is what the log says, once the store is back."""
    ground, clock = Ground(tmp_path), ManualClock()
    store = Reached(ground.store)
    for number in (1, 2):
        ground.append("old", number)
    opened = OpenTopic(ground.log, lambda: store, ground.topic, writers="owner", settings=JournalSettings(), clock=clock)
    ground.copy()

    async def appended(id: str, *, expected: int | None = None) -> int:
        outcome = await opened.writer(id).write(plain_draft(id, 1), Condition(expected))
        assert isinstance(outcome, Appended)
        return outcome.last

    def numbers(id: str) -> list[int]:
        return [row.seq_nr for row in opened.read(id, end=opened.partition(id).end()).page()]

    def save(id: str, seq_nr: int) -> None:
        living = opened.snapshots(id).living(id)
        assert living is not None
        opened.snapshots(id).save(id, seq_nr, Payload(PayloadKind.JSON, b"{}"), living, (None, None))

    assert await appended("warm") == 1
    save("warm", 1)
    store.away = True
    assert [await appended("warm"), await appended("old"), await appended("new"), await appended("new", expected=1)] == [2, 3, 1, 2]
    assert await opened.writer("other").write(DeleteDraft("other", 1)) is None
    assert await opened.writer("old").write(DeleteDraft("old", 1)) is not None
    assert [numbers(id) for id in ("warm", "old", "new", "other")] == [[1, 2], [2, 3], [1, 2], []]
    found = opened.snapshots("warm").load("warm", SnapshotCriteria())
    assert found is not None
    assert found.seq_nr == 1
    store.away = False
    clock.advance(PAUSE)
    assert [await appended("old"), await appended("new"), numbers("old")] == [4, 3, [2, 3, 4]]
    ground.copy()
    assert [numbers(id) for id in ("warm", "old", "new", "other")] == [[1, 2], [2, 3, 4], [1, 2, 3], []]
    topic = JournalTopic(TOPIC, 1, ground.topic.generation)
    assert verify_topic(ground.log, ground.store, topic, address=StoreAddress(folder=tmp_path / "store")).equal
    await opened.aclose()
    ground.close()


def test_a_store_that_does_not_answer_holds_up_the_first_append_alone(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground, go = Ground(tmp_path), threading.Event()
    asked: list[int] = []

    def check_end() -> None:
        asked.append(1)
        assert go.wait(60)
        if len(asked) == 2:
            raise Differs("It has copied more.")
        raise Unreachable("Nobody is there.")

    monkeypatch.setattr(ground.partition, "check_end", check_end)
    monkeypatch.setattr(open_topic, "_PATIENCE", 0.0)
    log = PlainJournalLog(ground.partition, exact=True, part=PART)
    for _ in range(3):
        log.append([raw_append("a", 1)], None)
    assert asked == [1]
    go.set()

    def differs() -> bool:
        try:
            log.append([raw_append("a", 1)], None)
        except Differs:
            return True
        return False

    asyncio.run(until(differs))
    assert len(asked) == 2
    ground.close()
