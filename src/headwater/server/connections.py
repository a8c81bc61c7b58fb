"""All connections of a server: how many there may be, how long each may take, and how much they may leave unread."""

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
STUCK = 5.0  # seconds without taking anything after which a client may be cut off to make room for others
_ANSWERED = 100  # connections above a limit that are answered at the same time
_STOPPING = 1.0  # seconds that a stopping server waits for a client that takes nothing


class Limits(msgspec.Struct, frozen=True, kw_only=True):
    """What a client may do before it is known, and how slowly. Times in seconds, sizes in bytes."""

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
        """As the settings say, and no more connections than leave file descriptors for the log."""
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
    """Every open connection. `look` is called again and again with the time, and ends those that are over a limit of time."""

    def __init__(self, limits: Limits, metrics: HttpMetrics) -> None:
        self.limits, self._metrics = limits, metrics
        self._open: set[Connection] = set()
        self._addresses: Counter[str] = Counter()
        self._handshakes = 0
        self._send_seconds = limits.send_seconds

    @contextmanager
    def handshake(self, address: str) -> Iterator[Reason | None]:
        """Count a connection that is not open yet. Gives why it is one too many."""
        network = _network(address)
        self._handshakes += 1
        self._addresses[network] += 1
        try:
            yield self._too_many(network)
        finally:
            self._handshakes -= 1
            self._left(network)

    def opened(self, connection: Connection, address: str | None) -> Reason | None:
        """Count a connection. Returns why it is one too many."""
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
        """Whether so many are refused at once that they are not even answered: each answer keeps its connection for a moment."""
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
        """From now on a client that takes nothing is cut off soon: the stop waits for those that do take what they asked for."""
        self._send_seconds = min(self._send_seconds, _STOPPING)

    def look(self, now: float) -> None:
        """Cut off who is too slow; and while too much is unread in memory, who has taken nothing for the longest time."""
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
        for _, connection in sorted(stuck, key=lambda one: one[0]):
            if unsent <= self.limits.unsent:
                return
            unsent -= connection.unsent
            connection.cut("memory")


def _network(address: str | None) -> str:
    """Whose connections are counted together: an address, and of IPv6 the network that one subscriber is given."""
    if address is None or ":" not in address:
        return address or ""
    parsed = ipaddress.IPv6Address(address.partition("%")[0])
    return str(parsed.ipv4_mapped or ipaddress.IPv6Network((int(parsed) >> 64 << 64, 64)))
