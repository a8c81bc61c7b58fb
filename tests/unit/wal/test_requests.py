from __future__ import annotations

import pytest

from headwater.core.errors import BadBounds, BadInput
from headwater.wal.bounds import SequenceRange
from headwater.wal.requests import MarkTable, ReadEntries, RegionRequest, ScanRegion, TableRequest, WriteEntries
from headwater.wire.operation import Request

MAX = 2**64 - 1


def read(**asked: int) -> ReadEntries:
    return ReadEntries(namespace="wal", region=7, table=1, **asked)  # type: ignore[arg-type]


def test_bounds_of_the_address_are_bounds_of_sequences() -> None:
    assert read().range == SequenceRange(0, MAX)
    assert read(start=3, stop=5).range == SequenceRange(3, 5)
    assert read(start=1, after=3).range == SequenceRange(4, MAX)
    for wrong in (read(start=5, stop=4), read(after=MAX), read(after=4, stop=4), read(start=-1)):
        with pytest.raises(BadBounds):
            wrong.check()


@pytest.mark.parametrize(
    "wrong",
    [
        RegionRequest(namespace="a_b", region=1),
        RegionRequest(namespace="wal", region=-1),
        RegionRequest(namespace="wal", region=MAX + 1),
        TableRequest(namespace="wal", region=1, table=MAX + 1),
        MarkTable(namespace="wal", region=1, table=1, sequence=-1),
        WriteEntries(namespace="wal", region=1, table=1),
        WriteEntries(namespace="wal", region=1, table=1, payloads=[b"a"], timeout="5"),
        ScanRegion(namespace="wal", region=1, tables="1,,2"),
        ScanRegion(namespace="wal", region=1, tables="x"),
        ScanRegion(namespace="wal", region=1, tables=str(MAX + 1)),
    ],
)
def test_what_cannot_be_asked_is_bad_input(wrong: Request) -> None:
    with pytest.raises(BadInput):
        wrong.check()
