"""The bytes of records: those that the page on top of the module promises, and what is said of bytes that are none."""

from __future__ import annotations

from contextlib import suppress
from typing import Any

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.queue import records
from headwater.queue.body import HAS_EXTRAS, make_body
from headwater.queue.columns import HELD, PROCESSING, RUN, Tries
from headwater.queue.records import Malformed, WholeRow, decode_record

HEAD = b"\x01" + (7).to_bytes(8, "big")
BODY = make_body(records.INSERT, 3, 0, 10, 2, 5, 6, 0, b"key", b"data")
WHOLE = WholeRow(3, BODY, 65536, 9, RUN, Tries(3, 2, 1), {"lane": b"l", "error": "\u00e9", "claim": [1, 2, 3, "g", "w"]})
DIGEST = bytes(range(16))
EVERY_KIND: dict[int, bytes] = {
    records.INSERT: BODY,
    records.MERGE: records.encode_whole(records.MERGE, WHOLE),
    records.CARRY: records.encode_whole(records.CARRY, WHOLE._replace(extras={}, state=HELD)),
    records.CLAIM: records.encode_claim(99, b"group", "w\u00f6rker".encode(), [(1, 2), (3, 4)]),
    records.DONE: records.encode_rows(records.DONE, [(1, 2)]),
    records.EXTEND: records.encode_dated(records.EXTEND, 99, [(1, 2)]),
    records.RELEASE: records.encode_dated(records.RELEASE, 0, [(1, 2), (3, 4)]),
    records.FAIL: records.encode_fail(1, 2, 99, "n\u00f6".encode()),
    records.LOST: records.encode_rows(records.LOST, [(1, 2), (3, 4)]),
    records.EXPIRE: records.encode_rows(records.EXPIRE, [(1, 2)]),
    records.DEAD: records.encode_dead(1, 2, 2, "n\u00f6".encode()),
    records.CANCEL: records.encode_rows(records.CANCEL, [(1, 2)]),
    records.DROP: records.encode_rows(records.DROP, [(1, 2)]),
    records.ABSORB: records.encode_rows(records.ABSORB, [(1, 2)]),
    records.PAUSE: bytes([records.PAUSE]),
    records.RESUME: bytes([records.RESUME]),
    records.ANSWERED: records.encode_answered(99, b"name", DIGEST, [(1, 0, 5, 1)]),
    records.NEXT: records.encode_dated(records.NEXT, 99, [(1, 2)]),
    records.FOLLOW: records.encode_follow(2, 99),
    records.RESULT: records.encode_result(1, 99, 0, b"true"),
    records.FORGET: records.encode_rows(records.FORGET, [(1, 2)]),
    records.UNIQUE: records.encode_unique(b"key", 1, 5, 99),
}
ONE, TWO = "000000010000000000000002", "000000030000000000000004"
DATE_99 = "0000000000000063"


@pytest.mark.parametrize(
    ("kind", "written"),
    [
        (records.INSERT, "01 00000003 00 0a 0002 0000000000000005 0000000000000006 0000000000000000 0003 00000004 6b6579 64617461"),
        (records.CLAIM, f"04 {DATE_99} 05 07 0002 {ONE} {TWO} 67726f7570 77c3b6726b6572"),
        (records.DONE, f"05 0001 {ONE}"),
        (records.EXTEND, f"06 {DATE_99} 0001 {ONE}"),
        (records.RELEASE, f"07 0000000000000000 0002 {ONE} {TWO}"),
        (records.FAIL, f"08 {ONE} {DATE_99} 0003 6ec3b6"),
        (records.LOST, f"09 0002 {ONE} {TWO}"),
        (records.EXPIRE, f"0a 0001 {ONE}"),
        (records.DEAD, f"0b {ONE} 02 0003 6ec3b6"),
        (records.CANCEL, f"0c 0001 {ONE}"),
        (records.DROP, f"0d 0001 {ONE}"),
        (records.ABSORB, f"0e 0001 {ONE}"),
        (records.PAUSE, "0f"),
        (records.RESUME, "10"),
        (records.ANSWERED, f"11 {DATE_99} 0004 {DIGEST.hex()} 00000001 6e616d65 0000000000000001 00 0000000000000005 01"),
        (records.NEXT, f"12 {DATE_99} 0001 {ONE}"),
        (records.FOLLOW, f"13 0000000000000002 {DATE_99}"),
        (records.RESULT, f"15 0000000000000001 {DATE_99} 00 00000004 74727565"),
        (records.FORGET, f"16 0001 {ONE}"),
        (records.UNIQUE, f"17 0000000000000001 0000000000000005 {DATE_99} 0003 6b6579"),
    ],
)
def test_the_bytes_are_those_of_the_page(kind: int, written: str) -> None:
    assert EVERY_KIND[kind].hex() == written.replace(" ", "")


