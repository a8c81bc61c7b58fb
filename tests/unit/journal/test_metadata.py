"""Metadata: its two halves, in headers, bodies and the column of a store."""

from __future__ import annotations

from contextlib import suppress

import pytest
from hypothesis import given
from hypothesis import strategies as st

from headwater.core.errors import BadInput, UnreadableRecord
from headwater.journal.action import PayloadMetadata
from headwater.journal.metadata import (
    RecordMetadata,
    header_metadata_json,
    metadata_column,
    payload_metadata_json,
    read_metadata_column,
    read_payload_metadata,
)

DAY = 86_400_000


def test_the_column_holds_both_halves() -> None:
    column = metadata_column(b'{"by": 1.50}', PayloadMetadata(DAY, b'["x"]'))
    assert column == '{"header":{"data":{"by": 1.50}},"payload":{"expireAfter":"1 day","data":["x"]}}'
    assert read_metadata_column(column) == RecordMetadata(b'{"by": 1.50}', PayloadMetadata(DAY, b'["x"]'))


def test_one_half_may_be_empty() -> None:
    assert metadata_column(None, PayloadMetadata(DAY)) == '{"header":{},"payload":{"expireAfter":"1 day"}}'
    assert metadata_column(b"1", PayloadMetadata()) == '{"header":{"data":1},"payload":{}}'


@pytest.mark.parametrize("column", ["{}", "", None, '{"header":{},"payload":{}}', '{"header":null}', '{"data":null}', '{"new":1}'])
def test_nothing_is_empty(column: str | None) -> None:
    assert read_metadata_column(column) == RecordMetadata()
    assert metadata_column(None, PayloadMetadata()) == "{}"


def test_an_older_flat_column_is_the_header_s_half() -> None:
    assert read_metadata_column('{"data":{"key":"value"}}') == RecordMetadata(b'{"key":"value"}')


@pytest.mark.parametrize(
    "column", ["[]", "{", "1", '{"header":1}', '{"payload":{"expireAfter":[]}}', '{"payload":{"expireAfter":"x"}}', "[" * 10_000]
)
def test_other_columns_are_unreadable(column: str) -> None:
    with pytest.raises(UnreadableRecord):
        read_metadata_column(column)


def test_the_half_of_the_payload_is_written_and_read() -> None:
    assert payload_metadata_json(PayloadMetadata()) == b"{}"
    written = payload_metadata_json(PayloadMetadata(60_000, b' {"a":1} '))
    assert written == b'{"expireAfter":"1 minute","data":{"a":1}}'
    assert read_payload_metadata(written) == PayloadMetadata(60_000, b'{"a":1}')
    assert read_payload_metadata(b' {"expireAfter":250} ') == PayloadMetadata(250)


def test_null_is_nothing_in_both_halves() -> None:
    assert header_metadata_json(b" null ") == header_metadata_json(None) == b"{}"
    assert payload_metadata_json(PayloadMetadata(None, b"null")) == b"{}"
    assert read_payload_metadata(b'{"expireAfter":null,"data":null}') == PayloadMetadata()


@pytest.mark.parametrize("data", [b"", b"{", b'1},"x":{', b'"\xff"'])
def test_data_that_is_no_json_is_refused(data: bytes) -> None:
    with pytest.raises(BadInput):
        header_metadata_json(data)
    with pytest.raises(BadInput):
        payload_metadata_json(PayloadMetadata(None, data))


def test_an_expiry_that_readers_could_not_read_is_refused() -> None:
    with pytest.raises(BadInput, match="is no duration"):
        payload_metadata_json(PayloadMetadata(-1))


def test_what_was_read_from_a_record_goes_into_the_column_though_users_could_not_write_it() -> None:
    deep = b"[" * 300 + b"]" * 300
    assert read_metadata_column(metadata_column(deep, PayloadMetadata(-DAY))) == RecordMetadata(deep, PayloadMetadata(-DAY))


@given(st.binary(max_size=60))
def test_bytes_are_metadata_or_unreadable(text: bytes) -> None:
    with suppress(UnreadableRecord):
        read_payload_metadata(text)
