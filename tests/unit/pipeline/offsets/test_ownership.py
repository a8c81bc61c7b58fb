"""The pipeline as the owner of its topics: what others are told to do instead."""

from __future__ import annotations

import pytest

from headwater.core.errors import OwnedTopic
from headwater.log.owners import check_owner
from headwater.pipeline.offsets.control import log_topic, offsets_topic
from headwater.pipeline.offsets.ownership import PART, PREFIX, instead, pipeline_of


def test_both_topics_belong_to_the_pipeline() -> None:
    for topic in (log_topic("shop"), offsets_topic("shop")):
        assert topic.startswith(PREFIX)
        assert pipeline_of(topic) == "shop"


@pytest.mark.parametrize(
    ("operation", "told"),
    [
        ("create_topic", "does not begin with pipeline-"),
        ("delete_topic", "headwater pipeline remove shop"),
        ("compact", "headwater pipeline compact shop"),
        ("delete_before", "headwater pipeline compact shop"),
        ("append", "headwater pipeline edit shop OFFSET"),
    ],
)
def test_whoever_is_refused_is_told_the_command_of_the_pipeline(operation: str, told: str) -> None:
    assert told in instead(log_topic("shop"), operation)
    check_owner(log_topic("shop"), PART, PART, operation)
    with pytest.raises(OwnedTopic) as refused:
        check_owner(log_topic("shop"), PART, "", operation)
    assert told in refused.value.hint
