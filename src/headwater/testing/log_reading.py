"""The contract of reading."""

from __future__ import annotations

import threading
import time

import pyarrow as pa
import pytest

from headwater.core.errors import BadBounds, OffsetGone
from headwater.log import Bounds, Log, Record
from headwater.log.arrow import SCHEMA
from headwater.log.layout import decode_headers
from headwater.testing.log_appending import KINDS
from headwater.testing.log_ground import PATIENCE, Ground, OpenLog, at, everything, numbered, tailed


def rows(batch: pa.RecordBatch) -> list[Record]:
    """A scanned batch as records."""
    return [
        Record(
            row["key"],
            row["value"],
            decode_headers(row["headers"]) if row["headers"] is not None else (),
            row["timestamp"],
            row["mode"],
            row["op"],
            row["offset"],
        )
        for row in batch.to_pylist()
    ]


class ReadingTests(Ground):
    def test_an_empty_partition_is_read_as_empty(self, log: Log, topic: str) -> None:
        assert log.bounds(topic, 0) == Bounds(0, 0)
        assert log.read(topic, 0, 0) == []
        assert list(log.scan(topic, 0, 0)) == []
        assert list(log.scan(topic, 0, 0, 0)) == []
        assert log.offset_at(topic, 0, 5) == 0

    def test_reading_begins_anywhere(self, log: Log, topic: str) -> None:
        for start in range(0, 12, 3):
            log.append(topic, 0, numbered(3, start=start))
        records = at(numbered(12), range(12))
        for start in range(13):
            assert log.read(topic, 0, start) == records[start:]

    def test_reading_ends_after_limit_records(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(10))
        records = at(numbered(10), range(10))
        for limit in (1, 2, 9, 10, 11):
            assert log.read(topic, 0, 0, limit=limit) == records[:limit]
            assert log.read(topic, 0, 4, limit=limit) == records[4 : 4 + limit]

    def test_reading_by_bytes_gives_at_least_one_record(self, log: Log, topic: str) -> None:
        records = [Record(b"k", b"x" * 1000, timestamp=1)] * 10
        log.append(topic, 0, records)
        assert log.read(topic, 0, 3, max_bytes=1) == at(records[3:4], [3])
        page = log.read(topic, 0, 0, max_bytes=3500)
        assert page == at(records, range(10))[: len(page)]
        assert 1 <= len(page) <= 3

    def test_the_default_page_is_a_thousand(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(1005))
        assert log.read(topic, 0, 2) == at(numbered(1000, start=2), range(2, 1002))

    @pytest.mark.parametrize("start", [8, 9, 1 << 40])
    def test_beyond_the_end_are_bad_bounds(self, log: Log, topic: str, start: int) -> None:
        log.append(topic, 0, numbered(7))
        assert log.read(topic, 0, 7) == []
        with pytest.raises(BadBounds):
            log.read(topic, 0, start)
        with pytest.raises(BadBounds):
            list(log.scan(topic, 0, start))
        with pytest.raises(BadBounds):
            next(log.tail(topic, 0, start, stopped=lambda: False))

    @pytest.mark.parametrize("start", [-1, 0, 2])
    def test_below_the_start_an_offset_is_gone(self, log: Log, topic: str, start: int) -> None:
        log.append(topic, 0, numbered(7))
        log.delete_before(topic, 0, 3)
        with pytest.raises(OffsetGone) as gone:
            log.read(topic, 0, start)
        assert "3" in str(gone.value)
        with pytest.raises(OffsetGone):
            list(log.scan(topic, 0, start))
        with pytest.raises(OffsetGone):
            next(log.tail(topic, 0, start, stopped=lambda: False))

    # -- scanning -------------------------------------------------------------------------------------------

    def test_a_scan_gives_what_reading_gives(self, log: Log, topic: str) -> None:
        log.append(topic, 0, KINDS)
        log.append(topic, 0, numbered(3))
        log.append(topic, 0, KINDS[:1])
        batches = list(log.scan(topic, 0, 0))
        assert all(batch.schema.equals(SCHEMA, check_metadata=True) for batch in batches)
        assert [record for batch in batches for record in rows(batch)] == everything(log, topic)

    def test_records_without_headers_have_none_in_a_scan(self, log: Log, topic: str) -> None:
        log.append(topic, 0, [Record(b"k", b"v", mode=2, op=1), Record(b"k", b"v", (("h", b"1"),))])
        (batch,) = log.scan(topic, 0, 0)
        without, block = batch.column("headers").to_pylist()
        assert without is None
        assert decode_headers(block) == (("h", b"1"),)

    @pytest.mark.parametrize("size", [1, 2, 7, 1000])
    def test_a_scan_keeps_to_the_size_of_its_batches(self, log: Log, topic: str, size: int) -> None:
        for start in range(0, 60, 20):
            log.append(topic, 0, numbered(20, start=start))
        batches = list(log.scan(topic, 0, 0, batch=size))
        assert all(1 <= batch.num_rows <= size for batch in batches)
        assert [record for batch in batches for record in rows(batch)] == everything(log, topic)

    @pytest.mark.parametrize(("start", "end"), [(0, 0), (0, 1), (3, 3), (3, 9), (5, 12), (0, 12), (12, 12)])
    def test_a_scan_keeps_to_its_range(self, log: Log, topic: str, start: int, end: int) -> None:
        for first in range(0, 12, 4):
            log.append(topic, 0, numbered(4, start=first))
        records = [record for batch in log.scan(topic, 0, start, end) for record in rows(batch)]
        assert records == at(numbered(12), range(12))[start:end]

    @pytest.mark.parametrize(("start", "end"), [(0, 8), (7, 8), (5, 4), (7, 0)])
    def test_a_range_that_is_not_there_is_refused(self, log: Log, topic: str, start: int, end: int) -> None:
        log.append(topic, 0, numbered(7))
        with pytest.raises(BadBounds):
            list(log.scan(topic, 0, start, end))

    def test_a_scan_ends_where_the_log_ended_when_it_was_asked_for(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(5))
        scan = log.scan(topic, 0, 1)
        log.append(topic, 0, numbered(5))
        assert [record.offset for batch in scan for record in rows(batch)] == [1, 2, 3, 4]

    def test_scans_may_be_left_and_mixed(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(100))
        first, second = log.scan(topic, 0, 0, batch=10), log.scan(topic, 0, 50, batch=10)
        assert [rows(next(each))[0].offset for each in (first, second, first, second)] == [0, 50, 10, 60]
        del first
        assert [rows(each)[0].offset for each in second] == [70, 80, 90]
        assert len(log.read(topic, 0, 0)) == 100

    # -- tailing --------------------------------------------------------------------------------------------

    def test_a_tail_sees_what_is_there_and_what_comes(self, log: Log, another: OpenLog, topic: str) -> None:
        other = another()
        log.append(topic, 0, numbered(10))
        begun = threading.Event()

        def write() -> None:
            begun.wait(PATIENCE)
            for start in range(10, 30, 2):
                other.append(topic, 0, numbered(2, start=start))

        writer = threading.Thread(target=write)
        writer.start()
        seen: list[Record] = []
        deadline = time.monotonic() + PATIENCE
        for batch in log.tail(topic, 0, 4, stopped=lambda: len(seen) >= 26 or time.monotonic() > deadline):
            seen.extend(batch)
            begun.set()
        writer.join()
        assert seen == at(numbered(26, start=4), range(4, 30))

    def test_a_tail_may_begin_at_the_end(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(3))
        records = numbered(2, start=3)
        writer = threading.Thread(target=lambda: log.append(topic, 0, records))
        writer.start()
        assert tailed(log, topic, 3, 2) == at(records, [3, 4])
        writer.join()

    def test_a_tail_of_nothing_says_so_until_it_is_stopped(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(1))
        batches: list[list[Record]] = []
        deadline = time.monotonic() + PATIENCE
        for batch in log.tail(topic, 0, 1, stopped=lambda: len(batches) == 3 or time.monotonic() > deadline):
            batches.append(batch)
        assert batches == [[], [], []]

    def test_a_stopped_tail_gives_nothing(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(1))
        assert list(log.tail(topic, 0, 0, stopped=lambda: True)) == []

    # -- by time --------------------------------------------------------------------------------------------

    def test_an_offset_is_found_by_its_time(self, log: Log, topic: str) -> None:
        times = [100, 100, 200, 200, 200, 350, 400]
        for timestamp in times:
            log.append(topic, 0, [Record(b"k", b"v", timestamp=timestamp)])
        expected = {0: 0, 1: 0, 99: 0, 100: 0, 101: 2, 200: 2, 201: 5, 350: 5, 351: 6, 400: 6, 401: 7, 1 << 50: 7}
        assert {moment: log.offset_at(topic, 0, moment) for moment in expected} == expected

    def test_times_within_one_batch_are_told_apart(self, log: Log, topic: str) -> None:
        log.append(topic, 0, [Record(b"k", b"v", timestamp=timestamp) for timestamp in range(1000, 1500)])
        assert [log.offset_at(topic, 0, timestamp) for timestamp in (999, 1000, 1001, 1250, 1499, 1500)] == [0, 0, 1, 250, 499, 500]

    def test_a_time_of_zero_comes_before_one(self, log: Log, topic: str) -> None:
        log.append(topic, 0, [Record(b"k", b"v", timestamp=timestamp) for timestamp in (0, 0, 1, 2)])
        assert [log.offset_at(topic, 0, timestamp) for timestamp in (0, 1, 2, 3)] == [0, 2, 3, 4]

    def test_times_that_fall_give_no_later_offset_than_the_first(self, log: Log, topic: str) -> None:
        for timestamp in (50, 300, 100, 400, 200):
            log.append(topic, 0, [Record(b"k", b"v", timestamp=timestamp)])
        for moment, first in ((50, 0), (51, 1), (300, 1), (301, 3), (400, 3)):
            assert log.offset_at(topic, 0, moment) <= first

    def test_a_deleted_offset_is_not_found_by_its_time(self, log: Log, topic: str) -> None:
        log.append(topic, 0, [Record(b"k", b"v", timestamp=timestamp) for timestamp in range(100, 110)])
        log.delete_before(topic, 0, 4)
        assert [log.offset_at(topic, 0, timestamp) for timestamp in (0, 100, 103, 104, 105, 110)] == [4, 4, 4, 4, 5, 10]
