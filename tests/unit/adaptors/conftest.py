"""A log, and a topic of it, for tests of systems that are logs themselves."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import pytest

from headwater.adaptors.headwater.adaptor import HeadwaterAdaptor, headwater
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings


@pytest.fixture
def log(tmp_path: Path) -> Iterator[EmbeddedLog]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


@pytest.fixture
def topic(log: EmbeddedLog, tmp_path: Path) -> Callable[..., HeadwaterAdaptor]:
    """A topic `orders` of the log, and the adaptor for it."""

    def made(*records: Record, partitions: int = 1, settings: TopicSettings | None = None, **options: Any) -> HeadwaterAdaptor:
        log.create_topic("orders", partitions=partitions, settings=settings)
        if records:
            log.append("orders", 0, records)
        return headwater(str(tmp_path / "data"), topic="orders", **options)

    return made
