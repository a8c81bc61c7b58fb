"""What a run writes of itself: changed sinks are told once, with what they have taken as they were."""

from __future__ import annotations

import shutil
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, cast

import pytest
from ground import gone, piped

from headwater.core.clock import SystemClock
from headwater.core.errors import BadConfig, Differs, HeadwaterError
from headwater.log import Log, Writer
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline, omit, python
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.message import Message
from headwater.pipeline.offsets.control import Control, log_topic, offsets_topic
from headwater.pipeline.offsets.state import RunInfo
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.running.run_record import newest_claim
from headwater.pipeline.transform import Transform


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


def pipeline(folder: Path, *transforms: Transform, out: str = "o.db", **options: Any) -> Pipeline:
    (folder / "in.jsonl").write_text('{"_id":1,"a":1}\n') if not (folder / "in.jsonl").exists() else None
    sinks = {"db": sqlite(str(folder / out), **options)}
    return piped(folder, sinks, source=file(str(folder / "in.jsonl")), transforms=transforms)


def told(log: Log, folder: Path, made: Pipeline) -> str:
    return " ".join(gone(log, folder, made).notices)


def first(message: Message) -> Message:
    return message


def second(message: Message) -> Message | None:
    return message


def renamed(function: Callable[..., Any]) -> Transform:
    transform = python(function)
    transform.name = "python(change)"
    return transform


def test_a_sink_whose_transforms_have_changed_is_told_once(log: Log, tmp_path: Path) -> None:
    assert told(log, tmp_path, pipeline(tmp_path)) == ""
    text = told(log, tmp_path, pipeline(tmp_path, omit("a")))
    assert "transforms are omit(a) now, and were none. Messages 0 to 1 were delivered" in text
    assert "offset p mark db -1" in text
    assert told(log, tmp_path, pipeline(tmp_path, omit("a"))) == ""


def test_another_body_of_the_same_function_is_another_transform(log: Log, tmp_path: Path) -> None:
    told(log, tmp_path, pipeline(tmp_path, renamed(first)))
    assert told(log, tmp_path, pipeline(tmp_path, renamed(first))) == ""
    assert "its transforms have changed (python(change))" in told(log, tmp_path, pipeline(tmp_path, renamed(second)))


def test_another_target_of_a_sink_is_told(log: Log, tmp_path: Path) -> None:
    told(log, tmp_path, pipeline(tmp_path))
    with pytest.raises(Differs, match=r"q\.db\) lacks messages that sink db has taken: 0-1"):
        told(log, tmp_path, pipeline(tmp_path, out="q.db"))


def test_a_sink_that_has_taken_nothing_is_not_told(log: Log, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("")
    told(log, tmp_path, piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))}))


def test_a_source_that_cannot_be_followed_is_not(log: Log, tmp_path: Path) -> None:
    with pytest.raises(BadConfig, match="cannot be followed") as no:
        gone(log, tmp_path, pipeline(tmp_path), follow=True)
    assert "without --follow" in no.value.hint
    assert log.topics() == []


def test_why_a_run_failed_is_kept_until_the_next_one(log: Log, tmp_path: Path) -> None:
    made = piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))}, source=file(str(tmp_path / "late.jsonl")))
    with pytest.raises(HeadwaterError) as error:
        gone(log, tmp_path, made)
    shown = PipelineOperations(log, "p").status()
    assert (shown.state, shown.error, shown.hint) == ("failed", error.value.message, error.value.hint)
    assert "late.jsonl" in shown.error
    (tmp_path / "late.jsonl").write_text('{"_id":1}\n')
    gone(log, tmp_path, made)
    shown = PipelineOperations(log, "p").status()
    assert (shown.state, shown.error, shown.hint) == ("done", "", "")


def restored(folder: Path, name: str, copy: Path | None) -> None:
    """A topic of the log as it was in a copy, or none of it."""
    found = next(path for path in (folder / "data").rglob(name) if path.is_dir())
    shutil.rmtree(found)
    if copy is not None:
        shutil.copytree(copy / found.relative_to(folder / "data"), found)


@pytest.mark.parametrize("missing", [True, False], ids=["missing", "older"])
def test_an_offset_log_that_is_older_than_the_log_reads_nothing_a_second_time(tmp_path: Path, missing: bool) -> None:
    source, topic = tmp_path / "in", log_topic("p")
    source.mkdir()
    (source / "a.jsonl").write_text('{"_id":1}\n{"_id":2}\n')
    made = piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}, source=file(f"{source}/"))
    with EmbeddedLog(tmp_path / "data") as log:
        gone(log, tmp_path, made)
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    (source / "b.jsonl").write_text('{"_id":3}\n')
    with EmbeddedLog(tmp_path / "data") as log:
        gone(log, tmp_path, made)
    restored(tmp_path, offsets_topic("p"), None if missing else tmp_path / "copy")
    before = (tmp_path / "o.jsonl").read_text()
    for _ in range(2):
        with EmbeddedLog(tmp_path / "data") as log:
            end = log.bounds(topic, 0).end
            with pytest.raises(Differs, match="The offset log is older than the log, or missing") as error:
                gone(log, tmp_path, made, file="p.py")
            assert "a second time what they have:\n    headwater pipeline run p.py --again" in error.value.hint
            assert log.bounds(topic, 0).end == end
    assert (tmp_path / "o.jsonl").read_text() == before
    with EmbeddedLog(tmp_path / "data") as log:
        assert gone(log, tmp_path, made, again=True).state == "done"
        assert gone(log, tmp_path, made).state == "done"
    assert (tmp_path / "o.jsonl").read_text().count("\n") == 6


def test_a_log_that_was_made_anew_is_older_than_its_offset_log(tmp_path: Path) -> None:
    """Its claims count from 1 again: that is no newer run."""
    made = pipeline(tmp_path)
    for _ in range(3):
        with EmbeddedLog(tmp_path / "data") as log:
            gone(log, tmp_path, made)
    restored(tmp_path, log_topic("p"), None)
    with EmbeddedLog(tmp_path / "data") as log:
        with pytest.raises(Differs, match="The log is older than"):
            gone(log, tmp_path, made)
        assert log.bounds(log_topic("p"), 0).end == 0


def test_a_run_that_is_newer_indeed_is_not_overtaken(log: Log, tmp_path: Path) -> None:
    gone(log, tmp_path, pipeline(tmp_path))
    control = Control(log, "p", SystemClock())

    class Overtaken:
        """A log that another run claims after each of our claims."""

        def __getattr__(self, name: str) -> Any:
            return getattr(log, name)

        def claim(self, topic: str, partition: int, *, part: str) -> Writer:
            writer = log.claim(topic, partition, part=part)
            newer = log.claim(topic, partition, part=part).epoch
            control.change(lambda state: [("run", RunInfo(epoch=newer, id="n", began=0))])
            return writer

    control.log = cast(Log, Overtaken())
    before = log.epoch(log_topic("p"), 0)
    assert newest_claim(control).epoch == before + 1
