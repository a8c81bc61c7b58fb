"""Bodies of Appends over HTTP."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.core.errors import BadInput, WrongExpected
from headwater.journal.append_draft import draft, header_ending
from headwater.journal.bodies import body_of, content, draft_of, payload_in, read_append, read_line, read_outcome, send_append
from headwater.journal.event import Event
from headwater.journal.write import Appended
from headwater.wire.problems import encoded, problem_of

ENDING = header_ending(None, None)


@pytest.mark.parametrize(
    ("given", "about"),
    [
        ([{"n": 1}], {}),
        (["text", b"\x00", None, [1]], {"tags": ("a",)}),
        ([Event(1, 5, ("x",)), Event("b", 7)], {"headers": {"k": "v"}, "metadata": {"m": 1}, "header_metadata": 3, "expire_after": "1d"}),
    ],
)
def test_what_a_client_sends_is_what_a_server_drafts(given: list[Any], about: dict[str, Any]) -> None:
    body = read_append(send_append(body_of(given, **about, expected=4)))
    assert body.expected == 4
    made, meant = draft_of("a", body), draft("a", given, **about)
    assert made.record(9, ENDING) == meant.record(9, ENDING)
    assert made.digest(4) == meant.digest(4)


def test_json_goes_through_as_it_is_written() -> None:
    body = read_append(b'{"events": [{"payload": {"b": 1.10, "a": 12345678901234567890123}}]}')
    assert b'"payload":{"b": 1.10, "a": 12345678901234567890123}' in (draft_of("a", body).record(1, ENDING).value or b"")
    assert payload_in(msgspec.Raw(b' "x"')) == "x"
    assert payload_in(msgspec.Raw(b'{"$binary": "AA=="}')) == b"\x00"
    assert isinstance(payload_in(msgspec.Raw(b'{"$binary": "AA==", "b": 1}')), msgspec.Raw)


@pytest.mark.parametrize(
    "body",
    [b"", b"{", b"[]", b"{}", b'{"events": []}', b'{"events": [{}]}', b'{"events": [{"payload": 1, "seqNr": 1}]}', b'{"event": [1]}',
     b'{"events": [{"payload": 1}], "expected": -1}', b'{"events": [{"payload": 1, "seq_nr": "1"}]}', b'{"events": [{"payload": "\xff"}]}'],
)  # fmt: skip
def test_bodies_that_cannot_be_read(body: bytes) -> None:
    with pytest.raises(BadInput):
        draft_of("a", read_append(body))


def test_lines_and_their_outcomes() -> None:
    line = read_line(b'{"id": "a", "events": [{"payload": 1}], "idempotency_key": "k"}')
    assert (line.id, line.idempotency_key) == ("a", "k")
    with pytest.raises(BadInput):
        read_line(b'{"events": [{"payload": 1}]}')
    assert read_outcome(b'{"first":1,"last":2,"partition":0,"offset":7}') == Appended(1, 2, 0, 7)
    failed = read_outcome(encoded(problem_of(WrongExpected("No.", hint="Read."), "id")))
    assert isinstance(failed, WrongExpected)
    assert set(content()) == {"application/json"}
