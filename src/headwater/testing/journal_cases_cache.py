"""Cases 18 to 26 of journals: the head cache. It answers what it knows and never waits: what it does not know is scanned for."""

from __future__ import annotations

from contextlib import suppress

from headwater.journal.cache import CacheLimits, HeadCache
from headwater.journal.head import HeadFold
from headwater.journal.partition import JournalPartition
from headwater.journal.wire import read_record
from headwater.log.record import Record
from headwater.testing.journal_cases_ground import CaseJournals, JournalCasesGround, raw_append, raw_mark


def _at(record: Record, offset: int) -> Record:
    return Record(record.key, record.value, record.headers, 1_000 + offset, offset=offset)


def _cache(*records: Record, start: int = 0, limits: CacheLimits | None = None) -> HeadCache:
    """A cache that has read these records, from the offset `start` on, one after the other."""
    cache = HeadCache(start, decode=read_record, limits=limits)
    for offset, record in enumerate(records, start):
        cache.add([_at(record, offset)], offset + 1)
    return cache


def _numbers(cache: HeadCache, id: str, end: int, start: int = 0) -> tuple[int, int, int]:
    """What it knows of a journal: from where, up to where, and the last number in there."""
    tail = cache.tail(id.encode(), start, end)
    return tail.since, tail.until, tail.actions.fold().seq_nr


class JournalCacheCases(JournalCasesGround):
    def test_18_another_journal_is_known_not_to_be_there(self, single: CaseJournals) -> None:
        cache = _cache(raw_append("a", 1))
        assert _numbers(cache, "b", 1) == (0, 1, 0)
        single.raw(raw_append("a", 1))
        reader = single.partition()
        assert reader.joined("b", 1).head is None
        assert _counts(reader) == (1, 0)

    def test_19_what_lies_before_the_cache_is_unknown(self) -> None:
        cache = _cache(raw_append("a", 2), start=1)
        assert cache.tail(b"a", 0, 2).since == 1
        assert cache.tail(b"b", 0, 2).since == 1

    def test_20_what_lies_behind_the_cache_is_read(self, single: CaseJournals) -> None:
        cache = _cache(raw_append("a", 1), raw_append("a", 2))
        assert _numbers(cache, "a", 3) == (0, 2, 2)  # the caller reads offset 2 itself
        cache.add([_at(raw_append("a", 3), 2)], 3)
        assert _numbers(cache, "a", 3) == (0, 3, 3)
        single.raw(raw_append("a", 1), raw_append("a", 2))
        reader = single.partition()
        assert _last(reader, "a", 1) == 1
        single.raw(raw_append("a", 3))
        assert _last(reader, "a", 3) == 3
        assert _last(reader, "a", 2) == 2
        assert _counts(reader) == (3, 0)

    def test_21_what_is_copied_is_forgotten(self, single: CaseJournals) -> None:
        cache = _cache(raw_append("a", 1), raw_append("a", 2), raw_append("b", 1))
        cache.forget(1)
        assert len(cache) == 1
        assert _numbers(cache, "b", 3, 2) == (2, 3, 1)
        single.raw(raw_append("a", 1), raw_append("a", 2), raw_append("b", 1))
        single.replicate(2)
        reader = single.partition()
        assert _last(reader, "a", 2) == 2
        before = reader.cache
        assert before is None, "the store has everything below 2"
        assert _last(reader, "b", 3) == 1
        single.replicate()
        assert _last(reader, "b", 3) == 1
        made = _made(reader)
        assert made.counts.ahead == 1

    def test_22_too_many_journals_drop_those_that_are_idle_for_longest(self) -> None:
        limits = CacheLimits(journals=2, drop=0.5)
        cache = _cache(raw_append("a", 1), raw_append("b", 1), raw_append("c", 1), limits=limits)
        assert len(cache) == 1
        assert cache.tail(b"a", 0, 3).since > 0
        assert cache.tail(b"b", 0, 3).since > 0
        assert cache.tail(b"c", 0, 3).since == 0
        assert _numbers(cache, "c", 3)[2] == 1

    def test_23_one_journal_is_kept_whatever_share_is_dropped(self) -> None:
        cache = _cache(
            raw_append("a", 1), raw_append("b", 1), raw_append("a", 2), raw_append("c", 1), limits=CacheLimits(journals=2, drop=1.0)
        )
        assert len(cache) == 1
        touched = _cache(
            raw_append("a", 1), raw_append("b", 1), raw_append("a", 2), raw_append("c", 1), limits=CacheLimits(journals=2, drop=0.4)
        )
        assert _numbers(touched, "a", 4) == (0, 4, 2)  # touched again, so it is kept, with everything from the start on
        assert touched.tail(b"b", 0, 4).since == 2

    def test_24_marks_count_for_nothing(self) -> None:
        cache = _cache(*[raw_mark(f"id-{number}") for number in range(10)], limits=CacheLimits(journals=2, actions=2))
        assert len(cache) == 0
        assert _numbers(cache, "id-3", 10) == (0, 10, 0)

    def test_25_what_fails_once_is_read_again_from_there(self, single: CaseJournals) -> None:
        single.raw(raw_append("a", 1), raw_append("a", 2))
        reader = single.partition()
        assert _last(reader, "a", 2) == 2
        single.raw(raw_append("a", 3))
        log, reader.log = reader.log, _Failing()  # type: ignore[assignment]
        with suppress(ConnectionError):
            _last(reader, "a", 3)
        reader.log = log
        assert reader.cache is not None
        assert (len(reader.cache), reader.cache.end) == (1, 2)
        assert _last(reader, "a", 3) == 3
        assert _counts(reader) == (2, 0)

    def test_26_what_the_cache_lacks_is_scanned_for(self, single: CaseJournals) -> None:
        single.raw(*[raw_append(id, number) for number in (1, 2, 3) for id in ("a", "b")])
        reader = single.partition(limits=CacheLimits(journals=1, drop=0.5))
        assert _last(reader, "a", 6) == 3
        assert _last(reader, "b", 6) == 3
        assert reader.cache is not None
        assert reader.cache.counts.limited > 0

    def test_folds_of_any_batches_are_the_same(self) -> None:
        """35: the cache forgets no Purge, however its batches fall."""
        records = [_at(record, offset) for offset, record in enumerate(_life())]
        folds: set[HeadFold] = set()
        for first in range(len(records) + 1):
            for second in range(first, len(records) + 1):
                cache = HeadCache(0, decode=read_record)
                for start, end in ((0, first), (first, second), (second, len(records))):
                    cache.add(records[start:end], end)
                folds.add(cache.tail(b"a", 0, len(records)).actions.fold())
        assert len(folds) == 1
        assert folds.pop().seq_nr == 2


class _Failing:
    engine = "embedded"

    def read(self, *given: object, **named: object) -> None:
        raise ConnectionError


def _life() -> list[Record]:
    from headwater.testing.journal_cases_ground import raw_delete, raw_purge

    return [raw_append("a", 1, 2, 3, 4, 5), raw_purge("a"), raw_append("a", 1), raw_delete("a", 9), raw_append("a", 2)]


def _made(reader: JournalPartition) -> HeadCache:
    """The cache that a reader has made."""
    assert reader.cache is not None
    return reader.cache


def _last(reader: JournalPartition, id: str, end: int) -> int:
    return reader.last_number(id, end)


def _counts(reader: JournalPartition) -> tuple[int, int]:
    assert reader.cache is not None
    return reader.cache.counts.hit, reader.cache.counts.miss
