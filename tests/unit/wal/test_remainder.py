from __future__ import annotations

from hypothesis import given
from tests.unit.wal.test_region_meta import DROP, ENTRY, MARK, MOVE, Step, folded, histories

from headwater.wal.region_meta import RegionMeta
from headwater.wal.remainder import Remainder


def left(steps: list[Step], watermark: int = 0) -> RegionMeta:
    remainder = Remainder(watermark=watermark)
    for step in steps:
        remainder.apply(*step)
    return remainder.meta()


@given(histories())
def test_of_a_whole_log_everything_is_left(steps: list[Step]) -> None:
    assert left(steps) == folded(steps)


@given(histories())
def test_of_a_cleaned_log_everything_live_is_left(steps: list[Step]) -> None:
    """Nothing below the safe offset is needed. What is flushed may come back where its mark is gone; numbers never go back."""
    whole = folded(steps)
    found = left([step for step in steps if step[4] >= whole.safe_offset], whole.safe_offset)
    for number, table in whole.tables.items():
        if table.live:
            rest = found.tables[number]
            assert rest.next == table.next
            assert rest.marked <= table.marked
            assert rest.offsets(table.marked, table.next) == table.offsets(table.marked, table.next)


def test_moved_payloads_count_wherever_they_lie() -> None:
    found = left([(MOVE, 1, 1, 3, 10), (ENTRY, 1, 6, 1, 11), (MOVE, 1, 4, 2, 12), (ENTRY, 1, 7, 1, 13)])
    assert (found.tables[1].marked, found.tables[1].offsets(0, 99)) == (1, [10, 10, 10, 12, 12, 11, 13])


def test_what_lies_before_a_gap_is_lost() -> None:
    found = left([(ENTRY, 1, 3, 2, 10), (ENTRY, 1, 8, 1, 11)])
    assert (found.tables[1].marked, found.tables[1].next) == (8, 9)


def test_a_mark_tells_how_far_its_table_was_written_and_a_drop_ends_it() -> None:
    found = left([(MARK, 1, 9, 1, 10), (DROP, 2, 5, 1, 11), (ENTRY, 3, 4, 1, 12), (DROP, 3, 5, 1, 13), (ENTRY, 3, 1, 1, 14)])
    assert {number: (table.next, table.marked) for number, table in found.tables.items()} == {1: (9, 9), 3: (2, 1)}
    assert found.watermark == 15


def test_what_is_missing_of_known_tables_is_told() -> None:
    remainder = Remainder(watermark=5, tables={1: (9, 3, 5), 2: (4, 4, 5)})
    remainder.apply(ENTRY, 1, 8, 1, 6)
    remainder.pass_over(7)
    found = remainder.meta()
    assert (remainder.lost, found.watermark) == (["table 1 has lost 3 to 7"], 8)
    assert found.tables[2].next == 4
