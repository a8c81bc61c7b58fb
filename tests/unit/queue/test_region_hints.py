from __future__ import annotations

import pytest

from headwater.queue.region_hints import instead


@pytest.mark.parametrize(
    ("topic", "operation", "command"),
    [
        ("queue_data_7", "delete", "headwater queue delete QUEUE"),
        ("queue_meta_7", "delete_topic", "headwater queue delete QUEUE"),
        ("queue_data_7", "drop_table", "headwater queue delete QUEUE"),
        ("queue_data_7", "compact", "headwater wal clean queue/7"),
        ("queue_meta_7", "delete_before", "headwater wal clean queue/7"),
        ("queue_data_7", "create", "headwater queue create QUEUE"),
        ("queue_data_7", "write", "headwater queue put QUEUE KEY"),
        ("queue_data_7", "take_over", "headwater queue"),
    ],
)
def test_every_refusal_names_the_command_of_queues(topic: str, operation: str, command: str) -> None:
    assert command in instead(topic, operation)
