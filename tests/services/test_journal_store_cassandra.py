"""Copies of journals in a real Cassandra: processes that die or come late, and tables that kafka-journal shares."""

from __future__ import annotations

import random
import uuid
from collections.abc import Iterable, Iterator
from contextlib import suppress
from pathlib import Path
from typing import Any

import msgspec
import pytest
from tools.services.private import PrivateServers

from headwater.core.errors import BadInput, Conflict
from headwater.core.errors import Unavailable as UnavailableError
from headwater.core.settings import CassandraSettings
from headwater.core.units import Duration
from headwater.journal.cassandra import TABLES, CassandraJournalStore
from headwater.journal.change import PartitionChange
from headwater.journal.places import places_of
from headwater.journal.sqlite import SqliteJournalStore
from headwater.journal.store import head_segment
from headwater.store import Migrations
from headwater.store.cassandra.keyspace import Keyspace
from headwater.store.cassandra.requests import Requests
from headwater.testing.journal_store_ground import BEGAN, History, digest_of, head_of, numbers, partition, rows_of, state
from headwater.testing.store_ground import migrations

pytestmark = pytest.mark.service("cassandra")


@pytest.fixture(scope="module")
def settings(cassandra: tuple[str, int]) -> Iterator[CassandraSettings]:
    host, port = cassandra
    name = f"journals_{uuid.uuid4().hex}"
    settings = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))
    yield settings
    with Keyspace(settings) as keyspace:
        keyspace.run(f"drop keyspace {name}")


@pytest.fixture(scope="module")
def keyspace(settings: CassandraSettings) -> Iterator[Keyspace]:
    with Keyspace(settings) as keyspace:
        yield keyspace


@pytest.fixture(scope="module")
def store(keyspace: Keyspace) -> CassandraJournalStore:
    return CassandraJournalStore(keyspace, segment_size=3)


@pytest.fixture
def topic() -> str:
    return f"journal-{uuid.uuid4().hex[:12]}"


class DeadError(Exception):
    """The process ends here."""


class DyingRequests(Requests):
    """Writes so many requests, and then no more."""

    def __init__(self, keyspace: Keyspace, writes: int) -> None:
        super().__init__(keyspace)
        self.left = writes

    def write(self, requests: Iterable[Any]) -> None:
        for request in requests:
            if self.left == 0:
                raise DeadError
            self.left -= 1
            super().write([request])


class PausedRequests(Requests):
    """Writes so many requests; the others wait until `resume`, and whoever wrote them believes that they are done."""

    def __init__(self, keyspace: Keyspace, writes: int) -> None:
        super().__init__(keyspace)
        self.left, self.waiting = writes, list[Any]()

    def write(self, requests: Iterable[Any]) -> None:
        for request in requests:
            if self.left:
                self.left -= 1
                super().write([request])
            else:
                self.waiting.append(request)

    def resume(self) -> None:
        super().write(self.waiting)


def filled(topic: str) -> History:
    """Two ranges, [0, 8) and [8, 16), and some records behind them. The second one appends, deletes, purges and begins anew."""
    history = History(topic)
    history.append("a", 1, 2, 3, 4)
    history.append("b", 1, 2)
    history.append("c", *range(1, 9))
    history.append("d", 1)
    history.append("e", *range(1, 23))  # eight segments
    history.append("f", *range(1, 18))
    history.delete("f", 5)
    history.delete("c", 2)
    # the range in which a process dies
    history.delete("a", 9)
    history.append("a", 5, 6)
    history.purge("b")
    history.append("b", 1)
    history.delete("c", 7)
    history.purge("d")
    history.purge("e")
    history.purge("f")
    history.append("f", 1)
    # what is appended meanwhile
    history.append("a", 7)
    history.delete("b", 1)
    history.append("d", 1)
    history.purge("c")
    return history


FIRST, SECOND = 8, 17


