"""The contract of queues, on segment files."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path

import pytest

from headwater.cluster import Ownership
from headwater.cluster.local import LocalOwnership
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing.queue_contract import QueueContract


class TestEmbeddedQueue(QueueContract):
    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[Log]:
        with EmbeddedLog(tmp_path) as log:
            yield log

    @pytest.fixture
    def join(self, log: Log, tmp_path: Path) -> Callable[[], Ownership]:
        return lambda: LocalOwnership(log, tmp_path / "owners")
