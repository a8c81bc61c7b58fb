"""Opening a log by its address."""

from __future__ import annotations

from pathlib import Path
from typing import TYPE_CHECKING

from headwater.core.errors import BadConfig
from headwater.log import Log
from headwater.log.address import LogAddress
from headwater.log.marker import check_engine

if TYPE_CHECKING:
    from headwater.core.clock import Clock
    from headwater.core.metrics import LogMetrics
    from headwater.core.settings import Settings

__all__ = ["LogAddress", "address_of", "open_log"]


def address_of(settings: Settings, data: Path | None = None) -> LogAddress:
    """Where the configured log is; `data` is the data directory, when it is another than the configured one."""
    return LogAddress(
        engine=settings.log.engine,
        path=str(data or settings.data),
        servers=",".join(settings.kafka.bootstrap),
        replication=settings.kafka.replication or 0,
        client=dict(settings.kafka.client),
    )


def open_log(address: LogAddress, *, read_only: bool = False, clock: Clock | None = None, metrics: LogMetrics | None = None) -> Log:
    """Open the log at `address`. Creates nothing.

    Errors: `BadConfig` for an address that lacks its part, `WrongEngine`, `NewerFormat`, `Unreachable`.
    """
    if address.engine == "embedded":
        if not address.path:
            raise BadConfig("The embedded log needs a data directory.", hint="Name one with --data or the setting `data`.")
        from headwater.log.embedded.log import EmbeddedLog

        return EmbeddedLog(Path(address.path), read_only=read_only, clock=clock, metrics=metrics)
    if not address.servers:
        raise BadConfig("The kafka engine needs its bootstrap servers.", hint='Set kafka.bootstrap = "host:9092".')
    if address.path:
        check_engine(Path(address.path), "kafka")
    from headwater.log.kafka.log import KafkaLog

    return KafkaLog(
        address.servers,
        replication=address.replication,
        client=address.client,
        data=Path(address.path) if address.path else None,
        read_only=read_only,
        clock=clock,
        metrics=metrics,
    )