def raw_rows(keyspace: Keyspace, topic: str, id: str) -> list[int]:
    """The numbers of all rows of a journal that the table holds, whatever its head says of them."""
    ask = "select seq_nr from journal where id = ? and topic = ? and segment = ?"
    return [number for segment in range(12) for (number,) in keyspace.run(ask, (id, topic, segment))]


def other_copy(history: History, end: int, folder: Path, *, epoch: int = 0) -> str:
    """The digest of the same history in SQLite."""
    with SqliteJournalStore(folder) as store:
        copy = partition(store, history.topic)
        copy.apply(history.change(0, end, epoch=epoch))
        return digest_of(copy)


def test_whenever_a_process_dies_the_next_one_leaves_the_same_store(
    store: CassandraJournalStore, keyspace: Keyspace, topic: str, tmp_path: Path
) -> None:
    writes, finished = 0, False
    while not finished:
        history = filled(f"{topic}-{writes}")
        copy = partition(store, history.topic)
        copy.apply(history.change(0, FIRST, epoch=1))
        dying = partition(CassandraJournalStore(keyspace, requests=DyingRequests(keyspace, writes), segment_size=3), history.topic)
        try:
            finished = dying.apply(history.change(FIRST, SECOND, epoch=2))
        except DeadError:
            pointer = copy.pointer()
            assert (pointer.offset, pointer.epoch) == (FIRST - 1, 1)
            assert pointer.begun == (SECOND if writes else -1)
            # Whoever reads the log on from the pointer needs the heads as they were there.
            assert [head.offset for id in "ac" if (head := head_of(copy, id))] == [0, 7]
            assert set(numbers(copy, "a")) <= {1, 2, 3, 4}
            for end in (SECOND - 1, history.end) if writes else ():
                with pytest.raises(Conflict, match="never finished"):
                    copy.apply(history.change(FIRST, end))
        if not finished:
            assert copy.apply(history.change(FIRST, SECOND, epoch=2))
        assert copy.pointer().epoch == 2
        assert copy.pointer().begun == -1
        assert digest_of(copy) == other_copy(history, SECOND, tmp_path / f"{writes}", epoch=2)
        left = {id: raw_rows(keyspace, history.topic, id) for id in "abcdef"}
        assert left == {"a": [5, 6], "b": [1], "c": [8], "d": [], "e": [], "f": [1]}
        assert copy.apply(history.change(SECOND, epoch=2))
        assert digest_of(copy) == other_copy(history, history.end, tmp_path / f"{writes}-all", epoch=2)
        writes += 1
    assert writes > 30


def test_a_journal_that_is_new_in_an_unfinished_range_does_not_outlive_its_purge(
    store: CassandraJournalStore, keyspace: Keyspace, topic: str
) -> None:
    writes, finished = 0, False
    while not finished:
        history = History(f"{topic}-{writes}")
        history.append("x", 1)
        history.append("new", *range(1, 8))
        history.purge("new")
        copy = partition(store, history.topic)
        copy.apply(history.change(0, 1))
        dying = partition(CassandraJournalStore(keyspace, requests=DyingRequests(keyspace, writes), segment_size=3), history.topic)
        try:
            finished = dying.apply(history.change(1, 2))
        except DeadError:
            if writes:
                with pytest.raises(Conflict, match="from 1 to 2"):
                    copy.apply(history.change(1))
        while copy.pointer().offset < 2:  # as the replicator plans
            pointer = copy.pointer()
            copy.apply(history.change(pointer.offset + 1, pointer.begun if pointer.begun > 0 else None))
        assert state(copy, "new") is None
        assert raw_rows(keyspace, history.topic, "new") == []
        with copy.view() as view:
            assert view.ids() == ["x"]
        writes += 1
    assert writes > 4


def test_a_task_that_comes_late_changes_nothing(store: CassandraJournalStore, keyspace: Keyspace, topic: str) -> None:
    for writes in range(0, 36, 5):
        history = filled(f"{topic}-{writes}")
        copy = partition(store, history.topic)
        copy.apply(history.change(0, FIRST))
        paused = PausedRequests(keyspace, writes)
        partition(CassandraJournalStore(keyspace, requests=paused, segment_size=3), history.topic).apply(history.change(FIRST, SECOND))
        if copy.pointer().offset < SECOND - 1:
            copy.apply(history.change(FIRST, SECOND if copy.pointer().begun > 0 else SECOND + 1))
        copy.apply(history.change(copy.pointer().offset + 1))
        before = digest_of(copy)
        paused.resume()
        assert digest_of(copy) == before
        assert copy.pointer().offset == history.end - 1


