from __future__ import annotations

from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.wal.sizes import LogSize, mean_size, measured


def test_keys_and_values_are_counted(log: EmbeddedLog) -> None:
    log.create_topic("sizes")
    assert measured(log, "sizes", 0, 0) == LogSize(0, 0)
    assert mean_size(log, "sizes") == 0
    for size in (3, 100, 0):
        log.append("sizes", 0, [Record(b"key", b"x" * size), Record(None, b"y"), Record(b"key", None)])
    assert measured(log, "sizes", 0, 9) == LogSize(9, 3 * 7 + 103)
    assert measured(log, "sizes", 3, 5) == LogSize(2, 104)
    assert mean_size(log, "sizes") == (3 * 7 + 103) / 9
    log.delete_before("sizes", 0, 3)
    assert measured(log, "sizes", 0, 5) == LogSize(2, 104)
