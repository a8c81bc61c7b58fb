"""Contract suites, for us and for anybody who writes an engine. They need pytest and hypothesis.

class TestMyLog(LogContract):
    @pytest.fixture
    def open_log(self, tmp_path):
        return lambda: MyLog(tmp_path)
"""

from __future__ import annotations

import pytest

pytest.register_assert_rewrite(
    "headwater.testing.adaptor_contract",
    "headwater.testing.adaptor_ground",
    "headwater.testing.cluster_contract",
    "headwater.testing.log_appending",
    "headwater.testing.log_claiming",
    "headwater.testing.log_fencing",
    "headwater.testing.log_ground",
    "headwater.testing.log_keeping",
    "headwater.testing.log_keys",
    "headwater.testing.log_model",
    "headwater.testing.log_owning",
    "headwater.testing.log_reading",
    "headwater.testing.log_topics",
    "headwater.testing.store_contract",
)

from headwater.testing.adaptor_contract import CopyContract, SinkContract  # noqa: E402
from headwater.testing.cluster_contract import OwnershipContract  # noqa: E402
from headwater.testing.log_contract import LogContract  # noqa: E402
from headwater.testing.log_model import LogModel  # noqa: E402
from headwater.testing.store_contract import StoreContract  # noqa: E402

__all__ = ["CopyContract", "LogContract", "LogModel", "OwnershipContract", "SinkContract", "StoreContract"]
