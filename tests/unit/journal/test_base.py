from __future__ import annotations

import shutil
from pathlib import Path

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, deleted, purged

from headwater.core.errors import Damaged, Differs, LogGap, Unavailable
from headwater.journal.base import JournalBases
from headwater.journal.base_copy import restore_base
from headwater.journal.change import PartitionChange
from headwater.journal.digest import digest, ring_digest
from headwater.journal.discovery import JournalTopic, snapshots_of
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.head import record_id
from headwater.journal.rebuild import check_rebuild, request_rebuild
from headwater.journal.snapshot_wire import JournalLife, save_record
from headwater.journal.store import RingStore
from headwater.journal.store_address import StoreAddress, open_store
from headwater.journal.verify import TopicVerification, verify_topic, write_bases
from headwater.log.record import Bounds

SNAPSHOTS = f"snapshot-{TOPIC}"


class BaseGround:
    """A topic with a copy, and bases of it."""

    def __init__(self, ground: Ground) -> None:
        self.ground, self.topic = ground, ground.topic(partitions=1)
        self.bases = JournalBases(ground.data / "base", clock=ground.clock)
        ground.append(appended("a", 1, 3), appended("b", 1), deleted("a", 1), purged("b"), appended("c", 5))
        self.replicate()

    def replicate(self) -> None:
        loop = self.ground.loop()
        loop._bases = self.bases
        assert loop.catch_up()
        loop.close()

    def write(self) -> int:
        [(one, note)] = write_bases(self.ground.log, self.ground.store, self.topic, address=self.ground.address, bases=self.bases)
        assert note is not None
        assert note.pointer == one.pointer
        return note.pointer

    def forget(self, offset: int) -> None:
        self.ground.log.delete_before(TOPIC, 0, offset, part="journal")

    def verify(self) -> TopicVerification:
        return verify_topic(self.ground.log, self.ground.store, self.topic, address=self.ground.address, bases=self.bases)

    def save(self, seq_nr: int) -> None:
        """Save a snapshot of journal a."""
        life = JournalLife(self.topic.generation, record_id(self.topic.generation, 0, 0), self.ground.log.bounds(TOPIC, 0).end)
        self.ground.append(save_record("a", seq_nr, Payload(PayloadKind.JSON, b"{}"), life), topic=SNAPSHOTS)

    def rings(self) -> RingStore:
        topic = snapshots_of(self.ground.log, self.topic)
        assert topic is not None
        copy = self.ground.store.snapshots(SNAPSHOTS, 0, topic.generation)
        assert copy is not None
        return copy

    def ring_digest(self) -> str:
        with self.rings().view() as view:
            return ring_digest(view)

    def lose_store(self) -> None:
        self.ground.store.close()
        assert self.ground.address.folder is not None
        shutil.rmtree(self.ground.address.folder)
        self.ground.store = open_store(self.ground.address, clock=self.ground.clock)

    def digest(self) -> str:
        copy = self.ground.store.partition(TOPIC, 0, self.topic.generation)
        assert copy is not None
        with copy.view() as view:
            return digest(view)


@pytest.fixture
def based(ground: Ground) -> BaseGround:
    return BaseGround(ground)


def test_a_copy_is_made_anew_from_its_base_and_the_log_behind_it(based: BaseGround) -> None:
    assert based.write() == 4
    based.ground.append(appended("a", 4), appended("d", 1))
    based.replicate()
    based.forget(5)
    before = based.digest()
    assert based.verify().equal
    request_rebuild(based.ground.log, based.topic, bases=based.bases)
    based.replicate()
    assert based.digest() == before
    assert based.verify().equal
    assert based.verify().partitions[0].rows == 5


def test_a_base_is_written_from_the_one_before_it(based: BaseGround) -> None:
    based.write()
    based.ground.append(appended("a", 4))
    based.replicate()
    based.forget(4)
    assert based.write() == 5
    files = sorted(path.name for path in (based.bases.folder / TOPIC).iterdir())
    assert len(files) == 3  # its file, its note, the lock
    based.forget(6)
    request_rebuild(based.ground.log, based.topic, bases=based.bases)
    before = based.digest()
    based.replicate()
    assert based.digest() == before


