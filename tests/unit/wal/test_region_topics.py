from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import BadInput
from headwater.wal.region_topics import RegionTopics, region_named, region_of, region_topics


def test_a_region_has_two_topics() -> None:
    topics = region_topics("wal", 12)
    assert (topics.data, topics.meta, str(topics)) == ("wal_data_12", "wal_meta_12", "wal/12")


@pytest.mark.parametrize("namespace", ["", "a_b", "-a", "a/b", "ä", "x" * 101, 7, None])
def test_what_is_no_namespace_is_refused(namespace: Any) -> None:
    with pytest.raises(BadInput, match="no namespace"):
        region_topics(namespace, 1)


@pytest.mark.parametrize("region", [-1, 2**64, "1", 1.0, True, None])
def test_what_is_no_number_of_a_region_is_refused(region: Any) -> None:
    with pytest.raises(BadInput, match="no region"):
        region_topics("wal", region)


@pytest.mark.parametrize(
    ("topic", "region"),
    [
        ("wal_data_0", RegionTopics("wal", 0)),
        ("my.wal-2_data_18446744073709551615", RegionTopics("my.wal-2", 2**64 - 1)),
        ("wal_data_18446744073709551616", None),
        ("wal_data_01", None),
        ("wal_data_", None),
        ("wal_meta_1", None),
        ("orders", None),
    ],
)
def test_a_data_topic_names_its_region(topic: str, region: RegionTopics | None) -> None:
    assert region_of(topic) == region


@pytest.mark.parametrize(
    ("text", "region"),
    [("wal/7", RegionTopics("wal", 7)), ("7", RegionTopics("wal", 7)), (" a.b-c/0 ", RegionTopics("a.b-c", 0))],
)
def test_people_name_a_region(text: str, region: RegionTopics) -> None:
    assert region_named(text) == region


@pytest.mark.parametrize("text", ["", "wal", "wal/", "/7", "wal/-1", "wal/7/8", "wal/x", "wal/18446744073709551616", "a_b/1", "٧", "-1"])
def test_what_names_no_region_is_refused(text: str) -> None:
    with pytest.raises(BadInput):
        region_named(text)
