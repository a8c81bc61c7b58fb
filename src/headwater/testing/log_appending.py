"""The contract of appending."""

from __future__ import annotations

import time
from collections.abc import Callable

import msgspec
import pyarrow as pa
import pytest

from headwater.core.errors import BadInput, Closed, HeadwaterError, TooLarge, UnknownPartition
from headwater.log import Bounds, Log, Record, TopicSettings
from headwater.log.layout import encode_headers
from headwater.testing.log_ground import Ground, OpenLog, at, everything, fresh, numbered, together, unchanged

MIB = 1 << 20

KINDS = [
    Record(None, None, timestamp=1),
    Record(b"", b"", timestamp=1),
    Record(None, b"value", timestamp=1),
    Record(b"key", None, timestamp=1),
    Record(b"", None, timestamp=1),
    Record(bytes(range(256)), bytes(range(255, -1, -1)), timestamp=1),
    Record("schlüssel".encode(), "значение".encode(), timestamp=1),
    Record(b"k", b"v", (("name", b"value"),), timestamp=1),
    Record(b"k", b"v", (("", b""), ("null", None), ("same", b"1"), ("same", b"2"), ("same", None), ("größe", "→".encode())), timestamp=1),
    Record(None, None, (("only", None),), timestamp=1),
    Record(b"k", b"", (("big", b"x" * 70_000),), timestamp=1),
    Record(b"k", b"v", timestamp=0),
    Record(b"k", b"v", timestamp=4_102_444_800_000),
    Record(b"k", b"v", timestamp=1, mode=1),
    Record(b"k", None, (("h", b"v"),), timestamp=1, mode=2, op=7),
    Record(b"k", b"v", timestamp=1, mode=3, op=4),
]


