"""Where a log is: a small value that travels to other processes, Spark's among them."""

from __future__ import annotations

from typing import Literal

import msgspec

Engine = Literal["embedded", "kafka"]


class LogAddress(msgspec.Struct, frozen=True, kw_only=True):
    """Opened by `headwater.log.opening.open_log`. `path` is the data directory; `servers` and `client` are for Kafka's client."""

    engine: Engine = "embedded"
    path: str = ""
    servers: str = ""
    replication: int = 0  # 0: three where there are three brokers, else one
    client: dict[str, str] = {}
