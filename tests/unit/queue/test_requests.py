from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.queue.requests import (
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
    lease_of,
)
from headwater.queue.values import FailedClaim
from headwater.wire.operation import Request


def test_a_claim_waits_as_its_body_says_or_its_header() -> None:
    assert ClaimRows(queue="q").wait_ms == 0
    assert ClaimRows(queue="q", prefer="wait=20").wait_ms == 20_000
    assert ClaimRows(queue="q", prefer="respond-async, wait=5").wait_ms == 5000
    assert ClaimRows(queue="q", prefer="wait=20", body=ClaimBody(wait="1s")).wait_ms == 1000
    assert ClaimRows(queue="q", prefer="return=minimal").wait_ms == 0
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
