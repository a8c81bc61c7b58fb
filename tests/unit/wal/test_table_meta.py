from __future__ import annotations

import numpy as np
import pytest

from headwater.wal.layout import MalformedRecord
from headwater.wal.table_meta import TableMeta


def written(*offsets: int) -> TableMeta:
    table = TableMeta()
    for offset in offsets:
        table.write(table.next, 1, offset)
    return table


def test_a_new_table_begins_at_one_and_needs_nothing() -> None:
    table = TableMeta()
    assert (table.next, table.marked, table.live, table.safe_offset) == (1, 1, 0, None)
    assert table.offsets(0, 9) == []


def test_the_payloads_of_a_batch_share_an_offset() -> None:
    table = written(4)
    table.write(2, 3, 16)
    assert (table.next, table.watermark, table.live) == (5, 17, 4)
    assert table.offsets(0, 9) == [4, 16, 16, 16]
    assert table.offsets(2, 3) == [16, 16]


def test_what_is_flushed_is_no_longer_needed() -> None:
    table = written(*range(0, 1000, 10))
    table.mark(51)
    assert (table.safe_offset, table.live, table.watermark) == (500, 50, 991)
    assert table.offsets(0, 52) == [500, 510]
    table.mark(101)
    assert (table.safe_offset, table.live, table.next) == (None, 0, 101)
    table.write(101, 1, 2000)
    assert table.offsets(0, 200) == [2000]


def test_moved_payloads_lie_at_the_end_under_their_sequences() -> None:
    table = written(1, 2, 3, 4)
    table.move(1, 2, 90)
    assert (table.offsets(1, 4), table.safe_offset, table.watermark) == ([90, 90, 3, 4], 3, 91)
    table.mark(2)
    table.move(1, 2, 95)  # of the two, the first is flushed meanwhile
    assert table.offsets(1, 4) == [95, 3, 4]
    table.move(3, 2, 96)
    assert table.safe_offset == 95
    table.write(5, 1, 97)
    assert table.offsets(1, 9) == [95, 96, 96, 97]


@pytest.mark.parametrize("sequence", [0, 1, 2, 4])
def test_other_numbers_than_the_next_are_refused(sequence: int) -> None:
    table = written(1, 2)
    with pytest.raises(MalformedRecord, match="3 is next"):
        table.write(sequence, 1, 9)
    assert table == written(1, 2)


def test_marks_and_moves_outside_of_the_table_are_refused() -> None:
    table = written(1, 2, 3)
    table.mark(2)
    for boundary in (0, 1, 5):
        with pytest.raises(MalformedRecord):
            table.mark(boundary)
    for sequence, count in ((0, 1), (3, 2), (9, 1)):
        with pytest.raises(MalformedRecord):
            table.move(sequence, count, 50)
    assert (table.marked, table.offsets(0, 9)) == (2, [2, 3])


def test_offsets_that_do_not_fit_the_numbers_are_refused() -> None:
    with pytest.raises(MalformedRecord, match="1 offsets"):
        TableMeta(next=5, marked=2, offsets=[7])


def test_a_copy_stays_as_it_was() -> None:
    table = written(*range(0, 2000, 10))
    table.mark(3)
    copy, same = table.copied(), TableMeta(next=201, marked=3, watermark=1991, offsets=range(20, 2000, 10))
    table.write(201, 2, 5000)
    assert copy == same
    table.move(3, 2, 6000)
    assert copy == same
    table.mark(150)
    assert copy == same
    assert (copy.safe_offset, copy.live, copy.offsets(3, 4)) == (20, 198, [20, 30])
    assert (table.safe_offset, table.live) == (1490, 53)


def test_a_column_that_was_taken_does_not_stop_a_table_from_growing() -> None:
    table = written(1, 2, 3)
    column = table.column()
    table.write(4, 1, 9)
    assert column.tolist() == [1, 2, 3]
    assert table.column().tolist() == [1, 2, 3, 9]


def test_offsets_come_as_numbers_or_as_a_column() -> None:
    assert TableMeta(next=4, offsets=np.array([4, 5, 9])) == TableMeta(next=4, offsets=[4, 5, 9])
