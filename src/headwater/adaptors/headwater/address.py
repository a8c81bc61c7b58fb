"""The address of a headwater log, resolved: a directory, Kafka's brokers, or a server."""

from __future__ import annotations

from collections.abc import Mapping
from pathlib import Path
from typing import TYPE_CHECKING, Literal
from urllib.parse import urlsplit

import msgspec

from headwater.core.config import load
from headwater.core.errors import BadConfig
from headwater.log.opening import address_of
from headwater.pipeline.env import Env, resolve

if TYPE_CHECKING:
    from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor

_KAFKA = "kafka://"
_WEB = ("http://", "https://")
_HINT = "Give a data directory, kafka://host:9092,host:9092 or http(s)://host:port; without an address it is the configured log."


class HeadwaterAddress(msgspec.Struct, frozen=True, kw_only=True):
    """One log. `where` is a directory, Kafka's brokers, or a server's URL, and may be shown: it holds no secret."""

    kind: Literal["directory", "kafka", "server"]
    where: str
    client: dict[str, str] = {}

    def __str__(self) -> str:
        return f"Kafka at {self.where}" if self.kind == "kafka" else self.where

    def same(self, other: HeadwaterAddress) -> bool:
        """Whether both are the same log, as far as the addresses show it: two names of one machine count as two."""
        if self.kind != other.kind:
            return False
        if self.kind == "kafka":
            return bool({*self.where.split(",")} & {*other.where.split(",")})
        if self.kind == "directory":
            return Path(self.where).resolve() == Path(other.where).resolve()
        return self.where == other.where


def resolved_address(adaptor: HeadwaterAdaptor) -> HeadwaterAddress:
    """The address of the adaptor's log. Errors: `BadConfig`, which never shows the address."""
    return address_in(adaptor.address, adaptor.home, adaptor.client)


def address_in(address: str | Env | None, home: str, client: Mapping[str, str | Env]) -> HeadwaterAddress:
    """An address, seen from the folder `home`; none is the configured one. `client`: settings of Kafka's. Errors: as `resolved_address`."""
    if address is None:
        return configured(Path(home))
    text = str(resolve(address)).strip()
    shown = f"{address}" if isinstance(address, Env) or "${" in address else "The address"
    if text.startswith(_WEB):
        return HeadwaterAddress(kind="server", where=_web(text, shown))
    if text.startswith(_KAFKA):
        settings = {name: resolve(value) for name, value in client.items()}
        return HeadwaterAddress(kind="kafka", where=_brokers(text.removeprefix(_KAFKA), shown), client=settings)
    if not text or "://" in text:
        raise BadConfig(f"{shown} is no address of a log.", hint=_HINT)
    return HeadwaterAddress(kind="directory", where=str(Path(home) / Path(text).expanduser()))


def configured(home: Path) -> HeadwaterAddress:
    """The log that `headwater.toml` and the environment name, seen from the folder `home`."""
    address = address_of(load(cwd=home).settings)
    if address.engine == "kafka":
        return HeadwaterAddress(kind="kafka", where=address.servers, client=address.client)
    return HeadwaterAddress(kind="directory", where=str(home / address.path))


def _web(text: str, shown: str) -> str:
    try:
        parts = urlsplit(text)
        port = parts.port
    except ValueError:
        raise BadConfig(f"{shown} is no address of a server.", hint="Give http://host:port.") from None
    if parts.username is not None or parts.password is not None:
        raise BadConfig(f"{shown} holds a user or a password.", hint='Leave them out, and give token="${NAME}".')
    if not parts.hostname or parts.query or parts.fragment:
        raise BadConfig(f"{shown} is no address of a server.", hint="Give http://host:port.")
    host = f"[{parts.hostname}]" if ":" in parts.hostname else parts.hostname
    return f"{parts.scheme}://{host}{f':{port}' if port else ''}{parts.path.rstrip('/')}"


def _brokers(text: str, shown: str) -> str:
    servers = [server.strip() for server in text.strip("/").split(",") if server.strip()]
    if not servers or any("@" in server or "/" in server or not server.rpartition(":")[2].isdigit() for server in servers):
        raise BadConfig(f"{shown} names no brokers.", hint="Give kafka://host:9092,host:9092; credentials go into client=.")
    return ",".join(servers)
