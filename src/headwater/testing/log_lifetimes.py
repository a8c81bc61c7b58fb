"""The contract of segments' lifetimes: periods of the calendar, and what becomes of deleted ones."""

from __future__ import annotations

import pytest

from headwater.core.disposal import DISPOSALS, Disposal
from headwater.core.errors import AlreadyExists, BadInput, OffsetGone, Unsupported
from headwater.core.period import CALENDAR, Calendar
from headwater.log import Bounds, Log, TopicSettings
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

    @pytest.mark.parametrize("disposal", DISPOSALS[1:])
    def test_a_disposal_is_kept_or_said_not_to_be(self, log: Log, another: OpenLog, disposal: Disposal) -> None:
        name, settings = fresh("topic"), TopicSettings(segment=64 << 20, disposal=disposal)
        if not self.keeps_files:
            with pytest.raises(Unsupported) as refused:
                log.create_topic(name, settings=settings)
            assert refused.value.hint
            assert name not in [topic.name for topic in log.topics()]
            return
        made = log.create_topic(name, settings=settings)
        assert another().topic(name) == made == log.create_topic(name, settings=settings)
        assert made.settings.disposal == disposal
        with pytest.raises(AlreadyExists):
            log.create_topic(name, settings=TopicSettings(segment=64 << 20))

    def test_an_unknown_disposal_is_refused(self) -> None:
        with pytest.raises(BadInput, match="is no disposal"):
            TopicSettings(disposal="burn")  # type: ignore[arg-type]

    @pytest.mark.parametrize("disposal", DISPOSALS)
    def test_whatever_becomes_of_its_files_a_log_is_the_same(self, log: Log, another: OpenLog, disposal: Disposal) -> None:
        if not self.keeps_files:
            pytest.skip("this engine offers one disposal alone")
        name = log.create_topic(fresh("topic"), settings=TopicSettings(segment=2000, disposal=disposal)).name
        other, start, end = another(), 0, 0
        for step in range(8):
            for _ in range(4):
                log.append(name, 0, numbered(10, start=end))
                end += 10
            columns = list(other.scan(name, 0, start, start + 20))  # they are right after the deletion, too
            before, start = start, end - 13
            assert log.delete_before(name, 0, start) == start
            assert [value for batch in columns for value in batch.column("value").to_pylist()] == [
                record.value for record in numbered(20, start=before)
            ]
            with pytest.raises(OffsetGone):
                other.read(name, 0, start - 1)
            if step % 3 == 2:
                log.close()
                log = another()
            for each in (log, other):
                assert each.bounds(name, 0) == Bounds(start, end)
                assert everything(each, name) == at(numbered(13, start=start), range(start, end))
