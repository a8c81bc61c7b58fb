"""Every setting of a queue with its value; `[queue.NAME]` gives the defaults of a queue that is created under this name."""

from __future__ import annotations

from typing import Annotated
from urllib.parse import urlsplit

import msgspec

from headwater.core.disposal import Disposal
from headwater.core.errors import BadInput
from headwater.core.period import Period
from headwater.core.sections import NamedSection
from headwater.core.settings import Note
from headwater.core.units import Duration, Size

_LONGEST_ADDRESS = 2000  # characters
MAX_KEPT = 366 * 86_400_000
"""Milliseconds for which a queue remembers something of a done row at most."""


class EffectiveSettings(msgspec.Struct, frozen=True, kw_only=True):
    """How a queue treats its rows, and how it keeps its log."""

    lease: Annotated[Duration, Note("How long a claim lasts where the claim does not say.", '"1h"', 1)] = Duration(3_600_000)
    max_timeouts: Annotated[int, Note("A row that loses its lease more often goes to the dead list.", "5", 0, 255)] = 5
    max_attempts: Annotated[int, Note("A row that fails so often goes to the dead list.", "20", 1, 65535)] = 20
    max_delay: Annotated[
        Duration,
        Note("How long after a row's first insertion puts of its key may delay it; 0ms: for ever.", '"1h"', 0),
    ] = Duration(0)
    clock_ahead: Annotated[Duration, Note("How far ahead of the server's clock an insertion date may lie.", '"5m"', 0)] = Duration(300_000)
    priority: Annotated[int, Note("The priority of a row that is put without one; the smallest comes first.", "100", 0, 255)] = 100
    lane_concurrency: Annotated[
        int, Note("How many rows of one lane may be processed at once; at 1, a row that comes back keeps its place in its lane.", "1", 1)
    ] = 1
    concurrency: Annotated[int, Note("How many rows of the queue may be processed at once; 0: any number.", "16", 0)] = 0
    rate: Annotated[int, Note("How many rows may be claimed within `rate_period`; 0: any number.", "100", 0)] = 0
    rate_period: Annotated[Duration, Note("The period of `rate`.", '"1s"', 1)] = Duration(1000)
    memory: Annotated[
        Size,
        Note("How much of its rows, their keys and data, the queue keeps in memory; data beyond it are read from its log.", '"256MiB"', 0),
    ] = Size(256 << 20)
    on_dead: Annotated[
        str,
        Note("The address, http or https, to which the queue posts each dead row as JSON; empty: nowhere.", '"https://ops.example/dead"'),
    ] = ""
    results: Annotated[Duration, Note("How long the result of a done row is kept; 0ms: not at all.", '"1h"', 0, MAX_KEPT)] = Duration(
        3_600_000
    )
    unique_for: Annotated[
        Duration,
        Note("A put is ignored whose key was done within this, where the put does not say; 0ms: it never is.", '"10m"', 0, MAX_KEPT),
    ] = Duration(0)
    period: Annotated[
        Period, Note("The queue's log closes its files after this: hour, day or month (UTC), or a duration; 0ms: never.", '"day"')
    ] = Period("day")
    disposal: Annotated[
        Disposal,
        Note("What becomes of a file of the log that is drained: delete, reset, truncate, or secure- and one of these.", '"delete"'),
    ] = "delete"
    segment: Annotated[Size, Note("The size at which the queue's log closes its files, too.", '"64MiB"', 1, (2 << 30) - 1)] = Size(64 << 20)
    max_record: Annotated[
        Size, Note("The largest call, at least 1MiB: all rows of a put together, and 16 KiB of the queue.", '"16MiB"', 1 << 20, 48 << 20)
    ] = Size(16 << 20)
    region: Annotated[
        int | None, Note("The region of the log that the queue shares with others; one of its own, when not set.", "7", 1)
    ] = None
    replication: Annotated[
        int | None, Note("Copies of the queue's log on Kafka; as configured for topics, when not set.", "3", 1, 32767)
    ] = None

    def __post_init__(self) -> None:
        if self.on_dead:
            _check_address(self.on_dead)


def _check_address(address: str) -> None:
    try:
        parts = urlsplit(address)
        fits = parts.scheme in ("http", "https") and bool(parts.hostname) and (parts.port or 1) > 0
    except ValueError:
        fits = False
    if not fits or not address.isascii() or not address.isprintable() or " " in address or len(address) > _LONGEST_ADDRESS:
        raise BadInput(f"on_dead cannot be {address!r:.60}.", hint='Write it such as on_dead="https://ops.example/dead".')


QUEUE_SECTION = NamedSection("queue", EffectiveSettings)