@pytest.mark.parametrize("count", [1, 2, 255, 256, 257, 512, 1000])
def test_rows_whose_slots_and_ids_stand_apart_have_the_same_bytes(count: int) -> None:
    slots, ids = list(range(count)), [number << 40 for number in range(count)]
    rows = list(zip(slots, ids, strict=True))
    assert records.encode_slots(records.DONE, slots, ids) == records.encode_rows(records.DONE, rows)
    assert records.encode_claim_slots(99, b"group", b"w", slots, ids) == records.encode_claim(99, b"group", b"w", rows)


def test_the_bytes_of_whole_rows_are_those_of_the_page() -> None:
    state = bytes.fromhex("0000000000010000 0000000000000009 04 0003 02 0001")
    assert EVERY_KIND[records.CARRY] == bytes([records.CARRY]) + BODY[1:] + state
    merge = EVERY_KIND[records.MERGE]
    assert merge[5] == HAS_EXTRAS
    extras = merge[len(BODY) + len(state) :]
    assert int.from_bytes(extras[:4], "big") == len(extras) - 4


def test_a_record_of_every_kind_is_read_as_it_was_written() -> None:
    now, changes = decode_record(HEAD + b"".join(EVERY_KIND.values()))
    assert (now, [change.kind for change in changes]) == (7, list(EVERY_KIND))
    read = {change.kind: change for change in changes}
    assert read[records.MERGE].row == WHOLE._replace(body=EVERY_KIND[records.MERGE][: len(BODY)])
    assert (read[records.CLAIM].rows, read[records.CLAIM].values) == ([(1, 2), (3, 4)], (99, "group", "w\u00f6rker"))
    assert read[records.FAIL].values == (99, "n\u00f6")
    assert read[records.FOLLOW].values == (2, 99)
    assert read[records.ANSWERED].values == (99, "name", DIGEST, [(1, 0, 5, 1)])
    assert read[records.RESULT].values == (1, 99, 0, b"true")
    assert read[records.UNIQUE].values == (b"key", 1, 5, 99)
    assert [kind for kind, name in enumerate(records.NAMES) if name] == list(EVERY_KIND)


@given(
    rows=st.lists(st.tuples(st.integers(0, 2**32 - 1), st.integers(0, 2**63 - 1)), min_size=1, max_size=5),
    names=st.tuples(st.text(max_size=50), st.text(max_size=50)),
    date=st.integers(0, 2**47),
    tries=st.builds(Tries, st.integers(0, 65535), st.integers(0, 255), st.integers(0, 65535)),
    extras=st.dictionaries(st.sampled_from(["lane", "error"]), st.text(max_size=9), max_size=2),
)
def test_what_is_written_is_read(
    rows: list[tuple[int, int]], names: tuple[str, str], date: int, tries: Tries, extras: dict[str, Any]
) -> None:
    whole = WHOLE._replace(id=rows[0][1], update=date, tries=tries, extras=extras, state=PROCESSING)
    claim = records.encode_claim(date, names[0].encode(), names[1].encode(), rows)
    _, [claimed, carried, done] = decode_record(
        HEAD + claim + records.encode_whole(records.CARRY, whole) + records.encode_rows(records.DONE, rows)
    )
    assert (claimed.rows, claimed.values, done.rows) == (rows, (date, *names), rows)
    assert carried.row is not None
    assert carried.row[2:] == whole[2:]


def test_more_rows_than_a_count_can_say_are_several_changes() -> None:
    rows = [(slot, slot + 1) for slot in range(70_000)]
    _, changes = decode_record(HEAD + records.encode_rows(records.LOST, rows))
    assert [pair for change in changes for pair in change.rows] == rows


@pytest.mark.parametrize("kind", EVERY_KIND)
def test_bytes_that_are_cut_or_wrong_are_malformed_or_something_else(kind: int) -> None:
    written = HEAD + EVERY_KIND[kind]
    known = decode_record(written)
    for end in range(len(written)):
        if end != len(HEAD):  # a record without changes is none that is written, but it can be read
            with pytest.raises(Malformed):
                decode_record(written[:end])
    for place in range(len(written)):
        for bit in range(8):
            wrong = bytearray(written)
            wrong[place] ^= 1 << bit
            with suppress(Malformed):
                assert decode_record(bytes(wrong)) != known


@pytest.mark.parametrize("extras", [b"\xc0", b"\x05", b"\x91\x01", b"\x81\xa1\xff\x00", b"\x91" * 3000, b"\x81\x80\x01"])
def test_extras_that_are_no_map_are_malformed(extras: bytes) -> None:
    body = BODY[:5] + bytes([HAS_EXTRAS]) + BODY[6:]
    with pytest.raises(Malformed):
        decode_record(HEAD + body + len(extras).to_bytes(4, "big") + extras)


def test_another_format_and_an_unknown_kind_are_named() -> None:
    with pytest.raises(Malformed, match="format 2"):
        decode_record(b"\x02" + HEAD[1:])
    with pytest.raises(Malformed, match="kind 20"):
        decode_record(HEAD + b"\x14")
