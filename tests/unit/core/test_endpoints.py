from __future__ import annotations

import pytest

from headwater.core.endpoints import check_endpoint
from headwater.core.errors import BadInput


@pytest.mark.parametrize("address", ["a", "a:9092", "broker-1.example.org:1", "10.0.0.1:65535", "[::1]:9092", "[fe80::1]", "größe:1"])
def test_a_host_with_or_without_a_port_is_an_address(address: str) -> None:
    check_endpoint(address)


@pytest.mark.parametrize(
    ("address", "instead"),
    [
        ("kafka://a:9092", "a:9092"),
        ("kafka://a:9092/", "a:9092"),
        ("KAFKA://user:secret@a:9092", "a:9092"),
        ("kafka://", "broker-1:9092"),
        ("a:9092/topic", "broker-1:9092"),
        ("a:", "broker-1:9092"),
        ("a:0", "broker-1:9092"),
        ("a:65536", "broker-1:9092"),
        ("a:b", "broker-1:9092"),
        (":9092", "broker-1:9092"),
        ("a b:1", "broker-1:9092"),
        ("", "broker-1:9092"),
    ],
)
def test_what_is_none_is_refused_with_what_to_write(address: str, instead: str) -> None:
    with pytest.raises(BadInput) as refused:
        check_endpoint(address)
    assert instead in refused.value.hint
    assert "secret" not in f"{refused.value.message}{refused.value.hint}"
