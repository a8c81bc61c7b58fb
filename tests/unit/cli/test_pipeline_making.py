"""`headwater pipeline init` for every adaptor: the file that it writes can be loaded."""

from __future__ import annotations

from pathlib import Path

import pytest

from headwater.cli.pipeline_making import init
from headwater.pipeline import adaptors
from headwater.pipeline.loading import load_pipeline
from headwater.pipeline.operating.about import about_of

SOURCES = [name for name in sorted(adaptors.built_in()) if about_of(name).source]
SINKS = [name for name in sorted(adaptors.built_in()) if about_of(name).sink]


@pytest.mark.parametrize("name", SOURCES)
def test_a_file_for_every_source(tmp_path: Path, name: str) -> None:
    init(name, "file", tmp_path / "made.py")
    pipeline = load_pipeline(str(tmp_path / "made.py"))
    assert (pipeline.name, pipeline.source_name, list(pipeline.sinks)) == ("made", "source", ["sink"])


def test_from_files_to_files_are_two_files(tmp_path: Path) -> None:
    init("file", "file", tmp_path / "made.py")
    pipeline = load_pipeline(str(tmp_path / "made.py"))
    assert (str(pipeline.reader), str(pipeline.sinks["sink"].adaptor)) == ("file(orders.jsonl)", "file(copied.jsonl)")


@pytest.mark.parametrize("name", SINKS)
def test_a_file_for_every_sink(tmp_path: Path, name: str) -> None:
    init("file", name, tmp_path / "made.py")
    assert load_pipeline(str(tmp_path / "made.py")).sinks["sink"].adaptor.about.summary == about_of(name).summary
