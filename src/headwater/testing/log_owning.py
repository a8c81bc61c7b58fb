"""The contract of parts' topics: everybody reads them, their part alone changes them, and everybody else is told what to do instead."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import msgspec
import pyarrow as pa
import pytest

from headwater.core.errors import AlreadyExists, BadInput, OwnedTopic
from headwater.log import Log, TopicSettings
from headwater.testing.log_ground import Ground, OpenLog, at, everything, fresh, numbered, tailed, unchanged

PART = "pipeline"
COLUMNS = {"key": pa.array([b"k"]), "value": pa.array([b"v"])}


class Owning(Ground):
    @pytest.fixture
    def owned(self, log: Log) -> str:
        """A topic of the part, with three records."""
        name = log.create_topic(f"pipeline-{fresh('topic')}", part=PART).name
        log.append(name, 0, numbered(3), part=PART)
        return name

    def test_a_topic_tells_its_owner(self, log: Log, another: OpenLog, owned: str, topic: str) -> None:
        other = another()
        assert log.topic(owned).settings.owner == other.topic(owned).settings.owner == PART
        assert log.topic(topic).settings.owner == other.topic(topic).settings.owner == ""
        assert {listed.name: listed.settings.owner for listed in other.topics() if listed.name in (owned, topic)} == {
            owned: PART,
            topic: "",
        }

    def test_nobody_else_changes_a_parts_topic(self, log: Log, another: OpenLog, owned: str) -> None:
        attempts: dict[str, Callable[[Log, str], object]] = {
            "append": lambda log, part: log.append(owned, 0, numbered(1), part=part),
            "append_arrow": lambda log, part: log.append_arrow(owned, 0, pa.record_batch(COLUMNS), part=part),
            "claim": lambda log, part: log.claim(owned, 0, part=part),
            "writer": lambda log, part: log.writer(owned, 0, 1, part=part),
            "delete_before": lambda log, part: log.delete_before(owned, 0, 1, part=part),
            "compact": lambda log, part: log.compact(owned, 0, part=part),
            "create_topic": lambda log, part: log.create_topic(owned, part=part),
            "delete_topic": lambda log, part: log.delete_topic(owned, part=part),
        }
        for other in (log, another()):
            for name, attempt in attempts.items():
                for part in ("", "another"):
                    with unchanged(log, owned), pytest.raises(OwnedTopic) as refused:
                        attempt(other, part)
                    assert PART in refused.value.message, name
                    assert f"headwater {PART}" in refused.value.hint, name

    def test_everybody_reads_a_parts_topic(self, log: Log, another: OpenLog, owned: str) -> None:
        other = another()
        expected = at(numbered(3), range(3))
        assert other.read(owned, 0, 0) == everything(log, owned) == expected
        assert sum(batch.num_rows for batch in other.scan(owned, 0, 0)) == 3
        assert tailed(other, owned, 0, 3) == expected
        assert other.offset_at(owned, 0, 0) == other.epoch(owned, 0) == 0

    def test_the_part_itself_changes_it(self, log: Log, another: OpenLog, owned: str) -> None:
        other = another()
        assert log.create_topic(owned, part=PART) == log.topic(owned)
        assert list(other.append_arrow(owned, 0, pa.record_batch(COLUMNS), part=PART)) == [3]
        assert other.delete_before(owned, 0, 1, part=PART) == 1
        writer = other.claim(owned, 0, part=PART)
        writer.append(numbered(1))
        assert log.epoch(owned, 0) == writer.epoch
        log.delete_topic(owned, part=PART)
        assert owned not in {topic.name for topic in log.topics()}

    def test_an_owner_that_no_name_tells_is_kept(self, log: Log, another: OpenLog) -> None:
        name = f"{fresh('namespace')}_data_7"
        made = log.create_topic(name, part="wal")
        assert made.settings.owner == "wal"
        log.append(name, 0, numbered(1), part="wal")
        log.close()
        for other in (another(), another()):
            assert other.topic(name) == other.create_topic(name, part="wal") == made
            assert {topic.name: topic.settings.owner for topic in other.topics()}[name] == "wal"
            for part in ("", PART):
                for attempt in (other.append, other.claim, other.delete_topic, other.create_topic):
                    arguments: list[Any] = [name, 0, numbered(1)][: 3 if attempt == other.append else 2 if attempt == other.claim else 1]
                    with unchanged(other, name), pytest.raises(OwnedTopic, match="the part wal"):
                        attempt(*arguments, part=part)
        other.delete_topic(name, part="wal")
        assert other.create_topic(name).settings.owner == ""  # a user's, of the same name

    def test_a_users_topic_is_not_taken_by_a_part(self, log: Log, another: OpenLog) -> None:
        name = f"{fresh('sales')}_data_2024"
        log.create_topic(name)
        for settings in (None, TopicSettings()):
            with unchanged(log, name), pytest.raises(AlreadyExists, match="the part wal has not made it"):
                another().create_topic(name, settings=settings, part="wal")
        log.append(name, 0, numbered(1))

    def test_a_name_of_a_part_is_not_given_to_anybody_else(self, log: Log) -> None:
        name = f"pipeline-{fresh('topic')}"
        for part in ("", "another"):
            with pytest.raises(OwnedTopic) as refused:
                log.create_topic(name, part=part)
            assert PART in refused.value.message
            assert "pipeline-" in refused.value.hint
        assert name not in {topic.name for topic in log.topics()}

    def test_nobody_names_an_owner_but_the_part_itself(self, log: Log, owned: str) -> None:
        name = fresh("topic")
        with pytest.raises(BadInput) as refused:
            log.create_topic(name, settings=log.topic(owned).settings)
        assert "owner" in refused.value.hint
        copied = msgspec.structs.replace(log.topic(owned).settings, owner="")
        assert log.create_topic(name, settings=copied).settings == copied

    def test_a_part_may_name_its_settings(self, log: Log) -> None:
        name = f"pipeline-{fresh('topic')}"
        settings = TopicSettings(segment=1 << 30)
        made = log.create_topic(name, settings=settings, part=PART)
        assert made.settings == msgspec.structs.replace(settings, owner=PART)
        assert log.create_topic(name, settings=settings, part=PART) == made
        assert log.create_topic(name, settings=made.settings, part=PART) == made
