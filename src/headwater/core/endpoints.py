"""Addresses of servers as settings give them: host or host:port, without a scheme."""

from __future__ import annotations

import re

from headwater.core.errors import BadInput

_SCHEME = re.compile(r"[A-Za-z][A-Za-z0-9+._-]*://")
_ENDPOINT = re.compile(r"(\[[0-9A-Fa-f:.]+\]|[^\s/:,@]+)(:([0-9]{1,5}))?")


def check_endpoint(address: str) -> None:
    """Errors: `BadInput` for an address that is not host or host:port; its hint is the address to write."""
    if scheme := _SCHEME.match(address):
        rest = address[scheme.end() :].strip("/") or "broker-1:9092"
        raise BadInput(f"{scheme[0]} does not belong there: an address is host:port.", hint=f"Write {rest.rpartition('@')[2]}.")
    match = _ENDPOINT.fullmatch(address)
    if not match or (match[3] and not 0 < int(match[3]) < 1 << 16):
        raise BadInput(f"{address!r} is not an address such as host:port.", hint="Write it such as broker-1:9092.")
