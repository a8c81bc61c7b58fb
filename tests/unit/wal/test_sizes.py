from __future__ import annotations

from tests.unit.wal.conftest import TOPICS

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.wal.layout import EMPTY, RecordKind, encode_key, encode_payloads
from headwater.wal.sizes import LogSize, MeanSizes, mean_sizes, measured


def test_keys_and_values_are_counted(log: EmbeddedLog) -> None:
    log.create_topic("sizes")
    assert measured(log, "sizes", 0, 0) == LogSize(0, 0)
    assert mean_sizes(log, "sizes") == MeanSizes(0, 0)
    for size in (3, 100, 0):
        log.append("sizes", 0, [Record(b"key", b"x" * size), Record(None, b"y"), Record(b"key", None)])
    assert measured(log, "sizes", 0, 9) == LogSize(9, 3 * 7 + 103)
    assert measured(log, "sizes", 3, 5) == LogSize(2, 104)
    assert mean_sizes(log, "sizes") == MeanSizes((3 * 7 + 103) / 9, 0)
    log.delete_before("sizes", 0, 3)
    assert measured(log, "sizes", 0, 5) == LogSize(2, 104)


def test_payloads_of_a_batch_are_counted_each(log: EmbeddedLog) -> None:
    log.append(TOPICS.data, 0, [Record(encode_key(RecordKind.ENTRY, 7, 1, 1), encode_payloads([b"x" * 50] * 10))], part="wal")
    log.append(TOPICS.data, 0, [Record(encode_key(RecordKind.MARK, 7, 1, 5), EMPTY)], part="wal")
    assert mean_sizes(log, TOPICS.data) == MeanSizes((26 + 545 + 26 + 1) / 2, 54.5)
