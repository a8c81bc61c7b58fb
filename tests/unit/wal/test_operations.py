from __future__ import annotations

from headwater.wal import operations
from headwater.wal.operations import WAL
from headwater.wal.requests import ReadEntries
from headwater.wire.operation import Role
from headwater.wire.request import shape_of

MAX = 2**64 - 1


def read(**asked: int) -> ReadEntries:
    return ReadEntries(namespace="wal", region=7, table=1, **asked)  # type: ignore[arg-type]


def test_the_largest_numbers_travel() -> None:
    (operation,) = (one for one in WAL.operations if one.name == "read_page")
    sent = shape_of(operation).write(read(start=MAX))
    assert sent.query == {"from": str(MAX)}
    read_back = shape_of(operation).read(
        {"namespace": "wal", "region": str(MAX), "table": str(MAX)}, shape_of(operation).read_query(b"from=%d" % MAX), {}
    )
    assert (read_back.region, read_back.table, read_back.start) == (MAX, MAX, MAX)


def test_looking_changes_nothing_and_changes_need_more_than_a_reader() -> None:
    for one in WAL.operations:
        assert (one.role is Role.READER) == (not one.changes), one.id


def test_who_may_open_a_region_may_close_it() -> None:
    assert operations.CLOSE.role is operations.OPEN.role is Role.WRITER
