"""Lock files that name owners."""

from __future__ import annotations

import os
import threading
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.core.errors import Fenced, HeadwaterError, NotOwner, Timeout, UnknownTopic
from headwater.core.files import FileLock, Files
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.log_ground import numbered, together


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("t", partitions=2)
        yield log


@pytest.fixture
def folder(tmp_path: Path) -> Path:
    return tmp_path / "data" / "owners"


def test_partitions_are_owned_by_themselves(log: EmbeddedLog, folder: Path) -> None:
    with LocalOwnership(log, folder) as one, LocalOwnership(log, folder) as two:
        first, second = one.own("t", 0), two.own("t", 1)
        first.writer.append(numbered(1))
        second.writer.append(numbered(1))
        with pytest.raises(NotOwner):
            one.own("t", 1)


def test_a_typo_makes_no_folder(log: EmbeddedLog, folder: Path) -> None:
    with LocalOwnership(log, folder) as one, pytest.raises(UnknownTopic):
        one.own("tt", 0)
    assert not folder.exists()


@pytest.mark.parametrize("damage", [b"", b"{}", b"\x00" * 40, None], ids=["empty", "other", "zeros", "gone"])
def test_a_record_that_is_damaged_or_gone_lets_nobody_take_a_living_owners(log: EmbeddedLog, folder: Path, damage: bytes | None) -> None:
    with LocalOwnership(log, folder, address="http://one") as one, LocalOwnership(log, folder) as two:
        owned = one.own("t", 0)
        path = folder / "t" / "0.json"
        if damage is None:
            path.unlink()
        else:
            path.write_bytes(damage)
        with pytest.raises(NotOwner, match="a process on this machine"):
            two.own("t", 0)
        owned.writer.append(numbered(1))
        one.close()
        two.own("t", 0).writer.append(numbered(1))


def test_a_record_that_the_disk_does_not_give_is_told_with_its_path(log: EmbeddedLog, folder: Path) -> None:
    with LocalOwnership(log, folder) as one:
        owned = one.own("t", 0)
        path = folder / "t" / "0.json"
        path.unlink()
        path.mkdir()  # any error of reading
        with pytest.raises(HeadwaterError, match="owners"):
            print(owned.lost)


def test_who_waits_while_an_owner_is_forgotten_shares_with_those_who_come_later(log: EmbeddedLog, folder: Path) -> None:
    """The mutex goes with the rest: two who hold different files would both become owners, or wait for each other for ever."""
    with LocalOwnership(log, folder) as one, LocalOwnership(log, folder, timeout=0.2) as two, LocalOwnership(log, folder) as three:
        owned, caught = one.own("t", 0), list[str]()

        def wait() -> None:
            with three._alone("t", 0):
                try:
                    two.own("t", 0)
                except Timeout as error:
                    caught.append(error.message)

        thread = threading.Thread(target=wait)
        with one._alone("t", 0):
            thread.start()
            while not any(thread.name == "lock-0.mutex" for thread in threading.enumerate()):
                pass
            (folder / "t" / "0.mutex").unlink()
        thread.join(60)
        assert len(caught) == 1
        assert not owned.lost


def test_who_forgets_an_owner_leaves_the_next_topics_owner_alone(log: EmbeddedLog, folder: Path) -> None:
    with LocalOwnership(log, folder) as one, LocalOwnership(log, folder) as two:
        former = one.own("t", 0)
        log.delete_topic("t")
        log.create_topic("t", partitions=2)
        now = two.own("t", 0, take_over=True)
        former.release_deleted()
        assert not now.lost
        with pytest.raises(NotOwner):
            one.own("t", 0)


def test_who_owned_a_deleted_topic_does_not_own_the_next_one_of_its_name(log: EmbeddedLog, folder: Path) -> None:
    """Turns and epochs of the new topic begin anew, and come to those that the former owner had."""
    with LocalOwnership(log, folder) as one, LocalOwnership(log, folder) as two:
        former = one.own("t", 0)
        taken = two.own("t", 0, take_over=True)
        log.delete_topic("t")
        taken.release_deleted()
        log.create_topic("t", partitions=2)
        now = two.own("t", 0)
        assert (now.turn, now.writer.epoch) == (former.turn, 1)
        assert former.lost
        with pytest.raises(Fenced):
            former.renew()
        with pytest.raises(NotOwner):
            one.own("t", 0)
        now.writer.append(numbered(1))
        assert not now.lost


def test_files_stay_few(log: EmbeddedLog, folder: Path) -> None:
    for _ in range(20):
        with LocalOwnership(log, folder) as one:
            one.own("t", 0)
    with LocalOwnership(log, folder) as one, LocalOwnership(log, folder) as two:
        one.own("t", 0)
        two.own("t", 0, take_over=True)
        one.own("t", 0, take_over=True)
    assert len(list((folder / "t").iterdir())) == 3  # a record, a mutex, a lock


def test_of_many_at_once_one_becomes_the_owner(log: EmbeddedLog, folder: Path) -> None:
    members = [LocalOwnership(log, folder) for _ in range(8)]
    owned, refused = [], []

    def try_it(member: LocalOwnership) -> None:
        try:
            owned.append(member.own("t", 0))
        except NotOwner:
            refused.append(member)

    together(*(lambda member=member: try_it(member) for member in members))
    assert (len(owned), len(refused)) == (1, 7)
    owned[0].writer.append(numbered(1))
    for member in members:
        member.close()


def test_one_that_stands_still_in_the_midst_is_waited_for_and_named(log: EmbeddedLog, folder: Path) -> None:
    with LocalOwnership(log, folder, timeout=0.05) as one:
        one.own("t", 0).release()
        stuck = FileLock(Files(), folder / "t" / "0.mutex")
        stuck.exclusive()
        with pytest.raises(Timeout, match=r"0\.mutex"):
            one.own("t", 0)
        stuck.close()


def test_a_forked_child_does_not_own_and_does_not_keep_what_its_parent_owned(log: EmbeddedLog, folder: Path) -> None:
    with LocalOwnership(log, folder) as one:
        owned = one.own("t", 0)
        read, write = os.pipe()
        child = os.fork()
        if child == 0:
            os.close(write)
            lost = owned.lost
            os.read(read, 1)  # until the parent has let go
            os._exit(0 if lost else 1)
        os.close(read)
        owned.release()
        with LocalOwnership(log, folder) as two:
            two.own("t", 0).writer.append(numbered(1))
        os.close(write)
        assert os.waitstatus_to_exitcode(os.waitpid(child, 0)[1]) == 0
