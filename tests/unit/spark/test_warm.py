from __future__ import annotations

import fcntl
import os
import time
from pathlib import Path

import pytest

from headwater.spark.java import Java
from headwater.spark.warm import KEPT_DAYS, Archive, archive_for, make, sweep


@pytest.fixture
def java(tmp_path: Path) -> Java:
    home = tmp_path / "java"
    (home / "bin").mkdir(parents=True)
    (home / "bin" / "java").touch()
    (home / "release").write_text('JAVA_VERSION="25.0.1"')
    return Java(home, 25, "JAVA_HOME")


def test_one_java_and_one_spark_have_one_archive(java: Java, tmp_path: Path) -> None:
    archive = archive_for(java, tmp_path)
    assert archive_for(java, tmp_path) == archive
    assert archive.wanted
    assert not archive.usable
    (java.home / "release").write_text('JAVA_VERSION="25.0.2"')
    assert archive_for(java, tmp_path) != archive


def test_the_kind_goes_by_the_java(java: Java, tmp_path: Path) -> None:
    new, old = archive_for(java, tmp_path), archive_for(Java(java.home, 21, "JAVA_HOME"), tmp_path)
    assert (new.aot, new.path.suffix, old.aot, old.path.suffix) == (True, ".aot", False, ".jsa")
    assert f"-XX:AOTCache={new.path}" in new.options()
    assert f"-XX:SharedArchiveFile={old.path}" in old.options()
    assert new.recording(tmp_path / "x")[0] == f"-XX:AOTCacheOutput={tmp_path / 'x'}"
    assert old.recording(tmp_path / "x")[0] == f"-XX:ArchiveClassesAtExit={tmp_path / 'x'}"


def test_a_rejected_archive_is_gone_and_not_made_again(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "a.aot", aot=True)
    archive.path.touch()
    assert archive.usable
    archive.reject("Spark did not start")
    assert (archive.usable, archive.wanted) == (False, False)
    assert archive.failed.read_text() == "Spark did not start"


def test_only_one_process_makes_it(tmp_path: Path) -> None:
    archive = Archive(tmp_path / "jvm" / "a.aot", aot=True)
    archive.path.parent.mkdir()
    with (archive.path.parent / "lock").open("a") as other:
        fcntl.flock(other, fcntl.LOCK_EX)
        assert make(archive) is False
    archive.path.touch()
    assert make(archive) is True, "it is there: nothing to do"


def test_what_nobody_uses_goes(tmp_path: Path) -> None:
    now = time.time()
    used, unused, left = (tmp_path / name for name in ("used.aot", "unused.jsa", "new-half.aot"))
    for file in (used, unused, left):
        file.touch()
    os.utime(unused, (0, now - (KEPT_DAYS + 1) * 86_400))
    os.utime(used, (0, now - (KEPT_DAYS + 1) * 86_400))
    Archive(used, aot=True).touch()
    sweep(tmp_path, now)
    assert sorted(file.name for file in tmp_path.iterdir()) == ["used.aot"]
