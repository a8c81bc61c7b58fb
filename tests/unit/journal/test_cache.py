"""The head cache: what it knows, what it drops and what it forgets."""

from __future__ import annotations

from random import Random

import pytest
from tests.unit.journal.ground import TOPIC, Ground, random_records

from headwater.journal import partition as partition_module
from headwater.journal.action import Append, Mark
from headwater.journal.actions import TailActions
from headwater.journal.cache import CachedTail, CacheLimits, HeadCache
from headwater.journal.event import RESERVED
from headwater.journal.partition import JournalPartition
from headwater.journal.read import JournalRead
from headwater.journal.settings import JournalSettings
from headwater.journal.wire import read_record, write_record
from headwater.log.record import Record


def record(offset: int, id: str, action: Append | Mark | None = None, size: int = 2) -> Record:
    action = action or Append(offset + 1, offset + 1)
    made = write_record(id, action, value=b"x" * size if isinstance(action, Append) else None)
    return Record(made.key, made.value, made.headers, 1000, offset=offset)


def cache_of(ids: str, **limits: float) -> HeadCache:
    cache = HeadCache(0, decode=read_record, limits=CacheLimits(**limits))  # type: ignore[arg-type]
    cache.add([record(offset, id) for offset, id in enumerate(ids)], len(ids))
    return cache


def known(tail: CachedTail) -> tuple[int, int, list[int]]:
    return tail.since, tail.until, list(tail.actions.offsets)


def test_it_knows_the_actions_of_each_journal_between_two_offsets() -> None:
    cache = cache_of("abab")
    assert known(cache.tail(b"a", 0, 4)) == (0, 4, [0, 2])
    assert known(cache.tail(b"a", 1, 4)) == (1, 4, [2])
    assert known(cache.tail(b"a", 0, 2)) == (0, 2, [0])
    assert known(cache.tail(b"x", 0, 4)) == (0, 4, [])
    assert known(cache.tail(b"a", 0, 9)) == (0, 4, [0, 2])  # what lies behind is to be scanned
    assert len(cache) == 2


def test_records_are_added_once() -> None:
    cache = cache_of("ab")
    cache.add([record(1, "b"), record(2, "a")], 3)
    cache.add([record(1, "b"), record(2, "a")], 3)
    assert known(cache.tail(b"a", 0, 3)) == (0, 3, [0, 2])
    assert known(cache.tail(b"b", 0, 3)) == (0, 3, [1])


def test_journals_beyond_the_limit_are_dropped_the_oldest_first() -> None:
    cache = cache_of("abac", journals=2, drop=0.4)  # c is one too many: b, with the oldest last action, goes
    assert known(cache.tail(b"b", 0, 4)) == (2, 4, [])
    assert known(cache.tail(b"a", 0, 4)) == (0, 4, [0, 2])
    assert known(cache.tail(b"c", 0, 4)) == (0, 4, [3])
    assert known(cache.tail(b"new", 0, 4)) == (2, 4, [])
    assert len(cache_of("abc", journals=1, drop=1.0)) == 1


def test_one_journal_with_too_many_actions_goes_too() -> None:
    cache = cache_of("aaaa", actions=3)
    assert known(cache.tail(b"a", 0, 4)) == (4, 4, [])


def test_marks_and_other_records_count_for_nothing() -> None:
    cache = HeadCache(0, decode=read_record, limits=CacheLimits(journals=1))
    cache.add([record(0, "a"), record(1, "b", Mark("m")), Record(b"c", b"", (), 1, offset=2), Record(None, None, (), 1, offset=3)], 4)
    assert len(cache) == 1
    assert known(cache.tail(b"b", 0, 4)) == (0, 4, [])


def test_what_is_copied_is_forgotten() -> None:
    cache = cache_of("abab")
    cache.forget(1)
    assert known(cache.tail(b"b", 2, 4)) == (2, 4, [3])
    cache.forget(2)
    assert len(cache) == 1
    assert known(cache.tail(b"a", 3, 4)) == (3, 4, [])
    assert known(cache.tail(b"a", 0, 4)) == (3, 4, [])  # for a reader with an older view: it scans what lies before
    assert cache.append(2) is None
    assert cache.append(3) is not None
    cache.forget(0)
    cache.forget(9)
    assert (len(cache), cache.end) == (0, 10)


