"""Whose connections are counted together, and how many there may be."""

from __future__ import annotations

import resource

import pytest

from headwater.core.settings import ServerSettings
from headwater.server.connections import Limits, _network
from headwater.server.listening import descriptors_for


@pytest.mark.parametrize(
    ("one", "other", "together"),
    [
        ("10.0.0.1", "10.0.0.1", True),
        ("10.0.0.1", "10.0.0.2", False),
        ("2001:db8::1", "2001:db8::ffff:2", True),
        ("2001:db8::1", "2001:db8:0:1::1", False),
        ("::ffff:10.0.0.1", "10.0.0.1", True),
        ("fe80::1%eth0", "fe80::2%eth0", True),
        (None, None, True),
    ],
)
def test_whose_connections_are_counted_together(one: str | None, other: str | None, together: bool) -> None:
    assert (_network(one) == _network(other)) is together


def test_there_are_no_more_connections_than_descriptors() -> None:
    assert Limits.of(ServerSettings(max_connections=10_000), descriptors=500).connections == 500
    assert Limits.of(ServerSettings(max_connections=100), descriptors=500).connections == 100


def test_the_limit_of_descriptors_is_raised_and_some_are_kept_for_the_log() -> None:
    before = resource.getrlimit(resource.RLIMIT_NOFILE)
    try:
        resource.setrlimit(resource.RLIMIT_NOFILE, (256, before[1]))
        assert descriptors_for(100) == 100
        assert resource.getrlimit(resource.RLIMIT_NOFILE)[0] == min(100 + 4096, before[1])
        assert descriptors_for(1 << 30) <= before[1] - 4096
    finally:
        resource.setrlimit(resource.RLIMIT_NOFILE, before)
