from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import TYPE_CHECKING

import pytest

from headwater.cli.log_reading import row_of, select
from headwater.client import open_blocking
from headwater.core.errors import BadBounds, BadInput, OffsetGone, UnknownPartition, UnknownTopic
from headwater.log.record import Mode, Record

if TYPE_CHECKING:
    from headwater.client.blocking import BlockingLog


@pytest.fixture
def log(tmp_path: Path) -> Iterator[BlockingLog]:
    with open_blocking(tmp_path) as hw:
        opened = hw.log
        opened.create_topic("bank", partitions=2)
        opened.create_topic("one")
        for partition in (0, 1):
            opened.append(
                "bank", partition, [Record(key=b"k%d" % (n % 3), value=b"%d" % n, headers=(("n", b"%d" % n),)) for n in range(10)]
            )
        yield opened


def found(
    log: BlockingLog, partition: int | None, first: int | None, last: int | None, key: str | None = None, topic: str = "bank"
) -> list[tuple[int, int | None]]:
    return [(number, record.offset) for number, record in select(log, topic, partition, first, last, key)]


# -- which records ----------------------------------------------------------------------------------------------


def test_without_a_range_every_partition_is_shown_in_turn(log: BlockingLog) -> None:
    assert found(log, None, None, None) == [(p, o) for p in (0, 1) for o in range(10)]
    assert found(log, 1, None, None) == [(1, o) for o in range(10)]


def test_a_range_of_one_partition(log: BlockingLog) -> None:
    assert found(log, 1, 3, 5) == [(1, 3), (1, 4), (1, 5)]
    assert found(log, 1, 8, None) == [(1, 8), (1, 9)]
    assert found(log, 1, 8, 1000) == [(1, 8), (1, 9)]
    assert found(log, 0, 0, 0) == [(0, 0)]


def test_a_range_in_a_topic_of_several_partitions_needs_one(log: BlockingLog) -> None:
    with pytest.raises(BadInput, match="2 partitions"):
        found(log, None, 3, 5)


def test_a_key_is_looked_for_in_columns_and_comes_with_everything(log: BlockingLog) -> None:
    assert found(log, None, None, None, "k1") == [(p, o) for p in (0, 1) for o in (1, 4, 7)]
    assert found(log, 0, 2, 6, "k1") == [(0, 4)]
    assert found(log, 0, None, None, "nobody") == []
    [(_, by_key)] = select(log, "bank", 0, 4, 4, "k1")
    [by_offset] = log.read("bank", 0, 4, limit=1)
    assert by_key == by_offset


def test_bounds_are_checked_before_anything_is_shown(log: BlockingLog) -> None:
    log.delete_before("bank", 0, 4)
    with pytest.raises(OffsetGone, match="begins at offset 4"):
        select(log, "bank", 0, 3, 5, None)
    with pytest.raises(BadBounds, match="its last is 9"):
        select(log, "bank", 0, 10, None, None)
    with pytest.raises(BadBounds, match="beyond"):
        select(log, "bank", 0, 11, None, None)
    with pytest.raises(BadBounds, match="it is empty"):
        select(log, "one", None, 0, 0, None)
    with pytest.raises(UnknownTopic):
        select(log, "nobody", None, None, None, None)
    with pytest.raises(UnknownPartition):
        select(log, "bank", 2, None, None, None)
    assert found(log, None, None, None, topic="one") == []


# -- how they look ----------------------------------------------------------------------------------------------


def test_the_cells_of_a_record() -> None:
    record = Record(
        key=b"k", value=b'{"a": 1}', headers=(("h", b"x"), ("n", None)), timestamp=1_491_252_302_000, mode=Mode.SYNC, op=2, offset=7
    )
    assert row_of(3, record, "text") == ("3", "7", "2017-04-03T20:45:02.000Z", "k", '{"a": 1}', "op 2 sync h=x n=-")
    assert row_of(3, record, "hex")[3:5] == ("6b", "7b2261223a20317d")
    bare = Record(key=None, value=b"\xff", timestamp=0, offset=0)
    assert row_of(0, bare, "json") == ("0", "0", "1970-01-01T00:00:00.000Z", "-", '{"$binary":"/w=="}', "")
