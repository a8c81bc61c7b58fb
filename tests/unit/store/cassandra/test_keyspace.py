"""What is refused before any node is asked."""

from __future__ import annotations

import pytest

from headwater.core.errors import BadConfig
from headwater.core.settings import CassandraSettings
from headwater.store.cassandra.keyspace import Keyspace, _address


@pytest.mark.parametrize("name", ["", "Shop", "1a", "a-b", "a" * 49, "a; drop keyspace b"])
def test_a_keyspace_needs_a_plain_name(name: str) -> None:
    with pytest.raises(BadConfig, match=r"cassandra\.keyspace"):
        Keyspace(CassandraSettings(contact_points=("127.0.0.1:1",), keyspace=name))


@pytest.mark.parametrize(
    ("point", "address"),
    [
        ("node", ("node", 9042)),
        ("node:1", ("node", 1)),
        ("10.0.0.1:19042", ("10.0.0.1", 19042)),
        ("[::1]:7", ("::1", 7)),
        ("::1", ("::1", 9042)),
        ("[fe80::1]", ("fe80::1", 9042)),
    ],
)
def test_a_contact_point_is_a_host_with_or_without_its_port(point: str, address: tuple[str, int]) -> None:
    assert _address(point) == address
