from __future__ import annotations

from hypothesis import given
from hypothesis import strategies as st

from headwater.log.kafka.topics import FRAMING, SMALLEST_SEGMENT, configs_of, held, retention_of, settings_of
from headwater.log.record import TopicSettings

SETTINGS = st.builds(
    TopicSettings,
    segment=st.integers(1, (2 << 30) - 1),
    period=st.just(0) | st.integers(1, 10**12),
    max_record=st.integers(1, 48 << 20),
    owner=st.sampled_from(["", "wal", "pipeline", "documents"]),
)


@given(SETTINGS)
def test_settings_come_back_from_the_brokers_as_they_are_held(settings: TopicSettings) -> None:
    assert settings_of(configs_of(held(settings), 1)) == held(settings)
    assert held(held(settings)) == held(settings)


@given(SETTINGS)
def test_only_the_segment_may_differ_from_what_was_asked_for(settings: TopicSettings) -> None:
    kept = held(settings)
    assert (kept.period, kept.max_record) == (settings.period, settings.max_record)
    assert kept.segment == max(settings.segment, SMALLEST_SEGMENT, settings.max_record + FRAMING)


def test_most_copies_must_be_in_sync() -> None:
    assert {copies: configs_of(TopicSettings(), copies)["min.insync.replicas"] for copies in (1, 2, 3, 5)} == {
        1: "1",
        2: "2",
        3: "2",
        5: "3",
    }


def test_nothing_is_deleted_or_lost_by_a_brokers_defaults() -> None:
    configs = configs_of(TopicSettings(), 3)
    assert (configs["retention.ms"], configs["retention.bytes"], configs["cleanup.policy"]) == ("-1", "-1", "delete")
    assert configs["unclean.leader.election.enable"] == "false"


def test_a_foreign_topic_is_described_as_near_as_can_be() -> None:
    usual = {"segment.bytes": "1073741824", "segment.ms": "604800000", "max.message.bytes": "1048588"}
    assert settings_of(usual) == TopicSettings(segment=1 << 30, period=604_800_000, max_record=1_048_588 - FRAMING)
    assert settings_of({**usual, "max.message.bytes": "0"}).max_record == 1
    assert settings_of({**usual, "max.message.bytes": str(1 << 30)}).max_record == 48 << 20


def test_what_removes_records_by_itself_is_told() -> None:
    ours = configs_of(TopicSettings(), 1)
    assert retention_of(ours) == ""
    assert retention_of({**ours, "retention.ms": "604800000"}) == "retention.ms=604800000"
    assert retention_of({**ours, "retention.bytes": "1000"}) == "retention.bytes=1000"
    assert retention_of({**ours, "cleanup.policy": "compact,delete"}) == "cleanup.policy=compact,delete"
