"""Settings as JSON: each is read with its unit and its bounds, and shown as it is read."""

from __future__ import annotations

from typing import Any

import msgspec
import pytest

from headwater.core.errors import BadInput
from headwater.core.period import Period
from headwater.core.units import Duration, Size
from headwater.queue.settings import QueueSettings
from headwater.queue.settings_form import NAMES, given_settings, read_settings, schema, show_settings

OTHERS: dict[str, Any] = {
    "lease": "90s", "max_timeouts": 255, "max_attempts": 1, "max_delay": "0ms", "clock_ahead": "0ms", "priority": 0, "lane_concurrency": 3,
    "concurrency": 16, "rate": 100, "rate_period": "1m", "period": "month", "disposal": "secure-reset",
    "segment": "1MiB", "max_record": "48MiB", "region": 7, "replication": 3,
}  # fmt: skip


def test_every_setting_is_read_and_shown() -> None:
    assert set(OTHERS) <= set(NAMES) == set(QueueSettings.__struct_fields__)
    settings = read_settings(OTHERS, QueueSettings())
    assert (settings.lease, settings.period, settings.segment, settings.region) == (Duration(90_000), Period("month"), Size(1 << 20), 7)
    assert read_settings(show_settings(settings), QueueSettings()) == settings
    assert read_settings(show_settings(QueueSettings()), settings) == msgspec.structs.replace(QueueSettings(), region=7, replication=3)


def test_what_is_left_out_stays() -> None:
    base = QueueSettings(rate=5)
    assert read_settings({}, base) == base
    assert read_settings({"lease": "1s"}, base) == QueueSettings(rate=5, lease=Duration(1000))


def test_a_number_may_come_as_text() -> None:
    assert read_settings({"rate": "100"}, QueueSettings()).rate == 100


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
        read_settings({name: value}, QueueSettings())
    assert said in f"{refused.value.message} {refused.value.hint}"


def test_the_nearest_name_is_told() -> None:
    with pytest.raises(BadInput) as refused:
        read_settings({"leese": "1s"}, QueueSettings())
    assert "lease" in (refused.value.hint or "")


def test_given_settings_are_those_that_differ() -> None:
    assert given_settings(QueueSettings()) == {}
    assert given_settings(QueueSettings(lease=Duration(1000), region=3)) == {"lease": "1s", "region": 3}
    text: Any = "60s"
    assert given_settings(QueueSettings(lease=text)) == {"lease": "1m"}
    for wrong in ({"lease": "1s"}, None, QueueSettings(priority=999)):
        with pytest.raises(BadInput):
            given_settings(wrong)


def test_the_schema_names_every_setting() -> None:
    described = schema()
    assert set(described["properties"]) == set(NAMES)
    assert described["properties"]["rate"]["type"] == "integer"
    assert described["properties"]["lease"]["type"] == "string"
    assert described["additionalProperties"] is False
