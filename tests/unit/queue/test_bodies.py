from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.queue.bodies import read_claim, read_settings_body, send_claim, send_rows_of, send_settings
from headwater.queue.requests import ClaimBody, ClaimRows, CreateQueue, FailedRow, PutRows
from headwater.queue.row import NewRow


def test_bodies_are_read_as_they_were_sent() -> None:
    body = ClaimBody(n=3, lease="60s", wait="20s", done=["a"], fail=[FailedRow(token="b", error="e")], extend=["c"], release=["d"])
    kind, sent = send_claim(ClaimRows(queue="q", body=body))
    assert (kind, read_claim(sent)) == ("application/json", body)
    assert send_claim(ClaimRows(queue="q"))[1] == b"{}"
    assert read_claim(b" ") == ClaimBody()
    created = send_settings(CreateQueue(queue="q", settings={"lease": "60s"}, declaration="<table/>"))[1]
    assert read_settings_body(created) == ({"lease": "60s"}, "<table/>")
    assert read_settings_body(b"") == ({}, None)
    assert send_rows_of(PutRows(queue="q", rows=[NewRow(key=b"k")]))[1] == b'{"key":"k","data":null}'


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"n": -1}', b'{"n": "1"}', b'{"nn": 1}', b'{"done": [1]}', b'{"fail": ["t"]}', b"\xff"])
def test_what_is_no_claim_is_bad_input(body: bytes) -> None:
    with pytest.raises(BadInput):
        read_claim(body)


@pytest.mark.parametrize("body", [b"[]", b"{", b'{"declaration": 5}', b"\xff"])
def test_what_are_no_settings_is_bad_input(body: bytes) -> None:
    with pytest.raises(BadInput):
        read_settings_body(body)
