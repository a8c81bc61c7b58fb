"""What unit tests of regions stand on: a region of an embedded log, with small segments."""

from __future__ import annotations

from collections.abc import AsyncIterator, Awaitable, Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings
from headwater.wal.region import Region, open_region
from headwater.wal.region_creation import create_region
from headwater.wal.region_topics import RegionTopics

TOPICS = RegionTopics("wal", 7)
OpenRegion = Callable[..., Awaitable[Region]]


class FailingOnce:
    """A Writer whose next append fails, after or before its records are in the log."""

    def __init__(self, writer: object, error: Exception, *, arrives: bool) -> None:
        self._writer, self._error, self._arrives = writer, error, arrives

    def append(self, records: Sequence[Record]) -> Sequence[int]:
        if self._arrives:
            self._writer.append(records)  # type: ignore[attr-defined]
        raise self._error

    def __getattr__(self, name: str) -> object:
        return getattr(self._writer, name)


@pytest.fixture
def anyio_backend() -> str:
    return "asyncio"


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path) as log:
        create_region(log, TOPICS, TopicSettings(segment=4096))
        yield log


@pytest.fixture
async def opened(log: EmbeddedLog, tmp_path: Path) -> AsyncIterator[OpenRegion]:
    """Opens the region; what is open at the end is closed."""
    regions: list[Region] = []
    with LocalOwnership(log, tmp_path / "owners") as owners:

        async def open(**how: Any) -> Region:
            regions.append(await open_region(log, owners, TOPICS, **how))
            return regions[-1]

        yield open
        for region in regions:
            await region.close()