def test_a_late_task_of_a_copy_that_was_cleared_changes_nothing(store: CassandraJournalStore, keyspace: Keyspace, topic: str) -> None:
    history, renewed = filled(topic), History(topic, generation="g2")
    renewed.append("a", 1)
    copy = partition(store, topic)
    copy.apply(history.change(0, FIRST))
    paused = PausedRequests(keyspace, 0)
    partition(CassandraJournalStore(keyspace, requests=paused, segment_size=3), topic).apply(history.change(FIRST, SECOND))
    new = partition(store, topic, generation="g2")
    new.clear()
    new.apply(renewed.change())
    before = digest_of(new)
    paused.resume()
    assert digest_of(new) == before
    with new.view() as view:
        assert view.ids() == ["a"]
    assert numbers(new, "a") == [1]


def test_a_clear_whose_process_died_is_finished_and_shows_nothing(store: CassandraJournalStore, keyspace: Keyspace, topic: str) -> None:
    writes, finished = 0, False
    while not finished:
        history = filled(f"{topic}-{writes}")
        copy = partition(store, history.topic)
        copy.apply(history.change(0, FIRST))
        dying = partition(CassandraJournalStore(keyspace, requests=DyingRequests(keyspace, writes), segment_size=3), history.topic)
        try:
            dying.clear()
            finished = True
        except DeadError:
            if writes:
                assert copy.pointer().offset == -1
                with copy.view() as view:
                    assert (view.ids(), view.head("a")) == ([], None)
        if copy.pointer().offset == -1:
            copy.apply(history.change(0, FIRST))
        assert state(copy, "c") == (8, 2, [3, 4, 5, 6, 7, 8])
        writes += 1
    assert writes > 5


def test_random_histories_leave_what_sqlite_has(store: CassandraJournalStore, topic: str, tmp_path: Path) -> None:
    """Larger ones than the contract suite tries, in ranges of random ends."""
    dice = random.Random(topic)
    history, last = History(topic), dict.fromkeys("abcdef", 0)
    for _ in range(300):
        id, kind = dice.choice("abcdef"), dice.random()
        if kind < 0.75:
            first = max(1, last[id] + dice.choice((1, 1, 1, 1, 0, 3)))
            history.append(id, *range(first, first + dice.choice((1, 1, 4))))
            last[id] = history.rows[-1][-1].seq_nr
        elif kind < 0.9:
            history.delete(id, dice.randint(1, last[id] + 2))
        elif kind < 0.95:
            history.purge(id)
            last[id] = 0
        else:
            history.mark(id)
    copy = partition(store, topic)
    for change in history.split([dice.randint(1, 299) for _ in range(20)]):
        assert copy.apply(change)
    assert digest_of(copy) == other_copy(history, history.end, tmp_path)


@pytest.mark.soak
def test_a_node_that_is_killed_ends_the_change_and_the_next_one_finishes_it(private_servers: PrivateServers, tmp_path: Path) -> None:
    running = private_servers.up("cassandra")
    host, port = running.cassandra
    settings = CassandraSettings(contact_points=(f"{host}:{port}",), keyspace="journals", timeout=Duration(5_000))
    history = filled("journal-a")
    with CassandraJournalStore(Keyspace(settings), segment_size=3) as store:
        copy = partition(store, "journal-a")
        copy.apply(history.change(0, FIRST))
        running.kill("node-1")
        with pytest.raises(UnavailableError):
            copy.apply(history.change(FIRST, SECOND))
        running.restart("node-1")
        for _ in range(30):  # each waits for some seconds; the driver looks for the node at intervals of its own
            with suppress(UnavailableError):
                copy.apply(history.change(FIRST, SECOND))
                break
        assert digest_of(copy) == other_copy(history, SECOND, tmp_path)


