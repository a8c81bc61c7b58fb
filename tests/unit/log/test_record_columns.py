from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import TooLarge
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.encoding import encode
from headwater.log.record import Record
from headwater.log.record_columns import RecordColumns


def columns(count: int, *, mixed: bool = False) -> RecordColumns:
    return RecordColumns([b"k%04d" % i for i in range(count)], [b"v" * (i % 7 if mixed else 5) for i in range(count)])


def test_they_are_a_sequence_of_records() -> None:
    found = RecordColumns([b"a", b"b", b"c"], [b"1", b"2", b"3"])
    assert len(found) == 3
    assert list(found) == [Record(b"a", b"1"), Record(b"b", b"2"), Record(b"c", b"3")]
    assert found[1] == Record(b"b", b"2")
    assert found[-1] == Record(b"c", b"3")
    assert list(found[1:]) == list(found)[1:]
    with pytest.raises(IndexError):
        found[3]


@pytest.mark.parametrize("mixed", [False, True])
@pytest.mark.parametrize("count", [1, 2, 31, 32, 127, 128, 1000])
def test_their_bytes_are_those_of_the_records(count: int, mixed: bool) -> None:
    """However many there are: records are encoded one by one, or by columns."""
    found = columns(count, mixed=mixed)
    assert encode(found, now=7).buffer == encode(list(found), now=7).buffer


def test_one_that_is_too_large_is_refused() -> None:
    found = columns(200)
    found = RecordColumns(found.keys, [*found.values[:150], bytes(100), *found.values[151:]])
    with pytest.raises(TooLarge):
        encode(found, now=7, limit=50)


def test_a_log_takes_them_as_any_records(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        found = columns(300, mixed=True)
        assert log.append("t", 0, found) == range(300)
        assert [(one.key, one.value) for one in log.read("t", 0, 0)] == [(one.key, one.value) for one in found]
