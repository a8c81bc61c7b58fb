from __future__ import annotations

from pathlib import Path

import pytest

from headwater.core.errors import Damaged, RegionNotFound
from headwater.log import Topic
from headwater.log.embedded.log import EmbeddedLog
from headwater.wal.region_creation import create_region
from headwater.wal.region_list import found_regions, known_region, region_list
from headwater.wal.region_topics import PART, RegionTopics


def test_regions_are_listed_in_order_and_topics_of_others_are_none(log: EmbeddedLog) -> None:
    for namespace, region in (("wal", 12), ("wal", 2**64 - 1), ("manifest", 7)):
        create_region(log, RegionTopics(namespace, region))
    log.create_topic("wal_data_99")
    assert [str(region) for region, _ in region_list(log)] == ["manifest/7", "wal/7", "wal/12", f"wal/{2**64 - 1}"]
    assert [region.region for region, _ in region_list(log, "manifest")] == [7]
    assert known_region(log, RegionTopics("wal", 12)).name == "wal_data_12"
    with pytest.raises(RegionNotFound, match="Did you mean manifest/7"):
        known_region(log, RegionTopics("manifst", 7))


def test_a_region_that_is_not_there_is_told_without_a_look_at_all_others(log: EmbeddedLog, monkeypatch: pytest.MonkeyPatch) -> None:
    """Else the thousandth region would take a thousand times as long to create, and each wrong number as long as a list of all."""
    for region in range(20, 40):
        create_region(log, RegionTopics("wal", region))
    described = list[str]()
    get = EmbeddedLog.topic
    monkeypatch.setattr(EmbeddedLog, "topic", lambda log, name: (described.append(name), get(log, name))[1])
    monkeypatch.setattr(EmbeddedLog, "topics", lambda log: pytest.fail("all topics were described"))
    with pytest.raises(RegionNotFound, match="Did you mean wal/"):
        known_region(log, RegionTopics("wal", 2))
    assert described == ["wal_data_2"]


@pytest.mark.parametrize("topic", ["wal_data_12", "wal_meta_12"])
def test_a_region_that_cannot_be_described_hides_no_other(log: EmbeddedLog, tmp_path: Path, topic: str) -> None:
    create_region(log, RegionTopics("wal", 12))
    log.claim(topic, 0, part=PART)
    (tmp_path / "log" / topic / "topic.json").unlink()
    (_, known), (broken, damage) = found_regions(log, "wal")
    assert isinstance(known, Topic)
    assert (known.name, str(broken)) == ("wal_data_7", "wal/12")
    assert isinstance(damage, Damaged)
    assert f"{topic}/topic.json is missing" in damage.message
    assert found_regions(log, "others") == []
    with pytest.raises(Damaged):
        region_list(log)  # for those who must know all numbers that are taken
    with pytest.raises(RegionNotFound, match="Did you mean wal/7"):
        known_region(log, RegionTopics("wa", 7))


def test_descriptions_that_were_swapped_are_damage(log: EmbeddedLog, tmp_path: Path) -> None:
    data, meta = (tmp_path / "log" / topic / "topic.json" for topic in ("wal_data_7", "wal_meta_7"))
    for topic in ("wal_data_7", "wal_meta_7"):
        log.claim(topic, 0, part=PART)
    described = data.read_bytes()
    data.write_bytes(meta.read_bytes())
    meta.write_bytes(described)
    with pytest.raises(Damaged, match=r"wal_data_7/topic.json belongs to wal_meta_7: it was copied or swapped.*headwater wal create"):
        known_region(log, RegionTopics("wal", 7))
    data.unlink()
    meta.unlink()
    create_region(log, RegionTopics("wal", 7))
    assert known_region(log, RegionTopics("wal", 7)).generation in described.decode()
