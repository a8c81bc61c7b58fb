"""How a run and its end are told."""

from __future__ import annotations

import io
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from rich.console import Console

from headwater.cli.at import At
from headwater.cli.pipeline_running import _Display, _listeners, _told, lasted
from headwater.cli.stop import StopSignal
from headwater.core.errors import BadInput, Stopped
from headwater.core.settings import Settings, SparkSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptor import About
from headwater.pipeline.adaptors import file
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.state import Failure
from headwater.pipeline.running import reader
from headwater.pipeline.running.context import Activity, LoopState
from headwater.pipeline.running.run import Result, Run, SinkProgress
from headwater.pipeline.source_adaptor import CanCopy, CopyPlan, Piece, Slice
from headwater.pipeline.source_progress import CopySize

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


class Shown(CanCopy, frozen=True, kw_only=True):
    """A thousand documents, a hundred a piece. Each time before it gives more, somebody looks."""

    kind: ClassVar[str] = "shown"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    look: ClassVar[Callable[[], None]]
    path: str = "x"
    size: CopySize | None = None

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        return CopyPlan(identity={}, slices=(Slice("in", {}),), size=self.size)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        for n in range(position or 0, 1000, 100):
            Shown.look()
            yield Piece(position=n + 100, values=[b'{"_id":%d}' % i for i in range(n, n + 100)])


@pytest.mark.parametrize(
    ("size", "line"),
    [
        (CopySize(total=1000, unit="documents"), "300 of 1,000 documents, 30 %"),
        (CopySize(total=1200, unit="documents", estimate=True), "300 of ~1,200 documents, ~25 %"),
        (CopySize(total=200, unit="documents", estimate=True), "300 of ~200 documents"),
        (CopySize(total=987654321, unit="documents", estimate=True), "300 of ~987,654,321 documents, ~0 %"),
        (None, ""),
    ],
)
def test_a_run_shows_how_much_of_its_source_is_read(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str], size: CopySize | None, line: str
) -> None:
    """In the table of a terminal, which has 80 columns, and in the lines that stand elsewhere."""
    monkeypatch.setattr(reader, "_SHARE", 1)
    tables: list[str] = []

    def look() -> None:
        out = io.StringIO()
        Console(file=out, width=80).print(display._table(made.progress()))
        tables.append(out.getvalue())
        display._said = -100.0  # as if the last line had been ten seconds ago
        display.show()

    monkeypatch.setattr(Shown, "look", look, raising=False)
    pipeline = Pipeline("p")
    pipeline.source("s", Shown(size=size)).save("out", file(str(tmp_path / "o.jsonl")))
    with EmbeddedLog(tmp_path / "data") as log:
        made = Run(pipeline, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never")))
        display = _Display(made, False, AT, StopSignal())
        made.go()
    told = capsys.readouterr().err.splitlines()[3]
    assert told.startswith("read 300 (copy), ")
    assert [one for one in told.split("; ") if "documents" in one] == ([line] if line else [])
    assert [one.strip() for one in tables[3].splitlines() if "documents" in one] == ([line] if line else [])
    assert max(len(one) for one in tables[3].splitlines()) <= 80


def test_a_run_that_follows_tells_no_size_once_all_of_it_is_read(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("{}\n")
    pipeline = Pipeline("p")
    pipeline.source("s", file(str(tmp_path / "in.jsonl"))).save("out", file(str(tmp_path / "o.jsonl")))
    with EmbeddedLog(tmp_path / "data") as log:
        made = Run(pipeline, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never")))
        made.go()
        assert _Display(made, False, AT, StopSignal())._known_size() == ["3 B of 3 B, 100 %"]
        assert _Display(made, True, AT, StopSignal())._known_size() == []


def test_events_go_to_no_other_kind_of_address() -> None:
    with pytest.raises(BadInput, match="not to ftp://x"):
        _listeners("ftp://x")


def test_a_run_that_follows_tells_at_once_that_a_sink_has_failed(
    tmp_path: Path, monkeypatch: pytest.MonkeyPatch, capsys: pytest.CaptureFixture[str]
) -> None:
    """No message is to blame, so the command shows the sink, not a message; and it is told once."""
    pipeline = Pipeline("p")
    pipeline.source("s", file(str(tmp_path / "in.jsonl"))).save("out", file(str(tmp_path / "o.jsonl")))
    failure = Failure(offset=0, error="not-found", message="The bucket is gone.", of_message=False)
    state = LoopState(Activity.FAILED, "The bucket is gone.")
    sink = SinkProgress(sink="out", position=-1, end=5, lag=5, written=0, state=state, failure=failure)
    with EmbeddedLog(tmp_path / "data") as log:
        made = Run(pipeline, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never")))
        monkeypatch.setattr(made, "progress", lambda: [sink])
        display = _Display(made, True, AT, StopSignal())
        display.show()
        display.show()
    assert capsys.readouterr().err.splitlines() == [
        "out has failed: The bucket is gone.",
        "  See it, and what to do: headwater pipeline status p",
    ]
