from __future__ import annotations

from decimal import Decimal
from typing import Any

import msgspec
import pytest

from headwater.core.errors import BadInput
from headwater.queue.bodies import read_claim, read_done, send_done
from headwater.queue.requests import DoneClaim, DoneRow
from headwater.queue.result_form import done_rows, read_result, result_bytes, result_value, sent_result, show_result, told_done
from headwater.queue.values import RowResult


@pytest.mark.parametrize("value", [None, True, 0, 1.5, "ä", [1, [2]], {"a": {"b": None}}, b"", b"\x00\xff"], ids=repr)
def test_a_result_is_sent_and_read_as_it_was_given(value: Any) -> None:
    result = result_bytes(value)
    assert read_result(sent_result(result)) == result
    shown = msgspec.json.decode(msgspec.json.encode(show_result(5, result)), type=type(show_result(5, None)))
    assert (shown.id, shown.done, result_value(shown)) == (5, True, value)


def test_decimals_keep_their_digits() -> None:
    assert result_bytes({"eur": Decimal("1.20")}).data == b'{"eur":1.20}'


@pytest.mark.parametrize("sent", [b'"\xff"', b'{"$binary": 5}', b'{"$binary": "?"}', b"[" * 5000 + b"]" * 5000, b"NaN"], ids=range(5))
def test_what_is_no_result_is_bad_input(sent: bytes) -> None:
    with pytest.raises(BadInput):
        read_result(msgspec.Raw(sent))


def test_a_claim_may_hold_tokens_and_results() -> None:
    body = read_claim(b'{"done": ["a", {"token": "b", "result": [1]}, {"token": "c"}, {"token": "d", "result": null}]}')
    tokens, results = told_done(body.done)
    assert tokens == ["a", "b", "c", "d"]
    assert results == {"b": RowResult(b"[1]"), "d": RowResult(b"null")}
    assert told_done(["a", "b"]) == (["a", "b"], None)
    assert done_rows(["a", "b"], None) == ["a", "b"]
    assert done_rows(["a", "b"], {"b": RowResult(b"1")}) == ["a", DoneRow(token="b", result=msgspec.Raw(b"1"))]
    for bad in (b'{"done": [5]}', b'{"done": [{}]}', b'{"done": [{"token": "a", "results": 1}]}'):
        with pytest.raises(BadInput):
            read_claim(bad)


def test_the_body_of_a_done_row_may_have_a_result() -> None:
    assert [read_done(body) for body in (b"", b" ", b"{}")] == [None] * 3
    assert read_done(b'{"result": null}') == RowResult(b"null")
    assert read_done(send_done(DoneClaim(queue="q", token="t", result=RowResult(b"\xff", 1)))[1]) == RowResult(b"\xff", 1)
    assert send_done(DoneClaim(queue="q", token="t"))[1] == b""
    for bad in (b"5", b"[]", b'{"result": }', b'{"resultt": 1}', b"\xff", b'{"result": NaN}'):
        with pytest.raises(BadInput):
            read_done(bad)


def test_a_row_that_is_not_done_has_no_result() -> None:
    assert msgspec.json.encode(show_result(5, None)) == b'{"id":5,"done":false}'