def test_without_a_base_nothing_is_made_anew_of_a_log_that_was_deleted(based: BaseGround) -> None:
    based.forget(2)
    for call in (
        lambda: request_rebuild(based.ground.log, based.topic, bases=based.bases),
        lambda: check_rebuild(based.ground.log, based.topic, bases=based.bases),
        based.verify,
        based.write,
    ):
        with pytest.raises(LogGap, match="no base"):
            call()  # type: ignore[no-untyped-call]


def test_a_base_older_than_the_logs_start_is_refused(based: BaseGround) -> None:
    based.write()
    based.ground.append(appended("a", 4), appended("a", 5))
    based.replicate()
    based.forget(6)
    with pytest.raises(LogGap, match="5 to 5 are in neither"):
        request_rebuild(based.ground.log, based.topic, bases=based.bases)
    with pytest.raises(LogGap):
        based.verify()


def test_a_base_newer_than_the_log_is_refused(based: BaseGround, monkeypatch: pytest.MonkeyPatch) -> None:
    based.write()
    monkeypatch.setattr(based.ground.log, "bounds", lambda topic, partition: Bounds(1, 3))
    with pytest.raises(Differs, match="older than the base"):
        based.bases.usable(based.ground.log, based.topic, 0)


def test_a_copy_older_than_its_base_is_told(based: BaseGround) -> None:
    based.write()
    based.forget(1)
    copy = based.ground.store.partition(TOPIC, 0, based.topic.generation)
    assert copy is not None
    with open_store(StoreAddress(folder=based.ground.data / "older")) as other:
        older = other.partition(TOPIC, 0, based.topic.generation)
        assert older is not None
        older.apply(PartitionChange(TOPIC, 0, based.topic.generation, 0, 2))
        with older.view() as view:
            copy.restore(view)  # as a backup does
    with pytest.raises(Differs, match="ends at offset 1, and its base at 4"):
        based.verify()


