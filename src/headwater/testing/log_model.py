"""A log is a list: random histories of a log, beside a list that is kept by hand. Needs hypothesis.

class MyModel(LogModel):
    @contextmanager
    def storage(self):
        with TemporaryDirectory() as path:
            yield lambda: MyLog(path)

TestMyModel = MyModel.TestCase
"""

from __future__ import annotations

from abc import abstractmethod
from collections.abc import Sequence
from contextlib import AbstractContextManager, ExitStack, suppress
from typing import Any

import pytest
from hypothesis import strategies as st
from hypothesis.stateful import RuleBasedStateMachine, initialize, invariant, precondition, rule

from headwater.core.disposal import Disposal
from headwater.core.errors import BadBounds, Fenced, OffsetGone, Unsupported
from headwater.log import Bounds, Log, Record, TopicSettings, Writer
from headwater.log.epochs import Epochs, unmarked
from headwater.testing.log_ground import OpenLog, at, everything, fresh
from headwater.testing.log_reading import rows

HEADERS = st.lists(st.tuples(st.sampled_from(["", "a", "größe"]), st.none() | st.binary(max_size=5)), max_size=2).map(tuple)
RECORDS = st.lists(
    st.builds(
        Record,
        key=st.sampled_from([None, b"", b"a", b"b", b"c" * 40]),
        value=st.none() | st.binary(max_size=60),
        headers=HEADERS,
        timestamp=st.integers(0, 2000),
        mode=st.integers(0, 3),
        op=st.integers(0, 7),
    ),
    min_size=1,
    max_size=6,
)
PART = st.integers(0, 1000)  # where in the partition, in thousandths


