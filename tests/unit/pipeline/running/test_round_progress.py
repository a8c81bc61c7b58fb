"""How far the tasks of a round have come, while they are at it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

import pytest
from ground import piped

from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.adaptors import file
from headwater.pipeline.running import reader, round_progress
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.pieces import Copied, CopyWork, append, copy_slices
from headwater.pipeline.running.round_progress import RoundProgress
from headwater.pipeline.running.run import Run
from headwater.pipeline.running.work import CopyProgress
from headwater.pipeline.source_adaptor import Piece, Slice
from headwater.pipeline.source_progress import CopySize, SourceProgress
from headwater.spark.small import Place


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


def test_what_tasks_append_is_seen_while_they_are_at_it(log: Log, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").touch()
    log.create_topic("t")
    writer = log.claim("t", 0)
    append(writer, Piece(position=1, values=[b"{}"]), "t", CopyProgress("c", 5, 1, 77), ids={})  # of the round before
    adaptor: Any = file(str(tmp_path / "in.jsonl"))
    fields: dict[str, Any] = {"slices": {}, "copy": "c", "epoch": writer.epoch, "ids": {}, "progress": {}, "since": 1, "most": 1}
    seen = RoundProgress(log, CopyWork(pipeline="p", topic="t", adaptor=adaptor, **fields), {})
    assert (seen.records, seen.amounts()) == (0, {})
    append(writer, Piece(position=1, values=[b"{}"]), "t", CopyProgress("c", 0, 1, 10), ids={})
    append(writer, Piece(position=1, values=[b"{}", b"{}"]), "t", CopyProgress("c", 1, 1, 5), ids={})
    assert (seen.records, seen.amounts()) == (3, {0: 10, 1: 5})
    append(writer, Piece(position=2, values=[b"{}"]), "t", CopyProgress("c", 0, 2, 20), ids={})
    append(writer, Piece(position=2, values=[b"{}"]), "t", CopyProgress("other", 1, 2, 99), ids={})
    assert (seen.records, seen.amounts()) == (5, {0: 20, 1: 5})


def test_slices_that_a_task_has_left_behind_are_read_though_nobody_looked(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr(round_progress, "_LOOK", 2)
    (tmp_path / "in.jsonl").touch()
    log.create_topic("t")
    writer = log.claim("t", 0)
    adaptor: Any = file(str(tmp_path / "in.jsonl"))
    slices = {n: Slice("t", {}, None if n == 4 else 100) for n in range(7)}
    fields: dict[str, Any] = {"slices": slices, "copy": "c", "epoch": writer.epoch, "ids": {}, "progress": {}, "since": 0, "most": 1}
    seen = RoundProgress(log, CopyWork(pipeline="p", topic="t", adaptor=adaptor, **fields), {0: [0, 2, 4, 6], 1: [1, 3, 5]})
    for number in (0, 1, 2, 3, 4, 5, 6):
        append(writer, Piece(position=1, values=[b"{}"]), "t", CopyProgress("c", number, 1, 10), ids={})
    assert seen.amounts() == {0: 100, 2: 100, 6: 10, 1: 100, 3: 100, 5: 10}  # how much 4 was, nobody has told


def test_a_run_tells_what_a_round_under_way_has_read(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """The tasks are done here, one after the other: what they append and what the run tells is the same on Spark."""
    (tmp_path / "in").mkdir()
    for n in range(3):
        (tmp_path / "in" / f"{n}.jsonl").write_text(f'{{"_id":"{n}"}}\n' * 10)
    told: list[tuple[int, SourceProgress | None]] = []

    def tell() -> None:
        told.append((made.read, made.source_progress))

    def copy(self: Engine, work: CopyWork, tasks: dict[int, list[int]]) -> list[Copied]:
        done = []
        for number in range(3):
            tell()
            done += copy_slices(log, work, 0, [number])
        tell()
        return done

    monkeypatch.setattr(reader, "place", lambda *args, **more: Place.SPARK)
    monkeypatch.setattr(Engine, "copy", copy)
    pipeline = piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}, source=file(f"{tmp_path}/in/"))
    made = Run(pipeline, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never")))
    made.go()
    tell()
    size = CopySize(total=360, unit="bytes")
    assert told == [(10 * n, SourceProgress.of(size, 120 * n)) for n in (0, 1, 2, 3, 3)]
