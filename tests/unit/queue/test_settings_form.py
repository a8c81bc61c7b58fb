from __future__ import annotations

from datetime import timedelta
from typing import Any

import msgspec
import pytest

from headwater.core.errors import BadInput
from headwater.core.period import Period
from headwater.core.units import Duration, Size
from headwater.queue.effective_settings import EffectiveSettings
from headwater.queue.settings import QueueSettings
from headwater.queue.settings_form import NAMES, given_settings, read_settings, schema, show_settings


def test_what_is_shown_can_be_read_back() -> None:
    settings = EffectiveSettings(lease=Duration(90_000), max_timeouts=0, disposal="secure-reset", region=7, rate=5)
    assert read_settings(show_settings(settings), EffectiveSettings()) == settings
    assert set(show_settings(EffectiveSettings())) <= set(NAMES)
    assert schema()["properties"].keys() == set(NAMES)


def test_numbers_may_be_text_as_on_the_command_line_and_the_rest_stays() -> None:
    base = EffectiveSettings(max_attempts=7)
    assert read_settings({"max_timeouts": "3", "lease": "60s"}, base) == msgspec.structs.replace(base, max_timeouts=3, lease=60_000)


def test_given_are_those_that_are_written_also_as_text_and_the_usual_ones() -> None:
    assert given_settings(QueueSettings()) == {}
    assert given_settings(QueueSettings(lease="60s", max_timeouts=9)) == {"lease": "1m", "max_timeouts": 9}
    usual = {"max_timeouts": 5, "lease": "1h", "memory": "16MiB", "period": "90m"}
    written = QueueSettings(max_timeouts=5, lease=timedelta(hours=1), memory=Size(16 << 20), period=timedelta(minutes=90))
    assert given_settings(written) == usual
    for wrong in ({"lease": "60s"}, QueueSettings(lease=timedelta(microseconds=1)), QueueSettings(lease=timedelta(seconds=-1))):
        with pytest.raises(BadInput) as told:
            given_settings(wrong)
        assert told.value.hint


WRONG: list[dict[str, Any]] = [
    {"leese": "1s"}, {"lease": "60"}, {"lease": 60}, {"lease": "0ms"}, {"lease": True}, {"lease": None}, {"max_timeouts": 256},
    {"max_timeouts": "many"}, {"priority": -1}, {"period": "week"}, {"disposal": "shred"}, {"segment": "1GB of it"}, {"rate": [1]},
    {"on_dead": "ops.example"}, {"on_dead": "ftp://ops.example"}, {"on_dead": "https://"}, {"on_dead": 7}, {"on_dead": "http://a b/"},
    {"on_dead": "http://x:99999/"},
]  # fmt: skip


@pytest.mark.parametrize("written", WRONG, ids=repr)
def test_what_cannot_be_is_told_with_the_next_step(written: dict[str, Any]) -> None:
    with pytest.raises(BadInput) as told:
        read_settings(written, EffectiveSettings())
    assert told.value.hint


OTHERS: dict[str, Any] = {
    "lease": "90s", "max_timeouts": 255, "max_attempts": 1, "max_delay": "0ms", "clock_ahead": "0ms", "priority": 0, "lane_concurrency": 3,
    "concurrency": 16, "rate": 100, "rate_period": "1m", "on_dead": "http://127.0.0.1:9", "period": "month", "disposal": "secure-reset",
    "segment": "1MiB", "max_record": "48MiB", "region": 7, "replication": 3,
}  # fmt: skip


def test_every_setting_is_read_and_shown() -> None:
    assert set(OTHERS) <= set(NAMES) == set(EffectiveSettings.__struct_fields__)
    settings = read_settings(OTHERS, EffectiveSettings())
    assert (settings.lease, settings.period, settings.segment, settings.region) == (Duration(90_000), Period("month"), Size(1 << 20), 7)
    assert read_settings(show_settings(settings), EffectiveSettings()) == settings
    assert read_settings(show_settings(EffectiveSettings()), settings) == msgspec.structs.replace(
        EffectiveSettings(), region=7, replication=3
    )


@pytest.mark.parametrize(
    ("name", "value", "said"),
    [
        ("leese", "1s", "no setting of a queue"),
        ("lease", 60, "no unit"),
        ("lease", "60", "no unit"),
        ("lease", "0ms", "1ms"),
        ("lease", True, "cannot be True"),
        ("lease", None, "cannot be None"),
        ("lease", 1.5, "cannot be"),
        ("priority", 256, "0 to 255"),
        ("priority", -1, "0 to 255"),
        ("priority", "\u0663", "whole number"),
        ("priority", "ten", "whole number"),
        ("max_timeouts", 256, "0 to 255"),
        ("max_attempts", 0, "1 to 65535"),
        ("lane_concurrency", 0, "from 1"),
        ("concurrency", -1, "from 0"),
        ("rate_period", "0ms", "1ms"),
        ("max_record", "49MiB", "48MiB"),
        ("segment", "2GiB", "segment"),
        ("period", "week", "week"),
        ("period", 5, "no unit"),
        ("disposal", "burn", "delete"),
        ("region", 0, "from 1"),
        ("replication", 0, "1 to 32767"),
    ],
)
def test_a_value_that_cannot_be_is_refused(name: str, value: Any, said: str) -> None:
    with pytest.raises(BadInput) as refused:
        read_settings({name: value}, EffectiveSettings())
    assert said in f"{refused.value.message} {refused.value.hint}"


def test_the_schema_names_every_setting() -> None:
    described = schema()
    assert set(described["properties"]) == set(NAMES)
    assert described["properties"]["rate"]["type"] == "integer"
    assert described["properties"]["lease"]["type"] == "string"
    assert described["additionalProperties"] is False
