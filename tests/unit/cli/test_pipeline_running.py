"""How the end of a run is told."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.at import At
from headwater.cli.pipeline_running import _told, lasted
from headwater.core.errors import Stopped
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.offsets.state import Failure
from headwater.pipeline.running.context import Activity, LoopState
from headwater.pipeline.running.run import Result, SinkProgress

AT = At(data=None, config=None, json=False)


def result(failure: Failure, *, asked: bool) -> Result:
    sink = SinkProgress(sink="report", position=13, end=16, lag=2, written=14, state=LoopState(Activity.DELIVERING), failure=failure)
    return Result(pipeline="shop", state="stopped", sinks=(sink,), read=16, asked=asked)


def test_a_refused_batch_of_a_run_that_was_asked_to_stop_is_no_message_that_a_sink_stands_at(
    stopped_shop: Path, capsys: pytest.CaptureFixture[str]
) -> None:
    batch = Failure(offset=10, error="E", message="some message of it", start=10, end=16)
    exact = Failure(offset=14, error="E", message="this one")
    with EmbeddedLog(stopped_shop) as log:
        _told(result(batch, asked=True), log, AT)
        assert capsys.readouterr().err.splitlines()[-1] == "Stopped; 16 read."
        for failure, asked in ((exact, True), (exact, False), (batch, False)):  # the last one: on_error="stop_all"
            with pytest.raises(Stopped, match=f"stands at message {failure.offset}"):
                _told(result(failure, asked=asked), log, AT)


@pytest.mark.parametrize(
    ("seconds", "said"),
    [(0.04, "0.0 s"), (9.94, "9.9 s"), (59.4, "59 s"), (59.6, "1 min 0 s"), (65, "1 min 5 s"), (3599.6, "1 h 0 min"), (7380, "2 h 3 min")],
)
def test_how_long_it_took(seconds: float, said: str) -> None:
    assert lasted(seconds) == said
