"""Fixed fields of many records at once are those of each record."""

from __future__ import annotations

from typing import Any

import numpy as np

from headwater.log.embedded import batches
from headwater.log.embedded.fields import gather, heads, wide_heads
from headwater.log.layout import HEAD


def test_the_fields_are_those_of_each_record(ground: Any) -> None:
    ground.fill(9, segment=1 << 20).close()
    data, size = ground.mapped(ground.segments()[0])
    starts = np.array(batches.walk(data, 0, size, 0)[0], np.int64)
    found, wide = heads(data, size, starts), wide_heads(data, size, starts, 5)
    assert wide is not None
    for number, at in enumerate(starts.tolist()):
        offset, message, timestamp, mode, key = HEAD.unpack_from(data, at)
        for one in (found[number], wide[number]):
            assert (one["offset"], one["message"], one["timestamp"], one["mode"], one["key"]) == (offset, message, timestamp, mode, key)
            assert int(one["first"]).to_bytes(4, "little") == data[at + 25 : at + 29] == b"key-"
        assert int(wide[number]["size"]) == message - 8 - 5
        assert int(wide[number]["begin"]).to_bytes(4, "little") == data[at + 34 : at + 38] == b"valu"


def test_numbers_are_found_at_any_byte(ground: Any) -> None:
    path = ground.path / "bytes"
    path.write_bytes(bytes(range(16)))
    data, size = ground.mapped(path)
    assert gather(data, size, ">u4", np.array([1, 3, 12])).tolist() == [0x01020304, 0x03040506, 0x0C0D0E0F]


def test_a_record_that_would_reach_beyond_the_bytes_has_no_wide_fields(ground: Any) -> None:
    ground.fill(2, segment=1 << 20).close()
    data, size = ground.mapped(ground.segments()[0])
    assert wide_heads(data, size, np.array([size - 30]), 5) is None
    assert wide_heads(data, size, np.array([-1]), 5) is None
    assert wide_heads(data, size, np.array([0]), size) is None
