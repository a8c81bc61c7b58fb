"""Names and settings of topics."""

from __future__ import annotations

from pathlib import Path
from typing import Any

import pytest

from headwater.core.errors import BadInput
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record, TopicSettings, check_new_topic_name, check_topic_name


@pytest.mark.parametrize("name", ["a", "9", "A.b_c-d", "x" * 249, "orders", "lock.s", "locks"])
def test_fit_names(name: str) -> None:
    check_new_topic_name(name)


@pytest.mark.parametrize(
    "name", ["", ".", "..", ".deleted-x", "_x", "-x", ".reserve", "lock", "engine.json", "engine.json.tmp", "a/b", "a b", "ä", "x" * 250]
)
def test_unfit_names(name: str) -> None:
    with pytest.raises(BadInput):
        check_new_topic_name(name)


def test_other_programs_topics_may_be_looked_at() -> None:
    check_topic_name("_schemas")


@pytest.mark.parametrize("name", [".deleted-x", "lock", "engine.json", "_x"])
def test_the_embedded_log_refuses_names_that_collide_with_its_own_files(tmp_path: Path, name: str) -> None:
    log = EmbeddedLog(tmp_path)
    log.create_topic("first")
    for call in (
        lambda: log.create_topic(name),
        lambda: log.topic(name),
        lambda: log.append(name, 0, [Record(b"k", b"v")]),
        lambda: log.read(name, 0, 0),
        lambda: log.delete_topic(name),
    ):
        with pytest.raises(BadInput):
            call()
    assert [topic.name for topic in log.topics()] == ["first"]


@pytest.mark.parametrize("name", ["segment", "period", "max_record"])
@pytest.mark.parametrize("value", [1e6, 1000.0, True, "1000", None])
def test_settings_that_could_not_be_read_again_are_refused(name: str, value: Any) -> None:
    with pytest.raises(BadInput, match=name):
        TopicSettings(**{name: value})
