"""Opening a log by its address: a small value that travels to other processes, Spark's among them."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

import msgspec

from headwater.core.errors import BadConfig
from headwater.log import Engine, Log

if TYPE_CHECKING:
    from headwater.core.clock import Clock
    from headwater.core.metrics import LogMetrics


class LogAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Where a log is. `path` is the data directory; `servers` are Kafka's bootstrap servers, `client` settings passed to its client."""

    engine: Engine = "embedded"
    path: str = ""
    servers: str = ""
    replication: int = 0  # 0: three where there are three brokers, else one
    client: dict[str, str] = {}


def open_log(address: LogAddress, *, read_only: bool = False, clock: Clock | None = None, metrics: LogMetrics | None = None) -> Log:
    """Open the log at `address`. Creates nothing.

    Errors: `BadConfig` for an address that lacks its part, `WrongEngine`, `NewerFormat`, `Unreachable`.
    """
    if address.engine == "embedded":
        if not address.path:
            raise BadConfig("The embedded log needs a data directory.", hint="Name one with --data or the setting `data`.")
        from headwater.log.embedded import EmbeddedLog

        return EmbeddedLog(Path(address.path), read_only=read_only, clock=clock, metrics=metrics)
    if not address.servers:
        raise BadConfig("The kafka engine needs its bootstrap servers.", hint='Set kafka.bootstrap = "host:9092".')
    from headwater.log.kafka import KafkaLog

    return KafkaLog(
        address.servers, replication=address.replication, client=address.client, read_only=read_only, clock=clock, metrics=metrics
    )
