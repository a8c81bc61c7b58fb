"""The body of a row: bytes, and what is read from them."""

from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.queue.body import (
    BODY_SIZE,
    PRIORITY,
    Fields,
    body_end,
    expiration_of,
    fields,
    key_of,
    make_body,
    process_of,
    with_process,
)

DATES = st.integers(0, 2**47)
FIELDS = st.builds(
    Fields,
    *(st.integers(1, 3), st.integers(0, 2**32 - 1), st.integers(0, 7), st.integers(0, 255), st.integers(0, 65535)),
    *(DATES, DATES, DATES, st.binary(min_size=1, max_size=1024), st.binary(max_size=300)),
)


def test_the_bytes_are_those_of_the_page() -> None:
    body = make_body(1, 2, 4, 5, 6, 7, 8, 9, b"k", b"da")
    written = "01 00000002 04 05 0006 0000000000000007 0000000000000008 0000000000000009 0001 00000002 6b 6461"
    assert body.hex() == written.replace(" ", "")
    assert (len(body), body[PRIORITY]) == (BODY_SIZE + 3, 5)


@given(FIELDS)
def test_what_is_made_is_read(given: Fields) -> None:
    body = make_body(*given)
    assert fields(body) == given
    assert (key_of(body), process_of(body), expiration_of(body)) == (given.key, given.process, given.expiration)
    assert body[PRIORITY] == given.priority


@given(FIELDS, DATES)
def test_another_process_date_changes_nothing_else(given: Fields, process: int) -> None:
    assert fields(with_process(make_body(*given), process)) == given._replace(process=process)


@given(FIELDS, st.binary(max_size=5), st.binary(max_size=5))
def test_the_end_of_a_body_is_found_within_a_record(given: Fields, before: bytes, after: bytes) -> None:
    body = make_body(*given)
    assert body_end(before + body + after, len(before)) == len(before) + len(body)
