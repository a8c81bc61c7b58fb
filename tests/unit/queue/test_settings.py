"""Whoever gives settings in Python names those of a queue, and no others."""

from __future__ import annotations

from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.settings import QueueSettings


def test_what_can_be_given_is_what_a_queue_has() -> None:
    assert QueueSettings.__struct_fields__ == EffectiveSettings.__struct_fields__


def test_a_setting_knows_whether_it_was_given() -> None:
    assert QueueSettings().given == {}
    assert QueueSettings(max_timeouts=5, lease="1h").given == {"lease": "1h", "max_timeouts": 5}