def test_a_journal_that_is_never_idle_keeps_no_copied_actions() -> None:
    cache = HeadCache(0, decode=read_record)
    for offset in range(0, 1000, 10):
        cache.add([record(offset + n, "a") for n in range(10)], offset + 10)
        cache.forget(offset + 5)
    assert len(cache.tail(b"a", 0, 1000).actions) < 300


def test_records_are_kept_within_a_bound_of_bytes() -> None:
    cache = HeadCache(0, decode=read_record, limits=CacheLimits(record_bytes=1500))
    cache.add([record(offset, "a", size=100) for offset in range(9)], 9)
    assert [offset for offset in range(9) if cache.append(offset) is not None] == [6, 7, 8]


def test_a_stretch_that_is_copied_is_not_read() -> None:
    cache = cache_of("ab")
    cache.restart(1, 0)
    assert cache.end == 2
    cache.restart(5, 0)
    assert (cache.end, len(cache)) == (5, 0)
    assert known(cache.tail(b"a", 5, 6)) == (5, 5, [])


def test_what_a_scan_has_found_is_kept() -> None:
    cache = cache_of("abcab", journals=2, drop=0.0)  # c is dropped
    before = cache.tail(b"c", 0, 5)
    assert known(before) == (3, 5, [])
    found = TailActions()
    found.add(read_record(record(2, "c")))  # type: ignore[arg-type]
    cache.fill(b"c", 0, before, found)
    assert known(cache.tail(b"c", 0, 5)) == (0, 5, [2])
    assert known(cache.tail(b"a", 0, 5))[0] > 0  # one had to go
    cache.add([record(5, "c")], 6)
    assert known(cache.tail(b"c", 0, 6)) == (0, 6, [2, 5])
    cache.fill(b"c", 0, before, TailActions())  # too late: another thread was first
    assert known(cache.tail(b"c", 0, 6)) == (0, 6, [2, 5])
    unknown = cache.tail(b"new", 0, 6)
    cache.fill(b"new", 0, unknown, TailActions())
    assert known(cache.tail(b"new", 0, 6)) == (0, 6, [])
    cache.forget(5)
    assert len(cache) == 0


def test_a_record_that_cannot_be_decoded_belongs_to_its_journal() -> None:
    cache = HeadCache(0, decode=read_record)
    cache.add([Record(b"a", b"", ((RESERVED, b"{"),), 1, offset=0), record(1, "b")], 2)
    assert cache.tail(b"a", 0, 2).actions.unreadable() == 0
    assert cache.tail(b"b", 0, 2).actions.unreadable() is None


def test_a_stretch_that_is_skimmed_is_found_by_its_keys() -> None:
    cache = HeadCache(0, decode=read_record, claimed=False)
    cache.skim([b"a", b"b", None, b"a"], [0, 1, 2, 3], 4)
    assert (cache.end, len(cache)) == (4, 0)
    assert cache.offsets(b"a", 0, 4) == [0, 3]
    known = cache.tail(b"a", 0, 4)
    assert (known.since, len(known.actions)) == (4, 0)  # nothing is known but where they lie
    cache.skim([b"a"], [1], 2)  # another thread was quicker
    assert cache.offsets(b"a", 0, 4) == [0, 3]
    assert not HeadCache(0, decode=read_record, claimed=True).skims
    assert not HeadCache(0, decode=read_record, claimed=False, limits=CacheLimits(offsets=0)).skims


def test_a_long_tail_is_read_by_its_keys_and_shows_the_same(ground: Ground, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(partition_module, "_LONG", 20)
    monkeypatch.setattr(partition_module, "_STEP", 5)
    ground.topic(partitions=1)
    random = Random(3)
    for _ in range(4):
        ground.append(*random_records(random, 40))
        skimmed = JournalPartition(ground.log, lambda: ground.store, ground.log.topic(TOPIC), 0, settings=JournalSettings())
        for id in ("a", "b", "c", "nobody"):
            plain = JournalPartition(ground.log, lambda: ground.store, ground.log.topic(TOPIC), 0, settings=JournalSettings())
            monkeypatch.setattr(partition_module, "_LONG", 1 << 40)
            wanted = plain.joined(id, plain.end())
            monkeypatch.setattr(partition_module, "_LONG", 20)
            assert skimmed.joined(id, skimmed.end()).head == wanted.head
            numbers = [row.seq_nr for row in JournalRead(skimmed, id, end=skimmed.end()).page()]
            assert numbers == [row.seq_nr for row in JournalRead(plain, id, end=plain.end()).page()]