@pytest.mark.parametrize("rot", ["flip", "cut", "gone", "note"])
def test_a_rotten_base_is_refused_before_the_copy_goes(based: BaseGround, rot: str) -> None:
    based.write()
    based.forget(2)
    note = based.bases.note(based.topic, 0)
    assert note is not None
    path = based.bases.folder / TOPIC / note.file
    if rot == "flip":
        data = bytearray(path.read_bytes())
        data[len(data) // 2] ^= 1
        path.write_bytes(data)
    elif rot == "cut":
        path.write_bytes(path.read_bytes()[:-1])
    elif rot == "gone":
        path.unlink()
    else:
        (based.bases.folder / TOPIC / "0.json").write_text("{")
    before = based.digest()
    with pytest.raises(Damaged, match="damaged"):
        request_rebuild(based.ground.log, based.topic, bases=based.bases)
    with pytest.raises(Damaged):
        based.verify()
    copy = based.ground.store.partition(TOPIC, 0, based.topic.generation)
    assert copy is not None
    with pytest.raises(Damaged):
        restore_base(based.bases, based.ground.log, based.topic, copy)
    assert based.digest() == before


def test_a_base_of_an_earlier_topic_of_this_name_is_none(based: BaseGround) -> None:
    based.write()
    assert based.bases.note(JournalTopic(TOPIC, 1, "another"), 0) is None


def test_a_dry_run_and_a_copy_that_differs_write_nothing(based: BaseGround) -> None:
    import apsw

    write_bases(based.ground.log, based.ground.store, based.topic, address=based.ground.address, bases=based.bases, dry_run=True)
    assert based.bases.note(based.topic, 0) is None
    connection = apsw.Connection(str(Path(based.ground.address.folder or "") / TOPIC / "0.db"))
    connection.execute("update journal set payload = x'00' where seq_nr = 2")
    connection.close()
    with pytest.raises(Differs):
        based.write()
    assert based.bases.note(based.topic, 0) is None
    assert not list((based.bases.folder / TOPIC).glob("tmp-*"))


@pytest.fixture
def snapped(based: BaseGround) -> BaseGround:
    """With a snapshot in the base, one behind it, and a log that has forgotten the first one."""
    based.ground.log.create_topic(SNAPSHOTS, part="journal")
    based.save(1)
    based.save(2)
    based.replicate()
    based.write()
    based.save(3)
    based.ground.append(appended("a", 4))
    based.replicate()
    based.ground.log.delete_before(SNAPSHOTS, 0, 2, part="journal")
    return based


@pytest.mark.parametrize("journals", [False, True], ids=["log of snapshots deleted", "both logs deleted"])
def test_snapshots_that_the_log_has_deleted_come_from_the_base(snapped: BaseGround, journals: bool) -> None:
    if journals:
        snapped.forget(5)
    before, rings = snapped.digest(), snapped.ring_digest()
    assert [one.snapshots for one in snapped.verify().partitions] == [3]
    snapped.lose_store()
    request_rebuild(snapped.ground.log, snapped.topic, bases=snapped.bases)
    with pytest.raises(Unavailable, match="made anew"):
        snapped.verify()
    snapped.replicate()
    assert (snapped.digest(), snapped.ring_digest()) == (before, rings)
    assert [(one.snapshots, one.difference) for one in snapped.verify().partitions] == [(3, "")]


def test_a_changed_ring_of_which_the_log_is_deleted_is_found(snapped: BaseGround) -> None:
    import apsw

    connection = apsw.Connection(str(Path(snapped.ground.address.folder or "") / TOPIC / "0.db"))
    connection.execute("update snapshot set payload = x'31' where seq_nr = 1")
    connection.close()
    assert "slot 0" in snapped.verify().partitions[0].difference
    with pytest.raises(Differs):
        snapped.write()


def test_a_base_is_written_from_the_snapshots_of_the_one_before(snapped: BaseGround) -> None:
    snapped.write()
    snapped.ground.log.delete_before(SNAPSHOTS, 0, 3, part="journal")
    rings = snapped.ring_digest()
    snapped.lose_store()
    request_rebuild(snapped.ground.log, snapped.topic, bases=snapped.bases)
    snapped.replicate()
    assert snapped.ring_digest() == rings


def test_rings_older_than_their_base_are_told(snapped: BaseGround) -> None:
    snapped.write()
    rings = snapped.rings()
    snapped.ground.log.delete_before(SNAPSHOTS, 0, 3, part="journal")
    with open_store(StoreAddress(folder=snapped.ground.data / "older")) as other:
        older = other.snapshots(SNAPSHOTS, 0, rings.generation)
        assert older is not None
        older.clear(1)
        with older.view() as view:
            rings.restore(view)  # as a backup does
    with pytest.raises(LogGap):
        snapped.verify()


def test_a_base_takes_snapshots_from_the_store_that_nothing_else_has(snapped: BaseGround) -> None:
    for path in (snapped.bases.folder / TOPIC).glob("0*"):
        path.unlink()
    rings = snapped.ring_digest()
    assert [one.snapshots for one in snapped.verify().partitions] == [0]  # there is nothing to compare them with
    snapped.write()
    assert [one.snapshots for one in snapped.verify().partitions] == [3]
    snapped.lose_store()
    request_rebuild(snapped.ground.log, snapped.topic, bases=snapped.bases)
    snapped.replicate()
    assert snapped.ring_digest() == rings


def test_a_base_of_snapshots_that_is_newer_than_their_log_is_refused(snapped: BaseGround, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(snapped.ground.log, "bounds", lambda topic, partition: Bounds(1, 1 if topic == SNAPSHOTS else 9))
    topic = snapshots_of(snapped.ground.log, snapped.topic)
    assert topic is not None
    with pytest.raises(Differs, match="older than the base"):
        snapped.bases.of_snapshots(snapped.ground.log, topic, 0)


def test_a_lost_copy_of_a_log_that_was_deleted_is_not_equal(based: BaseGround) -> None:
    based.write()
    based.forget(5)
    based.lose_store()
    for call in (based.verify, based.write):
        with pytest.raises(LogGap, match="begins at offset 5"):
            call()
