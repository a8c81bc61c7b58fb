"""The contract of segments' lifetimes: periods of the calendar."""

from __future__ import annotations

import pytest

from headwater.core.errors import AlreadyExists, Unsupported
from headwater.core.period import CALENDAR, Calendar
from headwater.log import Log, TopicSettings
from headwater.testing.log_ground import Ground, OpenLog, at, everything, fresh, numbered


class Lifetimes(Ground):
    @pytest.mark.parametrize("period", CALENDAR)
    def test_a_period_of_the_calendar_is_kept_or_said_not_to_be(self, log: Log, another: OpenLog, period: Calendar) -> None:
        name, settings = fresh("topic"), TopicSettings(segment=64 << 20, period=period)
        if not self.keeps_files:
            with pytest.raises(Unsupported) as refused:
                log.create_topic(name, settings=settings)
            assert "duration" in refused.value.hint
            assert name not in [topic.name for topic in log.topics()]
            return
        made = log.create_topic(name, settings=settings)
        assert another().topic(name) == made == log.create_topic(name, settings=settings)
        assert made.settings.period == period
        log.append(name, 0, numbered(3))
        assert everything(another(), name) == at(numbered(3), range(3))
        with pytest.raises(AlreadyExists):
            log.create_topic(name, settings=TopicSettings(segment=64 << 20, period=3_600_000))
