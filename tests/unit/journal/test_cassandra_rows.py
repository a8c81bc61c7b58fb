"""Heads and events as rows of kafka-journal's tables."""

from __future__ import annotations

import uuid
from datetime import date

import msgspec
import pytest
from cassandra.query import UNSET_VALUE
from cassandra.util import Date, Duration

from headwater.core.errors import Conflict, Damaged
from headwater.journal.cassandra_rows import BEFORE, StoredHead, before_of, event_row, head_values, row_values, same_life, stored_head
from headwater.journal.change import EventRow
from headwater.journal.event import Payload, PayloadKind
from headwater.journal.head import Head

LIFE = uuid.UUID(int=7)
HEAD = Head(
    partition=0,
    offset=12,
    segment_size=5,
    seq_nr=8,
    delete_to=2,
    created=1_700_000_000_000,
    updated=1_700_000_000_001,
    expire_after=86_400_001,
    expire_on=date(2023, 11, 15),
    record_id=LIFE,
    origin="host",
)


def columns_of(values: list[object]) -> tuple[object, ...]:
    """The values of a written head as the driver reads them."""
    _, _, _, *columns, _ = [None if value is UNSET_VALUE else value for value in values]
    partition, offset, size, seq_nr, delete_to, created, _, updated, after, on, life, origin, properties = columns
    return partition, offset, size, seq_nr, delete_to, created, updated, after, Date(on) if on else None, life, origin, properties


@pytest.mark.parametrize(
    "head", [HEAD, msgspec.structs.replace(HEAD, delete_to=None, expire_after=None, expire_on=None, record_id=None, origin=None)]
)
def test_a_head_comes_back_as_it_was(head: Head) -> None:
    values = list(head_values("t", 55, "a", head, before=before_of(9, None), time=1, replaces=False))
    assert values[:3] == ["t", 55, "a"]
    assert values[9] == date(2023, 11, 14)
    assert stored_head(55, columns_of(values)).head == head
    assert UNSET_VALUE not in list(head_values("t", 55, "a", head, before="", time=1, replaces=True))  # older columns must go


def test_heads_of_others_are_read() -> None:
    """kafka-journal's: months in a duration, a day behind the last that Python knows, delete_to above seq_nr, no id, no times."""
    columns = (1, 5, 100, 3, 4, None, None, Duration(1, 2, 3_000_000), Date(3_000_000), None, None, None)
    stored = stored_head(3, columns)
    assert stored.head == Head(
        partition=1,
        offset=5,
        segment_size=100,
        seq_nr=3,
        delete_to=4,
        created=0,
        updated=0,
        expire_after=32 * 86_400_000 + 3,
        expire_on=date.max,
    )
    assert stored.before is None
    assert stored.at(-1, 1) == stored.head  # another program's, ahead of the pointer: it counts as it is


def test_a_head_that_is_ahead_is_taken_as_it_was() -> None:
    earlier = msgspec.structs.replace(HEAD, offset=7, seq_nr=6, delete_to=None, updated=5, expire_after=None, expire_on=None)

    def ahead(text: str) -> StoredHead:
        return stored_head(55, columns_of(list(head_values("t", 55, "a", HEAD, before=text, time=1, replaces=False))))

    stored = ahead(before_of(9, earlier))
    assert stored.at(9, 0) == earlier
    assert stored.at(12, 0) == HEAD
    assert stored.at(9, 1) == HEAD  # offsets of two partitions say nothing about each other
    assert ahead(before_of(9, None)).at(9, 0) is None
    assert ahead(before_of(9, HEAD)).at(9, 0) == HEAD
    with pytest.raises(Conflict, match="changed while it was read"):
        stored.at(8, 0)
    with pytest.raises(Damaged, match="two processes"):
        stored.at(10, 0)


@pytest.mark.parametrize(
    ("payload", "kind", "text", "binary"),
    [
        (None, None, None, None),
        (Payload(PayloadKind.BINARY, b"\xff"), "binary", None, b"\xff"),
        (Payload(PayloadKind.BINARY, b""), "binary", None, b""),
        (Payload(PayloadKind.JSON, b'{"a":1}'), "json", '{"a":1}', None),
        (Payload(PayloadKind.TEXT, "ä".encode()), "text", "ä", None),
        (Payload(PayloadKind.TEXT, b""), "text", "", None),
    ],
)
def test_an_event_comes_back_as_it_was(payload: Payload | None, kind: str | None, text: str | None, binary: bytes | None) -> None:
    row = EventRow(6, 5, 0, 12, "host", "1.0", None, ("x",), "{}", payload, (("n", "v"),))
    values = [None if value is UNSET_VALUE else value for value in row_values("t", "a", HEAD, row, 1_000)]
    assert values == ["a", "t", 1, 6, 5, 0, 12, "host", "1.0", LIFE, {"x"}, "{}", kind, text, binary, {"n": "v"}, 1_012]
    _, _, _, *columns, _ = values
    assert event_row(tuple(columns)) == msgspec.structs.replace(row, record_id=LIFE)


def test_an_event_without_anything_leaves_its_columns_out() -> None:
    bare = Head(partition=0, offset=1, segment_size=5, seq_nr=1, delete_to=None, created=0, updated=0)
    values = row_values("t", "a", bare, EventRow(1, 5, 0, 12), 0)
    assert sum(value is UNSET_VALUE for value in values) == 8
    read = event_row((1, 5, 0, 12, None, None, None, None, None, None, None, None, None))
    assert read == EventRow(1, 5, 0, 12)
    with pytest.raises(Damaged, match="'xml'"):
        event_row((1, 5, 0, 12, None, None, None, None, None, "xml", "<a/>", None, None))


def test_rows_of_a_life() -> None:
    assert same_life(LIFE, HEAD)
    assert not same_life(uuid.UUID(int=8), HEAD)
    assert not same_life(None, HEAD)
    older = msgspec.structs.replace(HEAD, record_id=None)
    assert same_life(None, older)
    assert same_life(LIFE, older)


def test_what_a_head_was_lies_beside_what_others_put_there() -> None:
    columns = (0, 12, 5, 8, None, 0, 0, None, None, None, None, {BEFORE: before_of(9, None), "other": "x"})
    assert stored_head(1, columns).at(9, 0) is None
