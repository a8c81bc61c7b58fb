"""Calls in a process of their own: what is only looked at is opened so that nothing can be written."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.client.subprocess_call import SubprocessCall, _Teller, done
from headwater.log.address import LogAddress
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operations import REPLAY, RETRY, STEP, VERIFY, ReplayMessages, RetryDead, SinkRequest, StepSink
from headwater.wire.operation import Operation, Request

SINK = {"pipeline": "shop", "sink": "report"}


@pytest.mark.parametrize(
    ("operation", "request_", "code"),
    [
        (STEP, StepSink(**SINK, dry_run=True), "read-only"),
        (REPLAY, ReplayMessages(**SINK, first=0, last=1, dry_run=True), "read-only"),
        (RETRY, RetryDead(pipeline="shop", offset=5, dry_run=True), "read-only"),
        (VERIFY, SinkRequest(**SINK), "read-only"),
        (STEP, StepSink(**SINK), ""),
        (RETRY, RetryDead(pipeline="shop", offset=5), ""),
    ],
)
def test_a_trial_cannot_write(
    stopped_shop: Path, monkeypatch: pytest.MonkeyPatch, operation: Operation[Any, Any], request_: Request, code: str
) -> None:
    def writing(desk: PipelineOperations, **arguments: Any) -> None:
        desk.note("test", "")

    monkeypatch.setattr(PipelineOperations, operation.name, writing)
    assert done(SubprocessCall.of(LogAddress(path=str(stopped_shop)), operation, request_, "w")).code == code


def test_what_is_told_grows_by_a_percent_at_least() -> None:
    lines: list[bytes] = []
    teller = _Teller(lines.append)
    for number in range(1, 100_001):
        teller(number, 100_000)
    assert (len(lines), lines[0], lines[-1]) == (101, b"[1,100000]\n", b"[100000,100000]\n")
    for number in range(1, 100_001):
        teller(number, 0)
    assert len(lines) < 1500
