"""A position that an operator moves back into the middle of a part: every message is there once afterwards."""

from __future__ import annotations

import json
from collections.abc import Iterator
from pathlib import Path

import pytest
from ground import gone, piped

from headwater.core.errors import BadBounds, TaskFailed
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file
from headwater.pipeline.offsets.acks import Acks
from headwater.pipeline.offsets.control import Control
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.running import rewind


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


@pytest.fixture
def pipeline(log: Log, tmp_path: Path) -> Pipeline:
    """One that has delivered ten documents to a folder, in one part."""
    (tmp_path / "in.jsonl").write_text("".join(f'{{"_id":{n}}}\n' for n in range(10)))
    made = piped(tmp_path, {"out": file(f"{tmp_path}/out/")}, source=file(str(tmp_path / "in.jsonl")))
    gone(log, tmp_path, made)
    assert written(tmp_path) == list(range(10))
    return made


def dying(self: Acks) -> None:
    raise RuntimeError("the process dies")


def written(folder: Path) -> list[int]:
    return sorted(json.loads(line)["_id"] for part in (folder / "out").glob("part-*") for line in part.read_text().splitlines())


def test_the_whole_part_comes_again_with_what_was_corrected(log: Log, pipeline: Pipeline, tmp_path: Path) -> None:
    operator = PipelineOperations(log, "p", who="ann")
    operator.edit(7, {"_id": 70}, why="wrong")
    operator.mark("out", 5, why="corrected")
    assert gone(log, tmp_path, pipeline).sinks[0].lag == 0
    assert written(tmp_path) == [0, 1, 2, 3, 4, 5, 6, 8, 9, 70]


def test_a_position_between_two_parts_moves_to_itself(log: Log, pipeline: Pipeline, tmp_path: Path) -> None:
    control = Control(log, "p", PipelineOperations(log, "p").clock)
    sink = pipeline.sinks["out"]
    assert rewind.nearest_position(log, control, sink, control.identity(), 5) == -1
    (part,) = (tmp_path / "out").glob("part-*")
    last = int(part.name.split("-")[2][:20]) - 1  # 9, or 10 where the copy's end was there already
    assert rewind.nearest_position(log, control, sink, control.identity(), last) == last


def test_a_run_that_dies_once_the_part_is_taken_away_leaves_nothing_out(
    log: Log, pipeline: Pipeline, tmp_path: Path, monkeypatch: pytest.MonkeyPatch
) -> None:
    PipelineOperations(log, "p", who="ann").mark("out", 5, why="again")
    with monkeypatch.context() as patch:
        patch.setattr(Acks, "confirm_move", dying)
        with pytest.raises(TaskFailed, match="sink out of p failed"):
            gone(log, tmp_path, pipeline)
    assert written(tmp_path) == []
    gone(log, tmp_path, pipeline)
    assert written(tmp_path) == list(range(10))


def test_a_part_whose_beginning_the_log_has_lost_stays(log: Log, pipeline: Pipeline, tmp_path: Path) -> None:
    operator = PipelineOperations(log, "p", who="ann")
    writer = log.claim(operator.topic, 0, part="pipeline")
    writer.delete_before(3)
    operator.mark("out", 5, why="again")
    with pytest.raises(BadBounds, match=r"5 lies in the middle of the messages 0 to \d+, which out holds in one part") as refused:
        gone(log, tmp_path, pipeline)
    assert "offset p mark out" in refused.value.hint
    assert written(tmp_path) == list(range(10))
