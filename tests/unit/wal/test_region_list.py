from __future__ import annotations

import pytest

from headwater.core.errors import RegionNotFound
from headwater.log.embedded.log import EmbeddedLog
from headwater.wal.region_creation import create_region
from headwater.wal.region_list import known_region, region_list
from headwater.wal.region_topics import RegionTopics


def test_regions_are_listed_in_order_and_topics_of_others_are_none(log: EmbeddedLog) -> None:
    for namespace, region in (("wal", 12), ("wal", 2**64 - 1), ("manifest", 7)):
        create_region(log, RegionTopics(namespace, region))
    log.create_topic("wal_data_99")
    assert [str(region) for region, _ in region_list(log)] == ["manifest/7", "wal/7", "wal/12", f"wal/{2**64 - 1}"]
    assert [region.region for region, _ in region_list(log, "manifest")] == [7]
    assert known_region(log, RegionTopics("wal", 12)).name == "wal_data_12"
    with pytest.raises(RegionNotFound, match="Did you mean manifest/7"):
        known_region(log, RegionTopics("manifst", 7))
