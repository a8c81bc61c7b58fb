"""Lock files keep the contract of ownership."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.cluster.local import LocalOwnership
from headwater.log.embedded.log import EmbeddedLog
from headwater.testing import OwnershipContract
from headwater.testing.cluster_contract import Join


class TestLocalOwnership(OwnershipContract):
    @pytest.fixture
    def log(self, tmp_path: Path) -> Iterator[EmbeddedLog]:
        with EmbeddedLog(tmp_path / "data") as log:
            yield log

    @pytest.fixture
    def join(self, log: EmbeddedLog, tmp_path: Path) -> Join:
        return lambda address: LocalOwnership(log, tmp_path / "data" / "owners", address=address)
