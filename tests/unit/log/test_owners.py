"""Whose a topic is: what `topic.json` says, what the name says where that is silent, and what is done where both could be lost."""

from __future__ import annotations

import json
import shutil
from collections.abc import Iterator
from pathlib import Path

import msgspec
import pytest
from google_crc32c import value as crc32c
from tests.unit.parts.toy import TOY

from headwater import parts
from headwater.core.errors import AlreadyExists, BadInput, Damaged, Fenced, OwnedTopic
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.embedded.transporter import import_transporter
from headwater.log.owners import check_owner, new_settings, owner_by_name
from headwater.log.record import Record, TopicSettings

OWNING = msgspec.structs.replace(TOY, owns=("toy-", "toys."))


@pytest.fixture(autouse=True)
def toy_is_a_part(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(parts, "PARTS", (*parts.PARTS, OWNING))


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data") as opened:
        yield opened


def test_a_name_tells_its_part() -> None:
    names = ["toy-a", "toys.b", "toy", "toys-c", "pipeline-x", "pipeline", "orders", "my-toy-a"]
    assert [owner_by_name(name) for name in names] == ["toy", "toy", "", "", "pipeline", "", "", ""]


def test_a_part_that_tells_nothing_is_named_with_its_commands() -> None:
    with pytest.raises(OwnedTopic, match="belongs to the part toy") as refused:
        check_owner("toy-a", "toy", "", "compact")
    assert "headwater toy --help" in refused.value.hint
    check_owner("toy-a", "toy", "toy", "compact")
    check_owner("orders", "", "toy", "append")


@pytest.mark.parametrize(
    ("topic", "operation", "command"),
    [
        ("pipeline-shop", "compact", "headwater pipeline compact shop"),
        ("pipeline-shop-offsets", "delete_before", "headwater pipeline compact shop"),
        ("pipeline-shop-offsets", "delete_topic", "headwater pipeline remove shop"),
        ("pipeline-shop", "append", "headwater pipeline edit shop"),
        ("pipeline-shop", "create_topic", "headwater pipeline run FILE"),
    ],
)
def test_a_pipeline_names_the_command_to_use_instead(topic: str, operation: str, command: str) -> None:
    with pytest.raises(OwnedTopic) as refused:
        check_owner(topic, "pipeline", "", operation)
    assert command in refused.value.hint


def test_an_owner_that_no_name_tells_is_kept(log: EmbeddedLog) -> None:
    log.create_topic("region_data_a", part="toy")
    with EmbeddedLog(log.data) as other:
        assert other.topic("region_data_a").settings.owner == "toy"
        with pytest.raises(OwnedTopic):
            other.append("region_data_a", 0, [Record(b"k", b"v")])


def test_a_users_topic_is_not_taken_by_a_part(log: EmbeddedLog) -> None:
    log.create_topic("mine")
    for settings in (None, TopicSettings()):
        with pytest.raises(AlreadyExists, match="the part toy has not made it"):
            log.create_topic("mine", settings=settings, part="toy")
    log.append("mine", 0, [Record(b"k", b"v")])


def _without_owner(data: Path, topic: str) -> None:
    """As a headwater from before owners wrote it."""
    path = data / "log" / topic / "topic.json"
    stored = json.loads(path.read_bytes())
    del stored["topic"]["settings"]["owner"]
    stored["crc"] = crc32c(json.dumps(stored["topic"], separators=(",", ":")).encode())
    path.write_text(json.dumps(stored))


def test_the_name_tells_the_owner_of_a_topic_from_before(log: EmbeddedLog) -> None:
    for name in ("toy-old", "old"):
        log.create_topic(name, part=owner_by_name(name))
        _without_owner(log.data, name)
    with EmbeddedLog(log.data) as other:
        assert {one.name: one.settings.owner for one in other.topics()} == {"toy-old": "toy", "old": ""}
        with pytest.raises(OwnedTopic):
            other.append("toy-old", 0, [Record(b"k", b"v")])
        assert other.create_topic("toy-old", settings=TopicSettings(), part="toy").settings.owner == "toy"
        other.append("old", 0, [Record(b"k", b"v")])


def test_a_folder_that_was_copied_under_another_name_is_nobodys(log: EmbeddedLog) -> None:
    log.create_topic("toy-a", part="toy")
    shutil.copytree(log.data / "log" / "toy-a", log.data / "log" / "copy")
    assert log.topic("copy").settings.owner == ""
    log.delete_topic("copy")


def test_a_rotten_description_is_not_made_anew_by_a_user(log: EmbeddedLog) -> None:
    log.create_topic("toy-a", part="toy")
    log.append("toy-a", 0, [Record(b"k", b"v")], part="toy")
    log.close()
    (log.data / "log" / "toy-a" / "topic.json").unlink()
    with EmbeddedLog(log.data) as other:
        with pytest.raises(Damaged) as lost:
            other.topic("toy-a")
        assert "the part toy does so" in lost.value.hint
        with pytest.raises(OwnedTopic):
            other.create_topic("toy-a")
        other.create_topic("toy-a", part="toy")
        assert [record.value for record in other.read("toy-a", 0, 0)] == [b"v"]


def test_nothing_is_imported_into_a_parts_topic(log: EmbeddedLog, tmp_path: Path) -> None:
    source = tmp_path / "transporter"
    source.mkdir()
    (source / f"{0:020d}.log").write_bytes(b"")
    with pytest.raises(OwnedTopic):
        import_transporter(log, source, "toy-imported")
    log.create_topic("region", part="toy")
    with pytest.raises(OwnedTopic):
        import_transporter(log, source, "region")
    assert [topic.name for topic in log.topics()] == ["region"]


def test_nothing_is_imported_beside_a_claim(log: EmbeddedLog, tmp_path: Path) -> None:
    source = tmp_path / "transporter"
    source.mkdir()
    (source / f"{0:020d}.log").write_bytes(b"")
    log.create_topic("mine", settings=TopicSettings(segment=1 << 30))
    log.claim("mine", 0)
    with pytest.raises(Fenced):
        import_transporter(log, source, "mine")


def test_a_topic_that_another_part_has_made_anew_is_judged_as_it_is_now(log: EmbeddedLog) -> None:
    log.create_topic("a", part="toy")
    log.append("a", 0, [Record(b"k", b"1")], part="toy")
    with EmbeddedLog(log.data) as other:
        other.delete_topic("a", part="toy")
        other.create_topic("a")
    log.append("a", 0, [Record(b"k", b"2")])  # what this log knew of the old one does not refuse it
    with EmbeddedLog(log.data) as other:
        other.delete_topic("a")
        other.create_topic("a", part="toy")
    with pytest.raises(OwnedTopic):
        log.append("a", 0, [Record(b"k", b"3")])
    assert log.bounds("a", 0).end == 0


def test_a_user_names_no_owner() -> None:
    with pytest.raises(BadInput):
        new_settings("mine", TopicSettings(owner="toy"), "")
