from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import BadInput, NotFound
from headwater.queue import requests
from headwater.queue.requests import (
    MOST_ROWS,
    ChangeQueue,
    ClaimBody,
    ClaimRows,
    ExtendClaim,
    FailClaim,
    FailedRow,
    FindRow,
    PutRows,
    QueueRequest,
    ReleaseClaim,
    checked_name,
    lease_of,
)
from headwater.queue.row import NewRow
from headwater.queue.values import FailedClaim
from headwater.wire.operation import Request


def test_a_claim_waits_as_its_body_says_or_its_header() -> None:
    assert ClaimRows(queue="q").wait_ms == 0
    assert ClaimRows(queue="q", prefer="wait=20").wait_ms == 20_000
    assert ClaimRows(queue="q", prefer="respond-async, wait=5").wait_ms == 5000
    assert ClaimRows(queue="q", prefer="wait=20", body=ClaimBody(wait="1s")).wait_ms == 1000
    assert ClaimRows(queue="q", prefer="return=minimal").wait_ms == 0
    assert ClaimRows(queue="q", prefer='Wait = "7"; x=1').wait_ms == 7000
    assert ClaimRows(queue="q", body=ClaimBody(wait="20s")).waits() == 20
    assert ClaimRows(queue="q", body=ClaimBody(n=0, wait="20s")).waits() == 0


def test_failures_and_leases() -> None:
    assert FailedRow(token="t", error="e", retry_after="30s").failure() == FailedClaim("t", "e", 30_000)
    assert FindRow(queue="q", key="7", by="id").wanted == 7
    assert FindRow(queue="q", key="7").wanted == b"7"
    assert lease_of("1m") == 60_000
    assert lease_of(None) is None


@pytest.mark.parametrize(
    "wrong",
    [
        QueueRequest(queue="a/b"),
        QueueRequest(queue=""),
        QueueRequest(queue="-x"),
        QueueRequest(queue="x" * 101),
        ChangeQueue(queue="ä"),
        PutRows(queue="q"),
        FindRow(queue="q", key="x", by="id"),
        ClaimRows(queue="q", prefer="wait=x"),
        ClaimRows(queue="q", prefer="wait=20s"),
        ClaimRows(queue="q", prefer="wait="),
        ClaimRows(queue="q", prefer="return=minimal, wait=-1"),
        ClaimRows(queue="q", prefer="wait=1.5"),
        ClaimRows(queue="q", body=ClaimBody(n=-1)),
        ClaimRows(queue="q", body=ClaimBody(n=True)),
        ClaimRows(queue="q", body=ClaimBody(lease="60")),
        ClaimRows(queue="q", body=ClaimBody(lease="0s")),
        ClaimRows(queue="q", body=ClaimBody(wait="99999d")),
        ClaimRows(queue="q", body=ClaimBody(fail=[FailedRow(token="t", retry_after="x")])),
        FailClaim(queue="q", token="t", retry_after="5"),
        ExtendClaim(queue="q", token="t", lease="0s"),
        ReleaseClaim(queue="q", token="t", delay="5"),
    ],
    ids=repr,
)
def test_what_cannot_be_asked_is_bad_input(wrong: Request) -> None:
    with pytest.raises(BadInput):
        wrong.check()


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