class Appending(Ground):
    @pytest.mark.parametrize("record", KINDS)
    def test_a_record_comes_back_as_it_was(self, log: Log, topic: str, record: Record) -> None:
        (offset,) = log.append(topic, 0, [record])
        assert log.read(topic, 0, offset) == at([record], [offset])

    def test_all_kinds_in_one_batch_come_back_in_order(self, log: Log, another: OpenLog, topic: str) -> None:
        offsets = log.append(topic, 0, KINDS)
        assert everything(log, topic) == everything(another(), topic) == at(KINDS, offsets)

    def test_every_mode_and_op_is_kept(self, log: Log, topic: str) -> None:
        records = [Record(b"k", b"v", timestamp=1, mode=mode, op=op) for mode in range(4) for op in range(8)]
        offsets = log.append(topic, 0, records)
        assert everything(log, topic) == at(records, offsets)

    def test_a_time_that_is_not_given_is_now(self, log: Log, topic: str) -> None:
        before = time.time_ns() // 1_000_000
        log.append(topic, 0, [Record(b"k", b"v"), Record(b"k", b"v", timestamp=77)])
        after = time.time_ns() // 1_000_000
        now, kept = (record.timestamp for record in everything(log, topic))
        assert now is not None
        assert before <= now <= after
        assert kept == 77

    def test_offsets_begin_at_zero_and_are_consecutive_when_alone(self, log: Log, topic: str) -> None:
        assert list(log.append(topic, 0, numbered(3))) == [0, 1, 2]
        assert list(log.append(topic, 0, numbered(1, start=3))) == [3]
        assert list(log.append(topic, 0, numbered(2, start=4))) == [4, 5]
        assert everything(log, topic) == at(numbered(6), range(6))
        assert log.bounds(topic, 0) == Bounds(0, 6)

    def test_the_offset_of_a_given_record_is_not_what_counts(self, log: Log, topic: str) -> None:
        assert list(log.append(topic, 0, [Record(b"k", b"v", timestamp=1, offset=99)])) == [0]
        assert everything(log, topic) == [Record(b"k", b"v", timestamp=1, offset=0)]

    def test_a_long_batch_keeps_its_order(self, log: Log, topic: str) -> None:
        records = numbered(10_000)
        assert list(log.append(topic, 0, records)) == list(range(10_000))
        assert everything(log, topic) == at(records, range(10_000))

    def test_a_batch_may_be_larger_than_the_largest_record(self, log: Log) -> None:
        name = log.create_topic(fresh("topic"), settings=TopicSettings(max_record=100)).name
        records = [Record(b"%010d" % n, b"x" * 90, timestamp=n + 1) for n in range(5000)]
        assert list(log.append(name, 0, records)) == list(range(5000))
        assert everything(log, name) == at(records, range(5000))

    def test_large_values_come_back_whole(self, log: Log, topic: str) -> None:
        records = [Record(b"%d" % n, bytes([n]) * (5 * MIB + n), timestamp=1) for n in range(3)]
        offsets = log.append(topic, 0, records)
        assert everything(log, topic) == at(records, offsets)

    def test_partitions_are_apart(self, log: Log) -> None:
        name = log.create_topic(fresh("topic"), partitions=3).name
        for number in range(3):
            log.append(name, number, numbered(number, start=10 * number) if number else numbered(5))
        assert [log.bounds(name, number) for number in range(3)] == [Bounds(0, 5), Bounds(0, 1), Bounds(0, 2)]
        assert everything(log, name, 2) == at(numbered(2, start=20), range(2))

    def test_what_was_appended_survives(self, log: Log, another: OpenLog, topic: str) -> None:
        offsets = log.append(topic, 0, KINDS)
        log.close()
        again = another()
        assert everything(again, topic) == at(KINDS, offsets)
        assert list(again.append(topic, 0, numbered(1))) == [len(KINDS)]

    def test_another_log_sees_an_append_as_soon_as_it_returns(self, log: Log, another: OpenLog, topic: str) -> None:
        other, records = another(), numbered(20)
        for n in range(0, 20, 2):
            log.append(topic, 0, [records[n]])
            assert everything(other, topic) == at(records[: n + 1], range(n + 1))
            other.append(topic, 0, [records[n + 1]])
            assert everything(log, topic) == at(records[: n + 2], range(n + 2))

    def test_threads_and_logs_may_append_at_once(self, log: Log, another: OpenLog, topic: str) -> None:
        other = another()
        taken: dict[bytes, list[int]] = {}

        def write(writer: Log, who: bytes) -> None:
            offsets = taken[who] = []
            for batch in range(20):
                offsets += writer.append(topic, 0, [Record(who, b"%d" % (10 * batch + n), timestamp=1) for n in range(10)])

        writers = [(log, b"a"), (log, b"b"), (other, b"c"), (other, b"d")]
        together(*(lambda writer=writer, who=who: write(writer, who) for writer, who in writers))
        records = everything(log, topic)
        assert [record.offset for record in records] == list(range(800))
        assert sorted(offset for offsets in taken.values() for offset in offsets) == list(range(800))
        for who, offsets in taken.items():
            assert offsets == sorted(offsets)
            own = [record for record in records if record.key == who]
            assert [record.value for record in own] == [b"%d" % n for n in range(200)]
            assert [record.offset for record in own] == offsets

    # -- columns --------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("kind", [pa.binary(), pa.binary_view()], ids=str)
    def test_columns_are_appended_as_records_are(self, log: Log, topic: str, kind: pa.DataType) -> None:
        batch = pa.record_batch(
            {
                "key": pa.array([b"a", None, b"", b"d" * 300], kind),
                "value": pa.array([b"1", b"", None, b"4" * 3000], kind),
                "timestamp": pa.array([5, 0, 7, 8], pa.int64()),
                "mode": pa.array([0, 1, 2, 3], pa.uint8()),
                "op": pa.array([7, 0, 1, 2], pa.uint8()),
            }
        )
        assert list(log.append_arrow(topic, 0, batch)) == [0, 1, 2, 3]
        assert everything(log, topic) == [
            Record(b"a", b"1", (), 5, 0, 7, 0),
            Record(None, b"", (), 0, 1, 0, 1),
            Record(b"", None, (), 7, 2, 1, 2),
            Record(b"d" * 300, b"4" * 3000, (), 8, 3, 2, 3),
        ]

    @pytest.mark.parametrize("kind", [pa.binary(), pa.binary_view()], ids=str)
    def test_headers_are_appended_with_columns(self, log: Log, topic: str, kind: pa.DataType) -> None:
        headers = [(), (("a", b"1"), ("b", None)), (("c", b""),)]
        batch = pa.record_batch(
            {
                "key": pa.array([b"k", None, b"l"]),
                "value": pa.array([b"v", None, b"w" * 70]),
                "timestamp": pa.array([1, 2, 3]),
                "headers": pa.array([encode_headers(pairs) if pairs else None for pairs in headers], kind),
            }
        )
        log.append_arrow(topic, 0, batch)
        assert everything(log, topic) == [
            Record(b"k", b"v", (), 1, 0, 0, 0),
            Record(None, None, headers[1], 2, 0, 0, 1),
            Record(b"l", b"w" * 70, headers[2], 3, 0, 0, 2),
        ]

    def test_what_was_scanned_can_be_appended(self, log: Log, topic: str) -> None:
        log.append(topic, 0, [Record(b"k", b"v", (("h", b"1"),), 5, 1, 2), Record(None, None, (), 6)])
        [scanned] = [batch_read for batch_read in log.scan(topic, 0, 0) if len(batch_read)]
        log.append_arrow(topic, 0, scanned.drop_columns(["offset"]))
        first, second, *again = everything(log, topic)
        assert [msgspec.structs.replace(record, offset=None) for record in again] == [
            msgspec.structs.replace(record, offset=None) for record in (first, second)
        ]

    def test_key_and_value_alone_will_do(self, log: Log, topic: str) -> None:
        before = time.time_ns() // 1_000_000
        log.append_arrow(topic, 0, pa.record_batch({"key": pa.array([b"k"] * 3), "value": pa.array([b"v"] * 3)}))
        records = everything(log, topic)
        assert [(record.key, record.value, record.mode, record.op) for record in records] == [(b"k", b"v", 0, 0)] * 3
        assert all(record.timestamp is not None and record.timestamp >= before for record in records)

    def test_a_slice_of_columns_is_appended_alone(self, log: Log, topic: str) -> None:
        batch = pa.record_batch({"key": pa.array([b"%d" % n for n in range(9)]), "value": pa.array([b"x"] * 9)})
        log.append_arrow(topic, 0, batch.slice(3, 4))
        assert [record.key for record in everything(log, topic)] == [b"3", b"4", b"5", b"6"]

    @pytest.mark.parametrize(
        "batch",
        [
            pa.record_batch({"key": pa.array([], pa.binary()), "value": pa.array([], pa.binary())}),
            pa.record_batch({"key": pa.array([b"k"])}),
            pa.record_batch({"value": pa.array([b"v"])}),
            pa.record_batch({"key": pa.array([b"k"]), "value": pa.array([b"v"]), "colour": pa.array([1])}),
            pa.record_batch({"key": pa.array([b"k"]), "value": pa.array([b"v"]), "mode": pa.array([4], pa.uint8())}),
            pa.record_batch({"key": pa.array([b"k"]), "value": pa.array([b"v"]), "op": pa.array([8], pa.uint8())}),
            pa.record_batch({"key": pa.array([b"k"]), "value": pa.array([b"v"]), "timestamp": pa.array([-1], pa.int64())}),
            pa.record_batch({"key": pa.array([b"k"]), "value": pa.array([b"v"]), "headers": pa.array([b"\0\0\0\4\0\1\0\0x"])}),
        ],
        ids=["empty", "no value", "no key", "unknown column", "mode", "op", "timestamp", "headers"],
    )
    def test_columns_that_make_no_records_are_refused(self, log: Log, topic: str, batch: pa.RecordBatch) -> None:
        log.append(topic, 0, numbered(2))
        with unchanged(log, topic), pytest.raises(BadInput):
            log.append_arrow(topic, 0, batch)

    def test_columns_have_the_same_limit(self, log: Log) -> None:
        name = log.create_topic(fresh("topic"), settings=TopicSettings(max_record=100)).name
        batch = pa.record_batch({"key": pa.array([b"k", b"k"]), "value": pa.array([b"v", b"x" * 100])})
        with unchanged(log, name), pytest.raises(TooLarge):
            log.append_arrow(name, 0, batch)

    # -- bad input ------------------------------------------------------------------------------------------

    @pytest.mark.parametrize("partition", [-1, 2, 1 << 40])
    def test_a_partition_out_of_range_is_unknown(self, log: Log, partition: int) -> None:
        name = log.create_topic(fresh("topic"), partitions=2).name
        log.append(name, 1, numbered(2))
        columns = pa.record_batch({"key": pa.array([b"k"]), "value": pa.array([b"v"])})
        asks: list[Callable[[], object]] = [
            lambda: log.append(name, partition, numbered(1)),
            lambda: log.append_arrow(name, partition, columns),
            lambda: log.claim(name, partition),
            lambda: log.bounds(name, partition),
            lambda: log.read(name, partition, 0),
            lambda: list(log.scan(name, partition, 0)),
            lambda: next(log.tail(name, partition, 0, stopped=lambda: False)),
            lambda: log.offset_at(name, partition, 0),
            lambda: log.delete_before(name, partition, 0),
            lambda: log.compact(name, partition),
        ]
        with unchanged(log, name):
            for ask in asks:
                with pytest.raises(UnknownPartition):
                    ask()

    @pytest.mark.parametrize(
        ("records", "error"),
        [
            ([], BadInput),
            ([Record(b"k", b"v", mode=4)], BadInput),
            ([Record(b"k", b"v", op=8)], BadInput),
            ([Record(b"k", b"v", mode=-1)], BadInput),
            ([Record(b"k", b"v"), Record(b"k", b"v", op=-1)], BadInput),
            ([Record(b"k", b"v", timestamp=-1)], BadInput),
            ([Record(b"k", b"v", timestamp=1 << 63)], BadInput),
            ([Record(b"k", b"x" * 5000)], TooLarge),
            ([Record(b"x" * 5000, None)], TooLarge),
            ([Record(b"k", b"v", (("h", b"x" * 5000),))], TooLarge),
            ([Record(b"k", b"v"), Record(b"k", b"v"), Record(b"k", b"x" * 5000)], TooLarge),
        ],
    )
    def test_what_does_not_fit_is_refused_whole(self, log: Log, records: list[Record], error: type[HeadwaterError]) -> None:
        name = log.create_topic(fresh("topic"), settings=TopicSettings(max_record=1000)).name
        log.append(name, 0, numbered(2))
        with unchanged(log, name), pytest.raises(error) as refused:
            log.append(name, 0, records)
        assert refused.value.hint
        assert list(log.append(name, 0, numbered(1))) == [2]

    def test_a_record_may_be_as_large_as_the_limit_and_no_larger(self, log: Log) -> None:
        name = log.create_topic(fresh("topic"), settings=TopicSettings(max_record=3 * MIB)).name
        largest = Record(b"k" * MIB, b"v" * 2 * MIB, timestamp=1)
        offsets = log.append(name, 0, [largest])
        with unchanged(log, name), pytest.raises(TooLarge):
            log.append(name, 0, [Record(b"k" * MIB, b"v" * (2 * MIB + 1), timestamp=1)])
        assert everything(log, name) == at([largest], offsets)

    def test_a_closed_log_does_nothing_more(self, log: Log, another: OpenLog, topic: str) -> None:
        log.append(topic, 0, numbered(3))
        writer = log.claim(topic, 0)
        columns = pa.record_batch({"key": pa.array([b"k"]), "value": pa.array([b"v"])})
        log.close()
        log.close()
        asks: list[Callable[[], object]] = [
            lambda: log.create_topic(fresh("topic")),
            log.topics,
            lambda: log.topic(topic),
            lambda: log.delete_topic(topic),
            lambda: log.append(topic, 0, numbered(1)),
            lambda: log.append_arrow(topic, 0, columns),
            lambda: log.claim(topic, 0),
            lambda: log.bounds(topic, 0),
            lambda: log.read(topic, 0, 0),
            lambda: list(log.scan(topic, 0, 0)),
            lambda: next(log.tail(topic, 0, 0, stopped=lambda: False)),
            lambda: log.offset_at(topic, 0, 0),
            lambda: log.delete_before(topic, 0, 1),
            lambda: log.compact(topic, 0),
            lambda: writer.append(numbered(1)),
            lambda: writer.append_arrow(columns),
        ]
        with unchanged(another(), topic):
            for ask in asks:
                with pytest.raises(Closed):
                    ask()
