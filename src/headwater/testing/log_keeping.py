"""The contract of housekeeping: deleting from the beginning, and compaction."""

from __future__ import annotations

import threading
from typing import Any

import pytest

from headwater.core.errors import BadBounds, BadInput, OffsetGone, Unsupported
from headwater.log import Bounds, Log, Record, TopicSettings
from headwater.testing.log_ground import Ground, OpenLog, at, everything, fresh, numbered, tailed, unchanged

SMALL = TopicSettings(segment=2000)  # so that a test fills several segments


class Keeping(Ground):
    def test_what_is_below_is_let_go(self, log: Log, another: OpenLog, topic: str) -> None:
        log.append(topic, 0, numbered(10))
        other = another()
        assert other.bounds(topic, 0) == Bounds(0, 10)
        assert log.delete_before(topic, 0, 4) == 4
        assert log.bounds(topic, 0) == other.bounds(topic, 0) == Bounds(4, 10)
        assert everything(log, topic) == everything(other, topic) == at(numbered(6, start=4), range(4, 10))
        assert list(log.append(topic, 0, numbered(1))) == [10]

    def test_deleting_again_or_less_changes_nothing(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(10))
        log.delete_before(topic, 0, 4)
        with unchanged(log, topic):
            assert [log.delete_before(topic, 0, offset) for offset in (4, 3, 0, -1)] == [4, 4, 4, 4]

    def test_everything_may_go_and_offsets_go_on(self, log: Log, another: OpenLog, topic: str) -> None:
        log.append(topic, 0, numbered(10))
        assert log.delete_before(topic, 0, 10) == 10
        assert log.bounds(topic, 0) == Bounds(10, 10)
        assert log.read(topic, 0, 10) == []
        log.close()
        again = another()
        assert again.bounds(topic, 0) == Bounds(10, 10)
        assert list(again.append(topic, 0, numbered(2))) == [10, 11]
        assert everything(again, topic) == at(numbered(2), [10, 11])

    def test_nothing_is_deleted_beyond_the_end(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(10))
        with unchanged(log, topic):
            for offset in (11, 1 << 40):
                with pytest.raises(BadBounds):
                    log.delete_before(topic, 0, offset)

    @pytest.mark.parametrize("offset", [2.0, 1.5, True, "3", None, float("nan")])
    def test_what_is_no_offset_deletes_nothing(self, log: Log, another: OpenLog, topic: str, offset: Any) -> None:
        log.append(topic, 0, numbered(10))
        with unchanged(log, topic), pytest.raises(BadInput, match="no offset"):
            log.delete_before(topic, 0, offset)
        writer = log.claim(topic, 0)
        with unchanged(log, topic), pytest.raises(BadInput, match="no offset"):
            writer.delete_before(offset)
        log.close()
        assert everything(another(), topic)[:10] == at(numbered(10), range(10))

    def test_an_empty_partition_has_nothing_to_delete(self, log: Log, topic: str) -> None:
        assert log.delete_before(topic, 0, 0) == 0
        with pytest.raises(BadBounds):
            log.delete_before(topic, 0, 1)

    def test_what_was_deleted_stays_deleted(self, log: Log, another: OpenLog) -> None:
        name = log.create_topic(fresh("topic"), settings=SMALL).name
        for start in range(0, 200, 20):
            log.append(name, 0, numbered(20, start=start))
        assert log.delete_before(name, 0, 115) == 115
        log.close()
        again = another()
        assert again.bounds(name, 0) == Bounds(115, 200)
        assert everything(again, name) == at(numbered(85, start=115), range(115, 200))
        with pytest.raises(OffsetGone):
            again.read(name, 0, 114)

    def test_a_tail_goes_on_over_a_deletion_behind_it(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(10))
        later = threading.Thread(target=lambda: (log.delete_before(topic, 0, 5), log.append(topic, 0, numbered(5, start=10))))
        later.start()
        assert tailed(log, topic, 8, 7) == at(numbered(7, start=8), range(8, 15))
        later.join()

    # -- compaction -----------------------------------------------------------------------------------------

    def compactable(self, log: Log) -> str:
        """A topic with several closed segments in which keys repeat, or a skipped test where the engine does not compact."""
        if not self.compacts:
            pytest.skip("this engine does not compact")
        name = log.create_topic(fresh("topic"), settings=SMALL).name
        for n in range(0, 300, 5):
            log.append(name, 0, [Record(b"key-%d" % (m % 7), b"value-%d" % m, timestamp=1000 + m) for m in range(n, n + 5)])
        return name

    def test_compaction_is_offered_or_said_not_to_be(self, log: Log, topic: str) -> None:
        log.append(topic, 0, numbered(10))
        with unchanged(log, topic):
            if self.compacts:
                done = log.compact(topic, 0)
                assert done.records_before == done.records_after
            else:
                with pytest.raises(Unsupported) as refused:
                    log.compact(topic, 0)
                assert refused.value.hint

    def test_compaction_keeps_the_last_record_of_each_key(self, log: Log, another: OpenLog) -> None:
        name = self.compactable(log)
        before = everything(log, name)
        done = log.compact(name, 0)
        after = everything(log, name)
        gone = {record.offset for record in before} - {record.offset for record in after}
        assert len(gone) > 150
        assert done.records_before - done.records_after == len(gone)
        assert done.bytes_after < done.bytes_before
        assert [record for record in before if record.offset not in gone] == after
        for record in before:
            if record.offset in gone:
                assert any(other.key == record.key and (other.offset or 0) > (record.offset or 0) for other in after)
        assert log.bounds(name, 0) == Bounds(0, 300)
        log.close()
        again = another()
        assert everything(again, name) == after
        assert list(again.append(name, 0, numbered(1))) == [300]

    def test_compaction_leaves_what_is_not_below(self, log: Log) -> None:
        name = self.compactable(log)
        before = everything(log, name)
        log.compact(name, 0, before=100)
        after = everything(log, name)
        assert after[-200:] == before[-200:]
        assert 7 <= len(after) - 200 < 100
        with pytest.raises(BadInput):
            log.compact(name, 0, before=301)

    def test_records_without_a_key_stay(self, log: Log) -> None:
        name = self.compactable(log)
        fresh_ones = [Record(None, b"%d" % n, timestamp=1) for n in range(200)]
        log.append(name, 0, fresh_ones)
        log.append(name, 0, [Record(b"key-0", b"x" * 3000, timestamp=1)])
        log.append(name, 0, numbered(1))
        log.compact(name, 0)
        assert [record.value for record in everything(log, name) if record.key is None] == [record.value for record in fresh_ones]

    def test_a_compacted_partition_is_read_over_its_holes(self, log: Log) -> None:
        name = self.compactable(log)
        log.compact(name, 0)
        records = everything(log, name)
        for start in range(0, 301, 11):
            expected = [record for record in records if (record.offset or 0) >= start]
            assert log.read(name, 0, start) == expected
            assert [offset for batch in log.scan(name, 0, start) for offset in batch.column("offset").to_pylist()] == [
                record.offset for record in expected
            ]

    def test_compacting_twice_changes_nothing_more(self, log: Log) -> None:
        name = self.compactable(log)
        log.compact(name, 0)
        with unchanged(log, name):
            done = log.compact(name, 0)
        assert done.records_before == done.records_after
