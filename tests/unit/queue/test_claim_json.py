"""The JSON of claimed rows is that of each row, whatever it holds."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.queue.answers import RowsClaimed
from headwater.queue.claim_json import encode_claimed
from headwater.queue.json_form import show_claim
from headwater.queue.row import BINARY, JSON, Row
from headwater.queue.values import Claimed, ClaimedRow

NOW = 1_760_000_000_123
PLAIN: dict[str, Any] = {
    "id": 65_536, "key": b"page:/about", "data": b'{"why": "edited"}', "form": JSON, "priority": 100, "insertion_date": NOW,
    "process_date": NOW, "expiration_date": 0, "status": "P", "start_processing_date": NOW + 5, "attempts": 1, "group": "default",
}  # fmt: skip


def claim(token: str = "1-2-3", until: int = NOW + 60_000, **given: Any) -> ClaimedRow:
    return ClaimedRow(Row(**(PLAIN | given)), token, until)


def decoded(claims: list[ClaimedRow]) -> Any:
    """As each row is shown by itself."""
    shown = RowsClaimed(claims=[show_claim(one) for one in claims], stale=["9-9-9"])
    return msgspec.json.decode(msgspec.json.encode(shown))


@pytest.mark.parametrize(
    "given",
    [
        {},
        {"data": b"\x00\xff", "form": BINARY},
        {"data": b"", "form": BINARY},
        {"data": b"12345678901234567890.10"},
        {"key": b'quoted "\\ \n', "worker": 'a "worker"', "group": "gr\u00fcn"},
        {"key": "gr\u00fcn".encode()},
        {"key": b"\xff\xfe"},
        {"expiration_date": NOW + 9_000, "process_date": NOW + 1, "insertion_date": NOW - 1},
        {"priority": 0, "timeout_counter": 3, "attempts": 4},
        {"failures": 2, "error": "It broke.", "lane": b"tenant-1", "schedule": "every 1h"},
        {"group": "", "worker": ""},
    ],
)
def test_a_claim_is_shown_as_its_row(given: dict[str, Any]) -> None:
    claims = [claim(), claim("2-2-3", id=65_537, **given), claim("3-2-3", NOW + 1), claim("4-2-3", **given)]
    found = encode_claimed(Claimed(claims, ["9-9-9"]))
    assert msgspec.json.decode(found) == decoded(claims)
    assert b"\n" not in found


def test_numbers_keep_their_digits() -> None:
    assert b'"data":12345678901234567890.10,' in encode_claimed(Claimed([claim(data=b"12345678901234567890.10")], []))


def test_no_claims_and_stale_tokens() -> None:
    assert encode_claimed(Claimed([], ["1-1-1"])) == b'{"claims":[],"stale":["1-1-1"]}'
