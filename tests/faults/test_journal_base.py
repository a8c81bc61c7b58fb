"""Bases of journals when the disk fails and processes die at every step: the base before it stays valid, or the new one is."""

from __future__ import annotations

import os
import signal
from collections.abc import Callable
from pathlib import Path

import pytest
from tests.unit.journal.ground import TOPIC, Ground, appended, ground_at

from headwater.core.errors import HeadwaterError
from headwater.core.files import Files
from headwater.journal.base import JournalBases
from headwater.journal.discovery import JournalTopic
from headwater.journal.rebuild import request_rebuild
from headwater.journal.verify import verify_topic, write_bases
from headwater.testing.faults import DyingFiles, FailingFiles

OLD, NEW = 1, 3


def prepared(data: Path) -> JournalTopic:
    """A topic whose log begins behind 0, with a base that ends at OLD, and more records."""
    with ground_at(data) as ground:
        topic = ground.topic(partitions=1)
        ground.append(appended("a", 1), appended("a", 2))
        ground.loop().catch_up()
        write_bases(ground.log, ground.store, topic, address=ground.address, bases=JournalBases(data / "base"))
        ground.append(appended("a", 3), appended("b", 1))
        ground.loop().catch_up()
        ground.log.delete_before(TOPIC, 0, OLD, part="journal")
        return topic


def write(data: Path, topic: JournalTopic, files: Files) -> None:
    with ground_at(data) as ground:
        bases = JournalBases(data / "base", files=files)
        write_bases(ground.log, ground.store, topic, address=ground.address, bases=bases)


def check(data: Path, topic: JournalTopic, *, acknowledged: bool) -> None:
    """The base is the old or the new one, whole; a copy is made anew from it, and the next base is written."""
    with ground_at(data) as ground:
        bases = JournalBases(data / "base")
        note = bases.note(topic, 0)
        assert note is not None
        assert note.pointer == NEW if acknowledged else note.pointer in (OLD, NEW)
        verify_topic(ground.log, ground.store, topic, address=ground.address, bases=bases).check()
        request_rebuild(ground.log, topic, bases=bases)
        _catch_up(ground, bases)
        verify_topic(ground.log, ground.store, topic, address=ground.address, bases=bases).check()
        assert ground.pointer() == NEW
        write_bases(ground.log, ground.store, topic, address=ground.address, bases=bases)
        names = {path.name for path in (data / "base" / TOPIC).iterdir()}
        assert len([name for name in names if name.endswith(".db")]) == 1, names
        assert not [name for name in names if name.startswith("tmp-")], names


def _catch_up(ground: Ground, bases: JournalBases) -> None:
    loop = ground.loop()
    loop._bases = bases
    assert loop.catch_up()
    loop.close()


def steps(folder: Path, files: FailingFiles, count: Callable[[FailingFiles], int]) -> int:
    topic = prepared(folder)
    write(folder, topic, files)
    return count(files)


def test_each_failing_call_of_the_disk(tmp_path: Path) -> None:
    total = steps(tmp_path / "count", FailingFiles(), lambda files: files.calls)
    assert total >= 6
    failed = 0
    for number in range(1, total + 1):
        data = tmp_path / str(number)
        topic = prepared(data)
        try:
            write(data, topic, FailingFiles(number))
            acknowledged = True
        except HeadwaterError:
            acknowledged = False
            failed += 1
        check(data, topic, acknowledged=acknowledged)
    assert failed >= total - 2  # removing what is old may fail


@pytest.mark.skipif(not hasattr(os, "fork"), reason="needs fork")
def test_a_death_at_each_moment(tmp_path: Path) -> None:
    moments = steps(tmp_path / "count", DyingFiles(), lambda files: files.calls)
    died = 0
    for number in range(1, moments + 1):
        data = tmp_path / str(number)
        topic = prepared(data)
        child = os.fork()
        if not child:
            code = 1
            try:
                write(data, topic, DyingFiles(number))
                code = 0
            finally:
                os._exit(code)
        _, status = os.waitpid(child, 0)
        died += os.WIFSIGNALED(status) and os.WTERMSIG(status) == signal.SIGKILL
        check(data, topic, acknowledged=False)
    assert died == moments