# -- kafka-journal on the same tables -----------------------------------------------------------------------------


class KafkaJournal:
    """Writes as kafka-journal does: its columns, at the time of its clock."""

    def __init__(self, keyspace: Keyspace, topic: str) -> None:
        self._keyspace, self._topic = keyspace, topic

    def head(self, id: str, seq_nr: int, delete_to: int | None, life: uuid.UUID | None, *, segments: int = 10_000, size: int = 3) -> None:
        self._keyspace.run(
            "insert into metajournal (id, topic, segment, partition, offset, segment_size, seq_nr, delete_to, created, created_date, "
            "updated, record_id, origin) values (?, ?, ?, 0, 9, ?, ?, ?, ?, '2023-11-14', ?, ?, 'replicator')",
            (id, self._topic, head_segment(id, segments), size, seq_nr, delete_to, BEGAN, BEGAN, life),
        )

    def row(self, id: str, seq_nr: int, life: uuid.UUID | None, *, metadata: str | None = None, segment: int | None = None) -> None:
        self._keyspace.run(
            "insert into journal (id, topic, segment, seq_nr, timestamp, partition, offset, meta_record_id, metadata, payload_type, "
            "payload_txt) values (?, ?, ?, ?, ?, 0, 5, ?, ?, 'json', '1')",
            (id, self._topic, (seq_nr - 1) // 3 if segment is None else segment, seq_nr, BEGAN, life, metadata),
        )

    def pointer(self, offset: int) -> None:
        self._keyspace.run(
            "insert into pointer2 (topic, partition, offset, created, updated) values (?, 0, ?, ?, ?)", (self._topic, offset, BEGAN, BEGAN)
        )


def test_a_partition_that_kafka_journal_has_copied_is_read_and_goes_on(
    keyspace: Keyspace, store: CassandraJournalStore, topic: str
) -> None:
    keyspace.run("update setting set value = 'yes' where key = 'headwater/older-heads'")
    store = CassandraJournalStore(keyspace, segment_size=7)
    theirs, life, other = KafkaJournal(keyspace, topic), uuid.uuid4(), uuid.uuid4()
    theirs.head("plain", 4, None, life)
    for number in range(1, 5):
        theirs.row("plain", number, life, metadata='{"data":1}' if number == 2 else None)
    theirs.row("plain", 2, other, segment=1)
    theirs.head("older", 2, None, None, segments=100)
    theirs.row("older", 1, None)
    theirs.row("older", 2, other)
    theirs.head("ahead", 3, 4, life)
    theirs.head("gap", 7, None, life)
    theirs.row("gap", 1, life)
    theirs.row("gap", 7, life)
    theirs.pointer(9)
    copy = partition(store, topic)
    assert topic in store.topics()
    assert (copy.pointer().offset, copy.pointer().generation) == (9, "")
    assert state(copy, "plain") == (4, None, [1, 2, 3, 4])
    assert [row.metadata for row in rows_of(copy, "plain")] == ["{}", '{"data":1}', "{}", "{}"]
    assert state(copy, "older") == (2, None, [1, 2])
    assert state(copy, "gap") == (7, None, [1, 7])
    assert state(copy, "ahead") == (3, 4, [])
    with copy.view() as view:
        assert view.ids() == ["ahead", "gap", "older", "plain"]
    history = History(topic)
    for _ in range(10):
        history.mark("x")
    for id, number in (("plain", 5), ("older", 3), ("ahead", 5), ("new", 1)):
        history.append(id, number)
    history.delete("plain", 3)
    history.purge("gap")
    assert copy.apply(history.change(10))
    assert copy.pointer().generation == "g1"
    assert state(copy, "plain") == (5, 3, [4, 5])
    assert state(copy, "older") == (3, None, [1, 2, 3])
    assert state(copy, "ahead") == (5, 4, [5])
    assert state(copy, "gap") is None
    [plain, older] = [head_of(copy, id) for id in ("plain", "older")]
    assert plain is not None
    assert older is not None
    assert (plain.record_id, plain.segment_size, older.record_id) == (life, 3, None)  # a life keeps what it began with
    run = keyspace.run
    place = (head_segment("older", 10_000), head_segment("older", 100))
    assert [len(run("select id from metajournal where topic = ? and segment = ?", (topic, segment))) for segment in place] == [0, 1]
    rows = run("select meta_record_id, seq_nr from journal where id = 'older' and topic = ? and segment in (0, 1)", (topic,))
    assert [number for life, number in rows if life is None] == [1, 3]
    assert run("select value from setting where key = 'schema-version'") == [("8",)]


def test_kafka_journal_goes_on_behind_us(keyspace: Keyspace, store: CassandraJournalStore, topic: str) -> None:
    """Its writes, which carry no time of their own, count after ours; ours count after its."""
    history = History(topic)
    history.append("a", 1)
    copy = partition(store, topic)
    copy.apply(history.change())
    head = head_of(copy, "a")
    assert head is not None
    theirs = KafkaJournal(keyspace, topic)
    theirs.row("a", 2, head.record_id)
    theirs.head("a", 2, None, head.record_id)
    theirs.pointer(9)
    assert copy.pointer().offset == 9
    assert state(copy, "a") == (2, None, [1, 2])


def test_the_tables_hold_what_kafka_journal_looks_for(keyspace: Keyspace, store: CassandraJournalStore, topic: str) -> None:
    history = History(topic)
    history.append("id", *range(1, 6), expire_after=86_400_000)
    partition(store, topic).apply(history.change())
    run = keyspace.run
    [head] = run(
        "select seq_nr, segment_size, offset, delete_to, expire_after, expire_on, created_date, record_id from metajournal "
        "where topic = ? and segment = 3355 and id = 'id'",
        (topic,),
    )
    assert head[:4] == (5, 3, 0, None)
    assert (head[4].months, head[4].days, head[4].nanoseconds) == (0, 1, 0)
    assert (str(head[5]), str(head[6])) == ("2023-11-15", "2023-11-14")
    found = [
        run(
            "select seq_nr, meta_record_id, payload_type, payload_txt from journal where id = 'id' and topic = ? and segment = ?",
            (topic, n),
        )
        for n in range(3)
    ]
    assert [[row[0] for row in rows] for rows in found] == [[1, 2, 3], [4, 5], []]
    assert {row[1:] for rows in found for row in rows} == {(head[7], "json", '{"at":0}')}


def test_a_topic_that_grew_keeps_a_journal_in_the_partition_of_its_newest_action(store: CassandraJournalStore, topic: str) -> None:
    old, new = History(topic, 0), History(topic, 1)
    old.append("a", 1, 2)
    new.append("a", 3)
    copies = [partition(store, topic, number) for number in range(2)]
    copies[0].apply(old.change())
    copies[1].apply(new.change())
    assert head_of(copies[0], "a") is None
    assert state(copies[1], "a") == (3, None, [1, 2, 3])


def test_a_partition_into_which_journals_moved_is_copied_whoever_dies(
    store: CassandraJournalStore, keyspace: Keyspace, topic: str, tmp_path: Path
) -> None:
    """The older partition has its journals, the newer one its own, and neither touches the other's."""
    counts = (2, 4)
    ids = [name for name in map(str, range(200)) if places_of(name.encode(), counts) == (0, 2)][:3]
    writes, finished = 0, False

    def counted(history: History, start: int, end: int | None = None) -> PartitionChange:
        return msgspec.structs.replace(history.change(start, end), counts=counts)

    while not finished:
        name = f"{topic}-{writes}"
        old, new = History(name, 0), History(name, 2)
        for id in ids:
            old.append(id, *range(1, 8))
            new.append(id, 8, 9)
        new.delete(ids[0], 8)
        new.purge(ids[1])
        new.append(ids[1], 1)
        new.delete(ids[2], 3)
        older, newer = partition(store, name, 0), partition(store, name, 2)
        older.apply(counted(old, 0))
        newer.apply(counted(new, 0, 3))
        dying = CassandraJournalStore(keyspace, requests=DyingRequests(keyspace, writes), segment_size=3)
        try:
            finished = partition(dying, name, 2).apply(counted(new, 3))
        except DeadError:
            with newer.view() as view:
                assert [view.moved(id).offset for id in ids] == [0, 1, 2]
            assert newer.apply(counted(new, 3))
        with SqliteJournalStore(tmp_path / f"{writes}") as files:
            for copy, history in ((older, old), (newer, new)):
                other = partition(files, name, history.partition)
                other.apply(counted(history, 0))
                assert digest_of(copy) == digest_of(other)
                with copy.view() as view, other.view() as same:
                    assert view.all_moved() == same.all_moved()
                    assert view.ids() == same.ids() == sorted(ids)
        assert [state(older, id) for id in ids] == [(7, None, [*range(1, 8)])] * 3
        writes += 1
    assert writes > 10
    newer.clear()
    with newer.view() as view:
        assert (view.ids(), view.all_moved()) == ([], [])
    assert [state(older, id) for id in ids] == [(7, None, [*range(1, 8)])] * 3
    with SqliteJournalStore(tmp_path / "base") as files:
        other = partition(files, name, 2)
        other.apply(counted(new, 0))
        with other.view() as base:
            newer.restore(base)
            with newer.view() as view:
                assert view.all_moved() == base.all_moved()
        assert digest_of(newer) == digest_of(other)


# -- tables -------------------------------------------------------------------------------------------------------


def test_tables_of_an_older_kafka_journal_get_what_they_lack(settings: CassandraSettings, cassandra: tuple[str, int]) -> None:
    host, port = cassandra
    name = f"journals_{uuid.uuid4().hex}"
    with Keyspace(CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))) as keyspace:
        try:
            for statement in TABLES.steps[0].statements[:2]:
                lines = [
                    line for line in statement.splitlines() if line.split()[0] not in ("headers", "version", "meta_record_id", "record_id")
                ]
                keyspace.run("\n".join(lines))
            keyspace.run(
                "create table if not exists setting (key text primary key, value text, timestamp timestamp, origin text, metadata text)"
            )
            keyspace.run("insert into setting (key, value) values ('schema-version', '3')")
            theirs = KafkaJournal(keyspace, "journal-a")
            store = CassandraJournalStore(keyspace, segment_size=3)
            assert keyspace.run("select value from setting where key = 'schema-version'") == [("3",)]  # what it noted stays
            theirs.head("a", 1, None, None)
            theirs.row("a", 1, None)
            history = History("journal-a")
            history.append("b", 1)
            copy = partition(store, "journal-a")
            copy.apply(history.change())
            assert state(copy, "b") == (1, None, [1])
        finally:
            keyspace.run(f"drop keyspace {name}")


def test_a_step_that_fails_stops_and_is_not_noted(settings: CassandraSettings, cassandra: tuple[str, int]) -> None:
    host, port = cassandra
    name = f"journals_{uuid.uuid4().hex}"
    with Keyspace(CassandraSettings(contact_points=(f"{host}:{port}",), keyspace=name, timeout=Duration(60_000))) as keyspace:
        try:
            broken = migrations(
                "create table if not exists pointer2 (topic text primary key);\nalter table nowhere add if not exists a text"
            )
            with pytest.raises(BadInput):
                keyspace.migrate(Migrations("journal", broken.steps))
            assert keyspace.applied("journal") == []
        finally:
            keyspace.run(f"drop keyspace {name}")


def test_an_empty_change_of_a_new_partition_is_kept(store: CassandraJournalStore, topic: str) -> None:
    copy = partition(store, topic)
    assert copy.apply(PartitionChange(topic, 0, "g1", 0, 100, epoch=5))
    assert (copy.pointer().offset, copy.pointer().epoch, copy.pointer().generation) == (99, 5, "g1")
