"""Trying a pipeline out: what fails is a check that failed, and the others are tried all the same."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path
from typing import Any

from headwater.adaptors.file.adaptor import File
from headwater.core.errors import Unreachable
from headwater.pipeline.adaptor import Piece, Slice
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.operating.preflight import preflight


class Broken(File, frozen=True, kw_only=True):
    """A source that can be connected to, and breaks when it is read."""

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        raise Unreachable("The connection is gone.", hint="Try again.")
        yield


def test_a_source_that_breaks_when_it_is_read_is_a_check_that_failed(tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"_id": 1}\n')
    pipeline = Pipeline("p")
    pipeline.source("in", Broken(uri=str(tmp_path / "in.jsonl"))).save("out", File(uri=str(tmp_path / "out.jsonl")))
    found = preflight(pipeline)
    assert found["message"] is None
    assert [(one["name"], one["ok"], one["exit_code"]) for one in found["checks"]] == [
        ("in", True, 0),
        ("out", True, 0),
        ("in's first message", False, 6),
    ]
    assert not (tmp_path / "out.jsonl").exists()
