"""Topics that others delete and make anew while somebody looks."""

from __future__ import annotations

import os
import shutil
from pathlib import Path

import msgspec
import pytest

from headwater.core.disposal import DISPOSALS, Disposal, overwrites
from headwater.core.errors import Damaged, UnknownTopic
from headwater.core.files import FileLock, Files
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.topics import EmbeddedTopics
from headwater.log.record import Record, Topic, TopicSettings


def test_a_topic_made_anew_between_two_looks_is_not_damaged(tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    """Whoever looks without the lock may miss the description of the old topic and find the files of the new one, any number of times."""
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        log.append("t", 0, [Record(b"k", b"v")])
    described = EmbeddedTopics._described

    def missing_while_others_may_change_it(topics: EmbeddedTopics, name: str) -> Topic:
        lock = FileLock(Files(), topics.folder / "lock")
        try:
            if lock.try_exclusive():
                raise FileNotFoundError(name)
        finally:
            lock.close()
        return described(topics, name)

    monkeypatch.setattr(EmbeddedTopics, "_described", missing_while_others_may_change_it)
    for read_only in (True, False):
        with EmbeddedLog(tmp_path, read_only=read_only) as log:
            assert log.topic("t").partitions == 1
            assert [topic.name for topic in log.topics()] == ["t"]
    with EmbeddedLog(tmp_path) as log:
        log.delete_topic("t")
        with pytest.raises(UnknownTopic, match="headwater log create t"):
            log.topic("t")


def test_a_description_that_is_lost_is_damage_with_and_without_a_lock(tmp_path: Path) -> None:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        log.append("t", 0, [Record(b"k", b"v")])
    (tmp_path / "log" / "t" / "topic.json").unlink()
    for lost in (None, tmp_path / "log" / "lock"):
        if lost is not None:
            lost.unlink()
        with EmbeddedLog(tmp_path, read_only=True) as log, pytest.raises(Damaged, match="is missing, but partition 0 has files"):
            log.topic("t")
    shutil.rmtree(tmp_path / "log" / "t")
    with EmbeddedLog(tmp_path, read_only=True) as log, pytest.raises(UnknownTopic):
        log.topic("t")


def test_a_description_has_the_lowest_format_that_says_what_it_says(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path)
    log.create_topic("plain", settings=TopicSettings(period=3_600_000))
    log.create_topic("monthly", settings=TopicSettings(period="month"))
    formats = {name: msgspec.json.decode((tmp_path / "log" / name / "topic.json").read_bytes())["format"] for name in ("plain", "monthly")}
    assert formats == {"plain": 1, "monthly": 2}  # an older headwater would take a month for something else: it refuses the topic


def test_a_description_of_before_lacks_what_came_later(tmp_path: Path) -> None:
    log = EmbeddedLog(tmp_path)
    made = log.create_topic("t")
    path = tmp_path / "log" / "t" / "topic.json"
    stored = msgspec.json.decode(path.read_bytes())
    stored["topic"]["settings"] = {"segment": 1 << 20, "period": 5000, "max_record": 100}
    del stored["crc"]
    path.write_bytes(msgspec.json.encode(stored))
    assert EmbeddedLog(tmp_path).topic("t").settings == TopicSettings(segment=1 << 20, period=5000, max_record=100)
    assert EmbeddedLog(tmp_path).topic("t").generation == made.generation


@pytest.mark.parametrize("disposal", DISPOSALS)
def test_the_records_of_a_secure_topic_are_overwritten_with_it(tmp_path: Path, disposal: Disposal) -> None:
    log = EmbeddedLog(tmp_path)
    log.create_topic("t", settings=TopicSettings(segment=300, disposal=disposal))
    for n in range(20):
        log.append("t", 0, [Record(b"k", b"secret-%d" % n)])
    log.delete_before("t", 0, 10)
    held = [os.open(path, os.O_RDONLY) for path in (tmp_path / "log" / "t" / "0").glob("*.log")]
    with EmbeddedLog(tmp_path, read_only=True) as reader:
        columns = list(reader.scan("t", 0, 10, 11))
    log.delete_topic("t")
    assert sum(b"secret" in os.pread(fd, 10_000, 0) for fd in held) == (1 if overwrites(disposal) else len(held))  # one is still read
    assert columns[0].column("value").to_pylist() == [b"secret-10"]
    assert len(list((tmp_path / "log").glob(".deleted-*"))) == (1 if overwrites(disposal) else 0)
    del columns
    log.create_topic("t", settings=TopicSettings(segment=300, disposal=disposal))
    assert not list((tmp_path / "log").glob(".deleted-*"))
    assert not overwrites(disposal) or not any(b"secret" in os.pread(fd, 10_000, 0) for fd in held)
    for fd in held:
        os.close(fd)
    assert list(log.append("t", 0, [Record(b"k", b"v")])) == [0]
    log.close()
