"""The embedded engine keeps the log's contract."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import contextmanager
from pathlib import Path
from tempfile import TemporaryDirectory

import pytest
from hypothesis import HealthCheck, settings

from headwater.core.disposal import DISPOSALS
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing import LogContract, LogModel
from headwater.testing.log_ground import OpenLog


class TestEmbeddedLog(LogContract):
    @pytest.fixture
    def open_log(self, tmp_path: Path) -> OpenLog:
        return lambda: EmbeddedLog(tmp_path)


class EmbeddedModel(LogModel):
    disposals = DISPOSALS

    @contextmanager
    def storage(self) -> Iterator[OpenLog]:
        with TemporaryDirectory() as path:
            yield lambda: EmbeddedLog(path)


class TestEmbeddedModel(EmbeddedModel.TestCase):  # type: ignore[misc]
    settings = settings(max_examples=40, stateful_step_count=25, deadline=None, suppress_health_check=list(HealthCheck))


@pytest.mark.soak
class TestEmbeddedModelForLong(EmbeddedModel.TestCase):  # type: ignore[misc]
    settings = settings(max_examples=2000, stateful_step_count=60, deadline=None, suppress_health_check=list(HealthCheck))
