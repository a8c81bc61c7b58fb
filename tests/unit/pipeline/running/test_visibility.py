"""Tasks on other machines: what they do not see as the run does is refused before they write."""

from __future__ import annotations

import shutil
import subprocess
from pathlib import Path

import msgspec
import pytest

from headwater.core.errors import BadConfig, NotFound
from headwater.log.address import LogAddress
from headwater.pipeline.adaptors import file, headwater, sqlite
from headwater.pipeline.definition import Sink
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.running.visibility import check_probes, check_seen, probe, unseen_log, unseen_source
from headwater.pipeline.running.work import SinkWork
from headwater.pipeline.sink_adaptor import CanWrite, Part

PART = Part(pipeline="p#1", sink="s", start=0, end=9, epoch=3)


def adaptors(folder: Path) -> dict[str, CanWrite]:
    return {
        "folder": file(f"{folder}/out/"),
        "file": file(f"{folder}/out.jsonl"),
        "sqlite": sqlite(f"{folder}/out.db"),
        "log": headwater(f"{folder}/data", topic="t"),
    }


@pytest.mark.parametrize("kind", ["folder", "file", "sqlite", "log"])
def test_a_task_sees_what_the_run_began_or_writes_nothing(kind: str, tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    (tmp_path / "worker").mkdir()
    adaptor, other = adaptors(tmp_path / "run")[kind], adaptors(tmp_path / "worker")[kind]
    work = SinkWork(pipeline="p", topic="t", epoch=3, sink=Sink(name="s", adaptor=adaptor, namespaces=Namespaces()))
    with pytest.raises(BadConfig):
        check_seen(work, PART)
    adaptor.begin("p#1", "s", 3)
    check_seen(work, PART)
    check_seen(work, msgspec.structs.replace(PART, epoch=2))  # an older run is fenced elsewhere
    elsewhere = msgspec.structs.replace(work, sink=msgspec.structs.replace(work.sink, adaptor=other))
    with pytest.raises(BadConfig, match="Sink s writes to") as refused:
        check_seen(elsewhere, PART)
    assert "S3" in refused.value.hint
    assert list((tmp_path / "worker").iterdir()) == []


@pytest.mark.parametrize("kind", ["folder", "file"])
def test_what_a_task_writes_is_seen_by_the_run_before_the_first_batch(kind: str, tmp_path: Path) -> None:
    """A worker may have a copy of the folder, with the run's note in it, such as a snapshot or a layer over it."""
    (tmp_path / "run").mkdir()
    adaptor, other = adaptors(tmp_path / "run")[kind], adaptors(tmp_path / "worker")[kind]
    work = SinkWork(pipeline="p", topic="t", epoch=3, sink=Sink(name="s", adaptor=adaptor, namespaces=Namespaces()))
    adaptor.begin("p#1", "s", 3)
    shutil.copytree(tmp_path / "run", tmp_path / "worker")
    before = everything(tmp_path / "run")
    found = [probe(work, msgspec.structs.replace(PART, attempt=attempt)) for attempt in ("a", "b")]
    check_probes(work, PART, found)
    assert everything(tmp_path / "run") == before
    elsewhere = msgspec.structs.replace(work, sink=msgspec.structs.replace(work.sink, adaptor=other))
    with pytest.raises(BadConfig, match=r"the run does not see what a task of Spark on .* writes") as refused:
        check_probes(work, PART, [probe(elsewhere, PART)])
    assert "S3" in refused.value.hint
    assert everything(tmp_path / "run") == before


def test_a_task_that_may_only_read_is_refused_before_the_first_batch(tmp_path: Path) -> None:
    (tmp_path / "run").mkdir()
    adaptor = adaptors(tmp_path / "run")["folder"]
    work = SinkWork(pipeline="p", topic="t", epoch=3, sink=Sink(name="s", adaptor=adaptor, namespaces=Namespaces()))
    adaptor.begin("p#1", "s", 3)
    folder = tmp_path / "run"
    mounting = f"mount --bind {folder} {folder} && mount -o remount,bind,ro {folder}"
    if (done := subprocess.run(mounting, shell=True, capture_output=True, text=True)).returncode:
        pytest.skip(f"nothing can be mounted here: {done.stderr.strip()}")
    try:
        check_seen(work, PART)
        with pytest.raises(BadConfig, match="cannot write there"):
            probe(work, PART)
    finally:
        subprocess.run(["umount", str(folder)], check=True)


def everything(folder: Path) -> list[str]:
    return sorted(str(one) for one in folder.rglob("*"))


@pytest.mark.parametrize("kind", ["folder", "sqlite"])
def test_a_target_of_another_sink_is_not_the_run_s(kind: str, tmp_path: Path) -> None:
    adaptor = adaptors(tmp_path)[kind]
    adaptor.begin("p#1", "other", 3)
    assert not adaptor.seen(PART)


def test_sources_and_logs_are_told_with_what_the_task_said(tmp_path: Path) -> None:
    error = NotFound("It is not there.", hint="")
    assert "Source in reads file(/in.jsonl)" in unseen_source("in", file("/in.jsonl"), error).message
    assert "kafka" in unseen_log(LogAddress(path="/data"), error).hint
    assert "/data" in unseen_log(LogAddress(path="/data"), error).message
