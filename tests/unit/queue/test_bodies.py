"""Bodies of requests: what is sent is read."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import BadInput
from headwater.queue.bodies import read_claim, read_settings_body, send_claim, send_rows_of, send_settings
from headwater.queue.json_form import read_rows
from headwater.queue.requests import ClaimBody, ClaimRows, CreateQueue, FailedRow, PutRows
from headwater.queue.row import NewRow


@pytest.mark.parametrize(
    "body",
    [
        ClaimBody(),
        ClaimBody(n=0, done=["a", "b"], fail=[FailedRow(token="c", error="no", retry_after="1s")], lease="5s", wait="1m", worker="w"),
    ],
)
def test_a_claim_that_is_sent_is_read(body: ClaimBody) -> None:
    kind, sent = send_claim(ClaimRows(queue="q", body=body))
    assert (kind, read_claim(sent)) == ("application/json", body)


def test_no_body_claims_one_row() -> None:
    assert read_claim(b"") == read_claim(b" \n") == ClaimBody()


@pytest.mark.parametrize(
    ("body", "said"),
    [
        (b"[]", "Expected `object`"),
        (b'{"n": -1}', ">= 0"),
        (b'{"n": 10001}', "<= 10000"),
        (b'{"dune": []}', "dune"),
        (b'{"fail": [{"error": "x"}]}', "token"),
        (b'{"n"', "truncated"),
        (b'{"worker": "\xff"}', "cannot be read"),
        (b'{"done": ' + b"[" * 5000, "nested|Expected"),
    ],
)
def test_a_claim_that_cannot_be_read_says_why(body: bytes, said: str) -> None:
    with pytest.raises(BadInput, match=said):
        read_claim(body)


def test_rows_that_are_sent_are_read() -> None:
    for rows in ([NewRow(key=b"a", data=b"\xff", form=1)], [NewRow(key=b"a"), NewRow(key=b"\xff", delay=5, lane=b"l")]):
        assert read_rows(send_rows_of(PutRows(queue="q", rows=rows))[1], lines=False) == rows


@pytest.mark.parametrize(("settings", "declaration"), [({}, None), ({"lease": "60s", "rate": 5}, None), ({"rate": 5}, "<table/>")])
def test_settings_that_are_sent_are_read(settings: dict[str, Any], declaration: str | None) -> None:
    kind, sent = send_settings(CreateQueue(queue="q", settings=settings, declaration=declaration))
    assert (kind, read_settings_body(sent)) == ("application/json", (settings, declaration))


def test_no_body_sets_nothing() -> None:
    assert read_settings_body(b" ") == ({}, None)


@pytest.mark.parametrize("body", [b"[]", b"5", b"{", b"\xff", b'{"declaration": 5}', b'{"a": ' + b"[" * 5000])
def test_settings_that_cannot_be_read(body: bytes) -> None:
    with pytest.raises(BadInput):
        read_settings_body(body)