class LogModel(RuleBasedStateMachine):
    """Two logs on one storage, one partition, and the list of the records that count."""

    compacts = True
    disposals: Sequence[Disposal] = ("delete",)  # of which each history has one

    @abstractmethod
    def storage(self) -> AbstractContextManager[OpenLog]:
        """Fresh storage, and the function that opens a Log on it."""

    def __init__(self) -> None:
        super().__init__()
        self._held = ExitStack()
        self._open = self._held.enter_context(self.storage())
        self.logs: list[Log] = [self._open(), self._open()]
        self.records: list[Record] = []
        self.bounds = Bounds(0, 0)
        self.epoch = 0  # of the fold where the partition starts
        self.writers: list[Writer] = []  # the newest one last

    @initialize(data=st.data())
    def create(self, data: st.DataObject) -> None:
        settings = TopicSettings(segment=400, disposal=data.draw(st.sampled_from(self.disposals)))
        self.topic = self.logs[0].create_topic(fresh("model"), settings=settings).name

    def teardown(self) -> None:
        for log in self.logs:
            log.close()
        self._held.close()

    # -- what the log does ----------------------------------------------------------------------------------

    @precondition(lambda self: not self.writers)
    @rule(records=RECORDS, which=st.integers(0, 1))
    def append(self, records: list[Record], which: int) -> None:
        self._took(records, self.logs[which].append(self.topic, 0, records))

    @rule(which=st.integers(0, 1))
    def claim(self, which: int) -> None:
        writer = self.logs[which].claim(self.topic, 0)
        assert not self.writers or writer.epoch > self.writers[-1].epoch
        self.writers.append(writer)
        self._end_may_move()

    @precondition(lambda self: self.writers)
    @rule(records=RECORDS)
    def write(self, records: list[Record]) -> None:
        self._took(records, self.writers[-1].append(records))

    @precondition(lambda self: len(self.writers) > 1)
    @rule(records=RECORDS, which=PART)
    def write_though_stale(self, records: list[Record], which: int) -> None:
        with pytest.raises(Fenced):
            self.writers[which * (len(self.writers) - 2) // 1000].append(records)
        self._end_may_move()

    @precondition(lambda self: self.writers)
    @rule(records=RECORDS, which=st.integers(0, 1))
    def append_without_a_claim(self, records: list[Record], which: int) -> None:
        with suppress(Fenced):
            self.logs[which].append(self.topic, 0, records)
        self._end_may_move()

    @rule(part=PART)
    def delete_before(self, part: int) -> None:
        offset = self._offset(part)
        epochs = Epochs(self.epoch)
        for record in everything(self.logs[0], self.topic):
            if self._at(record) < offset:
                epochs.admits(record)
        if self.writers:
            if offset > self.bounds.start:
                with pytest.raises(Fenced):
                    self.logs[0].delete_before(self.topic, 0, offset)
            assert self.writers[-1].delete_before(offset) == offset
        else:
            assert self.logs[0].delete_before(self.topic, 0, offset) == offset
        self.epoch = epochs.epoch
        self.bounds = Bounds(offset, self.bounds.end)
        self._end_may_move()
        self.records = [record for record in self.records if self._at(record) >= offset]

    @rule(part=PART)
    def compact(self, part: int) -> None:
        before = self._offset(part)
        if not self.compacts:
            with pytest.raises(Unsupported):
                self.logs[0].compact(self.topic, 0, before)
            return
        if self.writers:
            with pytest.raises(Fenced):
                self.logs[0].compact(self.topic, 0, before)
            self.writers[-1].compact(before)
        else:
            self.logs[0].compact(self.topic, 0, before)
        left = everything(self.logs[0], self.topic)
        kept = {self._at(record) for record in left}
        assert left == [record for record in self.records if self._at(record) in kept]
        for record in self.records:
            if self._at(record) not in kept:
                later = [other for other in left if other.key == record.key and self._at(record) < self._at(other) < before]
                assert record.key is not None
                assert later, f"offset {record.offset} is gone, and no later record below {before} has its key"
        self.records = left

    @precondition(lambda self: self.writers)
    @rule()
    def roll(self) -> None:
        if not self.compacts:
            with pytest.raises(Unsupported):
                self.writers[-1].roll()
            return
        assert self.writers[-1].roll() == self.bounds.end

    @precondition(lambda self: len(self.writers) > 1)
    @rule(which=PART, part=PART)
    def keep_house_though_stale(self, which: int, part: int) -> None:
        stale = self.writers[which * (len(self.writers) - 2) // 1000]
        offset = self._offset(part)
        if offset > self.bounds.start:  # below it there is nothing to refuse
            with pytest.raises(Fenced):
                stale.delete_before(offset)
        for refused in (stale.roll, lambda: stale.compact(offset)):
            with pytest.raises((Fenced, Unsupported)):
                refused()
        self._end_may_move()

    @rule(which=st.integers(0, 1))
    def reopen(self, which: int) -> None:
        newest = self.writers[-1] if self.writers else None
        self.logs[which].close()
        self.logs[which] = self._open()
        self.writers = []
        if newest is not None:  # its claim stands, but it may be of the closed log: claim anew to have one that can write
            writer = self.logs[which].claim(self.topic, 0)
            assert writer.epoch > newest.epoch
            self.writers = [writer]
            self._end_may_move()

    # -- what the log says ----------------------------------------------------------------------------------

    @invariant()
    def the_records_that_count_are_those_of_the_list(self) -> None:
        if not hasattr(self, "topic"):
            return
        for log in self.logs:
            assert log.bounds(self.topic, 0) == self.bounds
            assert self._counting(everything(log, self.topic)) == self.records
            assert log.epoch(self.topic, 0) == (self.writers[-1].epoch if self.writers else 0)

    @rule(part=PART, limit=st.integers(1, 12))
    def read(self, part: int, limit: int) -> None:
        raw, start = everything(self.logs[0], self.topic), self._offset(part)
        expected = [record for record in raw if self._at(record) >= start][:limit]
        assert self.logs[1].read(self.topic, 0, start, limit=limit) == expected

    @rule(parts=st.lists(PART, max_size=12), which=st.integers(0, 1))
    def read_at(self, parts: list[int], which: int) -> None:
        """Also what was deleted or compacted away, in any order and more than once."""
        there = {self._at(record): record for record in everything(self.logs[0], self.topic)}
        offsets = [self.bounds.end * part // 1001 for part in parts if self.bounds.end]
        assert self.logs[which].read_at(self.topic, 0, offsets) == [there.get(offset) for offset in offsets]

    @rule(parts=st.tuples(PART, PART), size=st.integers(1, 12))
    def scan(self, parts: tuple[int, int], size: int) -> None:
        start, end = sorted(self._offset(part) for part in parts)
        batches = list(self.logs[1].scan(self.topic, 0, start, end, batch=size))
        assert all(0 < batch.num_rows <= size for batch in batches)
        expected = [record for record in everything(self.logs[0], self.topic) if start <= self._at(record) < end]
        assert [record for batch in batches for record in rows(batch)] == expected

    @rule(beyond=st.integers(1, 5))
    def read_outside(self, beyond: int) -> None:
        with pytest.raises(BadBounds):
            self.logs[0].read(self.topic, 0, self.bounds.end + beyond)
        with pytest.raises(OffsetGone):
            self.logs[1].read(self.topic, 0, self.bounds.start - beyond)

    @rule(timestamp=st.integers(0, 2100))
    def search(self, timestamp: int) -> None:
        raw = everything(self.logs[0], self.topic)
        first = next((self._at(record) for record in raw if (record.timestamp or 0) >= timestamp), self.bounds.end)
        assert self.bounds.start <= self.logs[1].offset_at(self.topic, 0, timestamp) <= first

    # -- the list -------------------------------------------------------------------------------------------

    def _took(self, records: list[Record], offsets: Any) -> None:
        offsets = list(offsets)
        assert offsets == list(range(offsets[0], offsets[0] + len(records)))
        assert offsets[0] == self.bounds.end
        self.records += at(records, offsets)
        self.bounds = Bounds(self.bounds.start, offsets[-1] + 1)

    def _end_may_move(self) -> None:
        """An engine may keep claims, and what stale writers have left, as records that do not count."""
        now = self.logs[0].bounds(self.topic, 0)
        assert now.start == self.bounds.start
        assert now.end >= self.bounds.end
        self.bounds = now

    def _counting(self, raw: list[Record]) -> list[Record]:
        epochs = Epochs(self.epoch)
        return [unmarked(record) for record in raw if epochs.admits(record)]

    def _offset(self, part: int) -> int:
        return self.bounds.start + (self.bounds.end - self.bounds.start) * part // 1000

    @staticmethod
    def _at(record: Record) -> int:
        assert record.offset is not None
        return record.offset
