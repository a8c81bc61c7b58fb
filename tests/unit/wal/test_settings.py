from __future__ import annotations

from typing import Any

import pytest

from headwater.core.errors import BadInput
from headwater.core.settings import Settings
from headwater.core.units import Duration
from headwater.log.record import TopicSettings
from headwater.wal.settings import ROOM, WAL_SECTION, RegionSettings, WalSettings, shown_settings


def test_what_is_left_out_is_as_usual() -> None:
    usual = TopicSettings(segment=1 << 20)
    assert RegionSettings().topic_settings(usual) == TopicSettings(segment=1 << 20, max_record=(16 << 20) + ROOM)
    assert not RegionSettings().given
    made = RegionSettings(segment="2MiB", period="1h", max_record="64KiB", disposal="secure-reset")
    assert made.given
    assert made.topic_settings(usual) == TopicSettings(
        segment=2 << 20, period=3_600_000, max_record=(64 << 10) + ROOM, disposal="secure-reset"
    )
    monthly = RegionSettings(period="month").topic_settings(usual)
    assert monthly == TopicSettings(segment=1 << 20, period="month", max_record=(16 << 20) + ROOM)
    assert shown_settings(monthly)["max_record"] == "16MiB"
    assert RegionSettings(max_record="48MiB").topic_settings(usual).max_record == 48 << 20  # no record is larger
    assert RegionSettings(disposal="reset").given


def test_a_region_of_before_whose_records_had_no_room_beside_a_payload_keeps_them() -> None:
    usual, made = TopicSettings(), RegionSettings(max_record="64KiB")
    before = TopicSettings(max_record=64 << 10)
    assert made.topic_settings(usual, before) == before
    assert made.topic_settings(usual, made.topic_settings(usual)).max_record == (64 << 10) + ROOM
    assert shown_settings(before)["max_record"] == "64KiB"
    assert RegionSettings(max_record="32KiB").topic_settings(usual, before).max_record == (32 << 10) + ROOM


@pytest.mark.parametrize(
    "given",
    [
        {"segment": "12"},
        {"segment": 12},
        {"period": "1MiB"},
        {"period": "week"},
        {"period": 1000},
        {"max_record": "1GiB"},
        {"max_record": "100B"},
        {"disposal": "shred"},
        {"disposal": 1},
    ],
)
def test_what_no_region_can_have_is_refused(given: dict[str, Any]) -> None:
    with pytest.raises(BadInput):
        RegionSettings(**given).topic_settings(TopicSettings())


def test_a_namespace_has_its_section() -> None:
    set_for = Settings(sections={"wal": {"fast": WalSettings(clean_period=Duration(1000))}})
    assert WAL_SECTION.of(set_for, "fast").clean_period == 1000
    assert WAL_SECTION.of(set_for, "wal") == WalSettings()
    assert (WalSettings().clean_period, WalSettings().snapshot_marks, WalSettings().snapshot_every) == (3_600_000, 1000, 60_000)


def test_copies_are_those_of_brokers_and_no_setting_of_a_topic() -> None:
    assert (RegionSettings().copies, RegionSettings(replication=3).copies) == (0, 3)
    assert not RegionSettings(replication=3).given
    assert RegionSettings(replication=3).topic_settings(TopicSettings()) == RegionSettings().topic_settings(TopicSettings())
    for wrong in (0, -1, 1 << 15, True, "3"):
        with pytest.raises(BadInput, match="no number of copies"):
            RegionSettings(replication=wrong).copies  # type: ignore[arg-type]  # noqa: B018
