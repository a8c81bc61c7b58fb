"""What can be asked of queues, and what cannot."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.core.errors import BadInput, NotFound
from headwater.queue import requests
from headwater.queue.requests import MOST_ROWS, ClaimBody, ClaimRows, FailedRow, FindRow, PutRows, checked_name, lease_of
from headwater.queue.row import NewRow
from headwater.queue.values import FailedClaim


@pytest.mark.parametrize("name", ["a", "Pages.of-site_1", "0", "x" * 100])
def test_names_of_queues(name: str) -> None:
    assert checked_name(name) == name


@pytest.mark.parametrize("name", ["", ".hidden", "-x", "a/b", "a b", "\u00e4", "x" * 101, "pages\n", None, 5])
def test_what_names_no_queue(name: Any) -> None:
    with pytest.raises(BadInput, match="cannot name a queue"):
        checked_name(name)


def test_every_request_checks_the_name_of_its_queue() -> None:
    needed: dict[str, Any] = {"key": "k", "worker": "w", "token": "t", "paused": True, "id": 1, "rows": [NewRow(key=b"k")]}
    found = [kind for kind in vars(requests).values() if isinstance(kind, type) and issubclass(kind, requests.QueueRequest)]
    assert len(found) > 15
    for kind in found:
        given = {name: needed[name] for name in kind.__struct_fields__ if name in needed}
        kind(queue="pages", **given).check()
        with pytest.raises(BadInput, match="cannot name a queue"):
            kind(queue="no queue", **given).check()


def test_a_put_has_rows_but_not_too_many() -> None:
    with pytest.raises(BadInput, match="without rows"):
        PutRows(queue="q").check()
    PutRows(queue="q", rows=[NewRow(key=b"k")] * MOST_ROWS).check()
    with pytest.raises(BadInput, match="65537 rows"):
        PutRows(queue="q", rows=[NewRow(key=b"k")] * (MOST_ROWS + 1)).check()


def test_a_row_is_found_by_key_or_id() -> None:
    assert FindRow(queue="q", key="7").wanted == b"7"
    assert FindRow(queue="q", key='{"$binary":"/w=="}').wanted == b"\xff"
    assert FindRow(queue="q", key="7", by="id").wanted == 7
    for key in ("-1", "x", "1" * 20, "7\n", "\u0663"):
        with pytest.raises(BadInput, match="no id"):
            FindRow(queue="q", key=key, by="id").check()
    with pytest.raises(NotFound, match="empty key"):
        FindRow(queue="q", key="").check()


@pytest.mark.parametrize(
    ("wait", "prefer", "waits"),
    [
        (None, None, 0.0),
        ("1500ms", None, 1.5),
        ("0s", "wait=5", 0.0),
        (None, "wait=20", 20.0),
        (None, "respond-async, wait=20", 20.0),
        (None, 'handling=lenient; wait = "3"', 3.0),
        (None, "await=20", 0.0),
        (None, "wait=soon", 0.0),
    ],
)
def test_how_long_a_claim_waits(wait: str | None, prefer: str | None, waits: float) -> None:
    request = ClaimRows(queue="q", prefer=prefer, body=ClaimBody(wait=wait))
    request.check()
    assert request.waits() == waits
    assert ClaimRows(queue="q", prefer=prefer, body=ClaimBody(wait=wait, n=0)).waits() == 0.0


@pytest.mark.parametrize(
    "given",
    [
        {"n": -1},
        {"n": 10_001},
        {"n": True},
        {"n": 1.5},
        {"wait": "31d"},
        {"wait": "5"},
        {"lease": "0s"},
        {"lease": "31d"},
        {"lease": "-1s"},
        {"fail": [FailedRow(token="t", retry_after="soon")]},
    ],
)
def test_claims_that_cannot_be(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        ClaimRows(queue="q", body=ClaimBody(**given)).check()


def test_a_wait_beyond_a_month_is_refused_in_the_header_too() -> None:
    with pytest.raises(BadInput, match="wait so long"):
        ClaimRows(queue="q", prefer="wait=999999999").check()


def test_leases() -> None:
    assert (lease_of(None), lease_of("1ms"), lease_of("30d")) == (None, 1, 30 * 86_400_000)


def test_failures() -> None:
    assert FailedRow(token="t").failure() == FailedClaim("t", "", None, False)
    assert requests.FailClaim(queue="q", token="t", error="no", retry_after="30s", give_up=True).failure() == FailedClaim(
        "t", "no", 30_000, True
    )
    for request in (
        requests.FailClaim(queue="q", token="t", retry_after="30"),
        requests.ExtendClaim(queue="q", token="t", lease="0s"),
        requests.ReleaseClaim(queue="q", token="t", delay="later"),
    ):
        with pytest.raises(BadInput):
            request.check()
    assert requests.ReleaseClaim(queue="q", token="t", delay="1s").delay_ms == 1000


def test_a_claim_that_is_sent_says_only_what_it_must() -> None:
    assert msgspec.json.encode(ClaimBody()) == b"{}"
    with pytest.raises(msgspec.ValidationError, match="unknown field"):
        msgspec.json.decode(b'{"leese":"1s"}', type=ClaimBody)
