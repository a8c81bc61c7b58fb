"""The contract of reading at given offsets."""

from __future__ import annotations

import threading
from random import Random

import pytest

from headwater.core.errors import BadBounds, BadInput, Closed, UnknownPartition, UnknownTopic
from headwater.log import Log, Record, TopicSettings
from headwater.testing.log_appending import KINDS
from headwater.testing.log_ground import PATIENCE, Ground, OpenLog, at, fresh, numbered


class ScatteredReading(Ground):
    def test_records_come_in_the_order_asked_for(self, log: Log, topic: str) -> None:
        for start in range(0, 30, 3):
            log.append(topic, 0, numbered(3, start=start))
        records = at(numbered(30), range(30))
        for offsets in ([], [0], [29], [7, 3, 3, 28, 0, 7], list(range(30)), list(range(29, -1, -1)), tuple(range(5))):
            assert log.read_at(topic, 0, offsets) == [records[offset] for offset in offsets]

    def test_every_kind_of_record_comes_back_as_it_was(self, log: Log, topic: str) -> None:
        records = at(KINDS, log.append(topic, 0, KINDS)) + [at([kind], log.append(topic, 0, [kind]))[0] for kind in KINDS]
        assert log.read_at(topic, 0, [record.offset or 0 for record in records]) == records

    @pytest.mark.parametrize("size", [1, 2, 20, 300, 5000])
    def test_batches_of_any_size(self, log: Log, another: OpenLog, topic: str, size: int) -> None:
        records = numbered(5000)
        for start in range(0, 5000, size) if size >= 20 else range(0, 40, size):
            log.append(topic, 0, records[start : start + size])
        end, random = log.bounds(topic, 0).end, Random(size)
        expected = at(records[:end], range(end))
        for reader in (log, another()):
            for _ in range(5):
                offsets = [random.randrange(end) for _ in range(60)]
                assert reader.read_at(topic, 0, offsets) == [expected[offset] for offset in offsets]

    def test_what_was_deleted_is_told(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(10))
        log.delete_before(topic, 0, 4)
        assert log.read_at(topic, 0, [9, 3, 4, 0]) == [*at(numbered(1, start=9), [9]), None, *at(numbered(1, start=4), [4]), None]
        log.delete_before(topic, 0, 10)
        assert log.read_at(topic, 0, [9, 0]) == [None, None]

    def test_what_was_compacted_away_is_told(self, log: Log) -> None:
        if not self.compacts:
            pytest.skip("this engine does not compact")
        name = log.create_topic(fresh("topic"), settings=TopicSettings(segment=500)).name
        records = [Record(b"%d" % (n % 7), b"%d" % n, timestamp=1) for n in range(60)]
        for start in range(0, 60, 4):
            log.append(name, 0, records[start : start + 4])
        assert log.read_at(name, 0, [0, 1]) == at(records[:2], [0, 1])
        log.compact(name, 0)
        kept = {record.offset: record for record in log.read(name, 0, 0)}
        assert 7 < len(kept) < 60
        assert log.read_at(name, 0, list(range(60))) == [kept.get(offset) for offset in range(60)]

    @pytest.mark.parametrize("offset", [-1, 7, 8, 1 << 40])
    def test_outside_of_the_bounds_is_an_error(self, log: Log, topic: str, offset: int) -> None:
        log.append(topic, 0, numbered(7))
        with pytest.raises(BadBounds):
            log.read_at(topic, 0, [3, offset, 4])

    @pytest.mark.parametrize("offsets", [["0"], [1.5], [None], [0, True], 5, "12"])
    def test_what_is_no_offset_is_told(self, log: Log, topic: str, offsets: list[int]) -> None:
        log.append(topic, 0, numbered(7))
        with pytest.raises(BadInput, match="no offsets"):
            log.read_at(topic, 0, offsets)

    def test_an_empty_partition_has_no_offsets(self, log: Log, topic: str) -> None:
        assert log.read_at(topic, 0, []) == []
        with pytest.raises(BadBounds):
            log.read_at(topic, 0, [0])

    def test_of_what_is_not_there(self, log: Log, topic: str) -> None:
        with pytest.raises(UnknownTopic):
            log.read_at(fresh("none"), 0, [0])
        with pytest.raises(UnknownPartition):
            log.read_at(topic, 1, [0])
        log.close()
        with pytest.raises(Closed):
            log.read_at(topic, 0, [0])

    def test_another_log_reads_what_was_appended_since(self, log: Log, another: OpenLog, topic: str) -> None:
        other = another()
        for number in range(20):
            log.append(topic, 0, numbered(1, start=number))
            offsets = [number, number // 2, 0]
            assert other.read_at(topic, 0, offsets) == [at(numbered(1, start=offset), [offset])[0] for offset in offsets]

    def test_beside_appends_and_deletions_every_answer_is_whole(self, log: Log, another: OpenLog) -> None:
        name = log.create_topic(fresh("topic"), settings=TopicSettings(segment=2000)).name
        log.append(name, 0, numbered(10))
        stop, errors = threading.Event(), list[BaseException]()

        def read(reader: Log, random: Random) -> None:
            try:
                while not stop.is_set():
                    bounds = reader.bounds(name, 0)
                    offsets = [random.randrange(bounds.end) for _ in range(20)]
                    records = reader.read_at(name, 0, offsets)
                    after = reader.bounds(name, 0)
                    for offset, record in zip(offsets, records, strict=True):
                        assert record == at(numbered(1, start=offset), [offset])[0] if record else offset < after.start
            except BaseException as error:
                errors.append(error)

        threads = [threading.Thread(target=read, args=(reader, Random(i)), daemon=True) for i, reader in enumerate((log, another()))]
        for thread in threads:
            thread.start()
        for start in range(10, 600, 10):
            log.append(name, 0, numbered(10, start=start))
            if start % 50 == 0:
                log.delete_before(name, 0, start - 40)
        stop.set()
        for thread in threads:
            thread.join(PATIENCE)
        assert not errors, errors
