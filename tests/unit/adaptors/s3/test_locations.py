"""Prefixes of buckets: which objects of a sink a source would read."""

from __future__ import annotations

from typing import Any

import pytest

from headwater.adaptors.s3.adaptor import s3
from headwater.adaptors.s3.locations import prefix_locations, writes_prefix
from headwater.pipeline.namespaces import Namespaces

HERE: dict[str, Any] = {"endpoint_url": "http://127.0.0.1:9000"}


@pytest.mark.parametrize(
    ("read", "written", "meet"),
    [
        ("in/", "in/", True),
        ("in/", "in", True),
        ("in", "in-copy/", True),  # a prefix need not end with a slash
        ("in/", "in-copy/", False),
        ("in/", "in/copy/", True),
        ("in/", "in/_copy/", False),
        ("in/deep/", "in/", False),
        ("", "out/", True),
    ],
)
def test_a_sink_below_the_prefix_that_is_read(read: str, written: str, meet: bool) -> None:
    source = prefix_locations(s3(f"s3://b/{read}", **HERE), Namespaces())
    assert writes_prefix(s3(f"s3://b/{written}", **HERE), source) is meet


def test_a_store_is_known_by_its_address_and_a_bucket_of_amazon_by_its_name() -> None:
    source = prefix_locations(s3("s3://b/in/", **HERE), Namespaces())
    assert writes_prefix(s3("s3://b/in/", endpoint_url="http://localhost:9000"), source)
    assert not writes_prefix(s3("s3://b/in/", endpoint_url="http://localhost:9001"), source)
    assert not writes_prefix(s3("s3://c/in/", **HERE), source)
    assert not writes_prefix(s3("s3://b/in/"), source)
    amazon = prefix_locations(s3("s3://b/in/"), Namespaces())
    assert writes_prefix(s3("s3://b/in/", endpoint_url="https://s3.eu-west-1.amazonaws.com"), amazon)


def test_a_namespace_that_is_not_chosen_is_not_read() -> None:
    source = prefix_locations(s3("s3://b/in/", **HERE), Namespaces("^orders"))
    assert not writes_prefix(s3("s3://b/in/copy/", **HERE), source)
