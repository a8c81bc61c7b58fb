from __future__ import annotations

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput
from headwater.log.partitioner import murmur2, partition_for

# Printed by org.apache.kafka.common.utils.Utils: murmur2, and toPositive(murmur2) % 7 and % 1024.
JAVA = [
    (b"", 275646681, 2, 217),
    (b"a", -1563381124, 5, 636),
    (b"ab", 316155434, 0, 554),
    (b"abc", 479470107, 4, 539),
    (b"abcd", -1323649548, 5, 500),
    (b"21", -973932308, 3, 236),
    (b"foobar", -790332482, 0, 958),
    (b"a-little-bit-long-string", -985981536, 1, 416),
    (b"a-little-bit-longer-string", -1486304829, 0, 451),
    (b"lkjh234lh9fiuh90y23oiuhsafujhadof229phr9h19h89h8", -58897971, 3, 461),
    ("straße".encode(), -1032057574, 0, 282),
    (b"\xff\xfe\x80\x00\x81", 901173560, 0, 312),
]


@pytest.mark.parametrize(("key", "number", "of_7", "of_1024"), JAVA)
def test_the_partition_is_the_one_that_java_chooses(key: bytes, number: int, of_7: int, of_1024: int) -> None:
    assert murmur2(key) == number & 0xFFFFFFFF
    assert partition_for(key, 7) == of_7
    assert partition_for(key, 1024) == of_1024
    assert partition_for(key, 1) == 0


@given(key=st.binary(max_size=40), count=st.integers(1, 4096))
def test_every_key_has_a_partition(key: bytes, count: int) -> None:
    assert 0 <= partition_for(key, count) < count


@pytest.mark.parametrize("count", [0, -1])
def test_no_partitions_is_bad_input(count: int) -> None:
    with pytest.raises(BadInput):
        partition_for(b"a", count)
