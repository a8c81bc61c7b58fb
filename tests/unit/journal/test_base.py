from __future__ import annotations

from pathlib import Path

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, deleted, purged

from headwater.core.errors import Damaged, Differs, LogGap
from headwater.journal.base import JournalBases
from headwater.journal.base_copy import restore_base
from headwater.journal.change import PartitionChange
from headwater.journal.digest import digest
from headwater.journal.discovery import JournalTopic
from headwater.journal.rebuild import check_rebuild, request_rebuild
from headwater.journal.store_address import StoreAddress, open_store
from headwater.journal.verify import TopicVerification, verify_topic, write_bases
from headwater.log.record import Bounds


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
