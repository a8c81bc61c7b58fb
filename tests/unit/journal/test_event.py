"""Events and payloads as users see them."""

from __future__ import annotations

from decimal import Decimal

import pytest

from headwater.core.errors import BadInput
from headwater.journal.event import KIND_NAMES, MAX_SEQ_NR, Payload, PayloadKind, check_seq_nr


def test_a_payload_gives_what_was_appended() -> None:
    assert Payload(PayloadKind.BINARY, b"\x00\xff").value() == b"\x00\xff"
    assert Payload(PayloadKind.TEXT, "grün".encode()).value() == "grün"
    assert Payload(PayloadKind.JSON, b'{"eur": 1.50, "big": 18446744073709551616}').value() == {"eur": 1.5, "big": 1 << 64}
    assert Payload(PayloadKind.JSON, b"null").value() is None


def test_a_number_that_python_does_not_hold_stays_a_number() -> None:
    assert Payload(PayloadKind.JSON, b"[1e400, 1.5, 7]").value() == [Decimal("1e400"), 1.5, 7]
    assert Payload(PayloadKind.JSON, b"9" * 5000).value() == Decimal("9" * 5000)


@pytest.mark.parametrize("data", [b"{", b'"\xff"', b"[" * 100_000])
def test_what_is_no_json_is_a_typed_error(data: bytes) -> None:
    with pytest.raises(BadInput, match="The payload is no JSON"):
        Payload(PayloadKind.JSON, data).value()


def test_kinds_have_the_numbers_and_names_of_the_wire() -> None:
    assert {int(kind): name for kind, name in KIND_NAMES.items()} == {1: "binary", 2: "json", 3: "text"}


@pytest.mark.parametrize("number", [0, -1, MAX_SEQ_NR + 1, True, 1.0, "1", None])
def test_what_is_no_number_of_an_event_is_refused(number: object) -> None:
    with pytest.raises(BadInput, match="is no sequence number"):
        check_seq_nr(number)


def test_numbers_of_events_reach_from_1_to_the_largest() -> None:
    assert check_seq_nr(1) == 1
    assert check_seq_nr(MAX_SEQ_NR) == MAX_SEQ_NR
