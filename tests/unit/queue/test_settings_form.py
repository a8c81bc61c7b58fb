from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.core.errors import BadInput
from headwater.core.units import Duration
from headwater.queue.settings import QueueSettings
from headwater.queue.settings_form import NAMES, given_settings, read_settings, schema, show_settings


def test_what_is_shown_can_be_read_back() -> None:
    settings = QueueSettings(lease=Duration(90_000), max_timeouts=0, disposal="secure-reset", region=7, rate=5)
    assert read_settings(show_settings(settings), QueueSettings()) == settings
    assert set(show_settings(QueueSettings())) <= set(NAMES)
    assert schema()["properties"].keys() == set(NAMES)


def test_numbers_may_be_text_as_on_the_command_line_and_the_rest_stays() -> None:
    base = QueueSettings(max_attempts=7)
    assert read_settings({"max_timeouts": "3", "lease": "60s"}, base) == msgspec.structs.replace(base, max_timeouts=3, lease=60_000)


def test_given_are_those_that_differ_also_as_text() -> None:
    assert given_settings(QueueSettings()) == {}
    assert given_settings(QueueSettings(lease="60s", max_timeouts=9)) == {"lease": "1m", "max_timeouts": 9}  # type: ignore[arg-type]
    with pytest.raises(BadInput):
        given_settings({"lease": "60s"})


WRONG: list[dict[str, Any]] = [
    {"leese": "1s"}, {"lease": "60"}, {"lease": 60}, {"lease": "0ms"}, {"lease": True}, {"lease": None}, {"max_timeouts": 256},
    {"max_timeouts": "many"}, {"priority": -1}, {"period": "week"}, {"disposal": "shred"}, {"segment": "1GB of it"}, {"rate": [1]},
]  # fmt: skip


@pytest.mark.parametrize("written", WRONG, ids=repr)
def test_what_cannot_be_is_told_with_the_next_step(written: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as told:
        read_settings(written, QueueSettings())
    assert told.value.hint
