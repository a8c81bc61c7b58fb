"""All connections of a server, with limits of their number, their duration and their unread bytes."""

from __future__ import annotations

import ipaddress
from collections import Counter
from collections.abc import Iterator
from contextlib import contextmanager
from typing import TYPE_CHECKING, Literal

import msgspec

from headwater.core.metrics import HttpMetrics
from headwater.core.settings import ServerSettings

if TYPE_CHECKING:
    from headwater.server.connection import Connection

Reason = Literal[
    "handshake",
    "malformed",
    "header-size",
    "header-time",
    "body-time",
    "pipelined",
    "connections",
    "connections-per-address",
    "send-time",
    "memory",
]
STUCK = 5.0  # seconds without reading after which the server may cut a client off to free memory
_ANSWERED = 100  # refused connections that get an answer at the same time
_STOPPING = 1.0  # seconds that a stopping server waits for a client that reads nothing


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """Limits on clients, before any token is checked. Times in seconds, sizes in bytes."""

    header: int
    header_seconds: float
    body_seconds: float
    body_rate: int
    send_seconds: float
    unsent: int
    connections: int
    connections_per_address: int

    @classmethod
    def of(cls, server: ServerSettings, *, descriptors: int) -> Limits:
        """The limits of the settings, with as many connections as leave file descriptors for the log."""
        return cls(
            header=server.max_header,
            header_seconds=server.header_timeout.seconds,
            body_seconds=server.body_timeout.seconds,
            body_rate=server.min_rate,
            send_seconds=server.send_timeout.seconds,
            unsent=server.stream_memory,
            connections=max(1, min(server.max_connections, descriptors)),
            connections_per_address=server.max_connections_per_address,
        )


class Connections:
    """Every open connection. The server calls `look` regularly with the time, which ends those that exceed a limit."""

    def __init__(self, limits: Limits, metrics: HttpMetrics) -> None:
        self.limits, self._metrics = limits, metrics
        self._open: set[Connection] = set()
        self._addresses: Counter[str] = Counter()
        self._handshakes = 0
        self._send_seconds = limits.send_seconds

    @contextmanager
    def handshake(self, address: str) -> Iterator[Reason | None]:
        """Count a connection during its TLS handshake. Returns the exceeded limit, if any."""
        network = _network(address)
        self._handshakes += 1
        self._addresses[network] += 1
        try:
            yield self._too_many(network)
        finally:
            self._handshakes -= 1
            self._left(network)

    def opened(self, connection: Connection, address: str | None) -> Reason | None:
        """Count a connection. Returns the exceeded limit, if any."""
        self._open.add(connection)
        self._metrics.connections = len(self._open)
        network = _network(address)
        self._addresses[network] += 1
        return self._too_many(network)

    def _too_many(self, network: str) -> Reason | None:
        if len(self._open) + self._handshakes > self.limits.connections:
            return "connections"
        return "connections-per-address" if self._addresses[network] > self.limits.connections_per_address else None

    def crowded(self, address: str | None) -> bool:
        """Whether too many connections are being refused at once to answer them: each answer keeps its connection for a moment."""
        limits = self.limits
        own, every = self._addresses[_network(address)], len(self._open)
        return every > limits.connections + _ANSWERED or own > limits.connections_per_address + _ANSWERED

    def closed(self, connection: Connection, address: str | None) -> None:
        self._open.discard(connection)
        self._metrics.connections = len(self._open)
        self._left(_network(address))

    def _left(self, network: str) -> None:
        self._addresses[network] -= 1
        if self._addresses[network] <= 0:
            del self._addresses[network]

    def refused(self, reason: Reason) -> None:
        self._metrics.refused(reason)

    def stop(self) -> None:
        """From now on cut off clients that read nothing after a second: the stop waits for the others."""
        self._send_seconds = min(self._send_seconds, _STOPPING)

    def look(self, now: float) -> None:
        """Cut off clients that are too slow; and while too much is unread in memory, those that have read nothing for the longest time."""
        unsent, stuck = 0, []
        for connection in list(self._open):
            connection.look(now)
            since = connection.look_at_unsent(now)
            if since is None:
                continue
            if now - since > self._send_seconds:
                connection.cut("send-time")
                continue
            unsent += connection.unsent
            if now - since > STUCK:
                stuck.append((since, connection))
        for _, connection in sorted(stuck, key=lambda pair: pair[0]):
            if unsent <= self.limits.unsent:
                return
            unsent -= connection.unsent
            connection.cut("memory")


def _network(address: str | None) -> str:
    """The key of the limit per address: the address, of IPv6 its /64 network."""
    if address is None or ":" not in address:
        return address or ""
    parsed = ipaddress.IPv6Address(address.partition("%")[0])
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
