"""Queues for tests of programs that use them; and contract suites, for us and for anybody who writes an engine.

async with queue_for_tests("pages") as test: ...

class TestMyLog(LogContract):
    @pytest.fixture
    def open_log(self, tmp_path):
        return lambda: MyLog(tmp_path)

The suites need pytest and hypothesis. Nothing else here does: each name is imported at its first use.
"""

from __future__ import annotations

from contextlib import suppress
from importlib import import_module
from typing import TYPE_CHECKING, Any

with suppress(ImportError):
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

if TYPE_CHECKING:
    from headwater.testing.adaptor_contract import CopyContract, SinkContract
    from headwater.testing.cluster_contract import OwnershipContract
    from headwater.testing.log_contract import LogContract
    from headwater.testing.log_model import LogModel
    from headwater.testing.queue_program import blocking_queue_for_tests, queue_for_tests
    from headwater.testing.store_contract import StoreContract

_MODULES = {
    "CopyContract": "adaptor_contract",
    "SinkContract": "adaptor_contract",
    "OwnershipContract": "cluster_contract",
    "LogContract": "log_contract",
    "LogModel": "log_model",
    "StoreContract": "store_contract",
    "blocking_queue_for_tests": "queue_program",
    "queue_for_tests": "queue_program",
}

__all__ = [
    "CopyContract",
    "LogContract",
    "LogModel",
    "OwnershipContract",
    "SinkContract",
    "StoreContract",
    "blocking_queue_for_tests",
    "queue_for_tests",
]


def __getattr__(name: str) -> Any:
    if name not in _MODULES:
        raise AttributeError(f"module 'headwater.testing' has no attribute {name!r}")
    value = globals()[name] = getattr(import_module(f"headwater.testing.{_MODULES[name]}"), name)
    return value
