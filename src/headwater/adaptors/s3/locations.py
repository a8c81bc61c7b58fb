"""Prefixes of buckets as places: by the addresses of the store, whatever its name."""

from __future__ import annotations

from collections.abc import Sequence
from urllib.parse import urlsplit

from headwater.adaptors.file.formats import collection
from headwater.adaptors.s3.adaptor import S3
from headwater.pipeline.clients import addresses
from headwater.pipeline.location import Location
from headwater.pipeline.namespaces import Namespaces

_AMAZON = ".amazonaws.com"


def prefix_locations(adaptor: S3, chosen: Namespaces | None = None) -> list[Location]:
    """All objects below the prefix. A name of Amazon's belongs to one bucket; other stores are known by each of their addresses."""
    resolved = adaptor.resolved()
    bucket, _, prefix = str(resolved.uri).removeprefix("s3://").lstrip("/").partition("/")
    if chosen is None and prefix and not prefix.endswith("/"):
        prefix += "/"  # a sink writes below it
    return [Location(system, prefix, within=True, chosen=chosen) for system in _systems(bucket, str(resolved.endpoint_url or ""))]


def writes_prefix(adaptor: S3, reads: Sequence[Location]) -> bool:
    """Whether an object that a sink writes would be read: keys with a part that begins with . or _ are not."""
    for mine in prefix_locations(adaptor):
        part = f"{mine.name}part-{0:020d}-{1:020d}{adaptor.ending}"
        for place in reads:
            inside = part[len(place.name) :].lstrip("/")
            below = place.system == mine.system and part.startswith(place.name)
            visible = not any(name.startswith((".", "_")) for name in inside.split("/"))
            if below and visible and place.chosen is not None and collection(inside) in place.chosen:
                return True
    return False


def _systems(bucket: str, endpoint: str) -> list[str]:
    parts = urlsplit(endpoint)
    host = parts.hostname or ""
    if not host or host.endswith(_AMAZON):
        return [f"s3 {bucket}"]
    port = parts.port or (443 if parts.scheme == "https" else 80)
    return [f"s3 {address}:{port}/{bucket}" for address in addresses(host)]
