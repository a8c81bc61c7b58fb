"""The contract of appends by key: a call that holds one bad record appends nothing, in no partition."""

from __future__ import annotations

import asyncio
from typing import Any

import pytest

from headwater.client.local import LocalLog
from headwater.core.errors import BadInput, HeadwaterError, TooLarge, UnknownTopic
from headwater.log import Log, Record, TopicSettings
from headwater.log.partitioner import partition_for
from headwater.testing.log_ground import Ground, OpenLog, everything, fresh, numbered, unchanged

PARTITIONS = 3
BAD: list[tuple[Record, type[HeadwaterError]]] = [
    (Record(b"k", b"x" * 2000), TooLarge),
    (Record(b"k", b"v", (("h", b"x" * 2000),)), TooLarge),
    (Record(b"k", b"v", (("n" * 70_000, b""),)), BadInput),
    (Record(b"k", b"v", op=8), BadInput),
    (Record(b"k", b"v", mode=-1), BadInput),
    (Record(b"k", b"v", timestamp=-1), BadInput),
    (Record(b"k", "text"), BadInput),  # type: ignore[arg-type]
]


class AppendingByKey(Ground):
    @pytest.fixture
    def spread(self, log: Log) -> str:
        """A topic with several partitions and small records."""
        return log.create_topic(fresh("topic"), partitions=PARTITIONS, settings=TopicSettings(max_record=1000)).name

    @pytest.mark.parametrize(("bad", "error"), BAD)
    def test_a_bad_record_is_told_before_anything_is_appended(
        self, log: Log, spread: str, bad: Record, error: type[HeadwaterError]
    ) -> None:
        for batch in ([bad], [*numbered(3), bad], [*numbered(2000), bad]):
            with unchanged(log, spread), pytest.raises(error) as refused:
                log.check_records(spread, batch)
            assert refused.value.hint
        log.check_records(spread, numbered(3))
        assert [log.bounds(spread, number).end for number in range(PARTITIONS)] == [0] * PARTITIONS

    def test_records_of_no_topic_are_not_checked(self, log: Log, spread: str) -> None:
        with pytest.raises(UnknownTopic):
            log.check_records(fresh("none"), numbered(1))
        with pytest.raises(BadInput):
            log.check_records(spread, [])

    @pytest.mark.parametrize(("bad", "error"), BAD)
    def test_one_bad_record_keeps_all_others_out(
        self, log: Log, open_log: OpenLog, spread: str, bad: Record, error: type[HeadwaterError]
    ) -> None:
        assert {partition_for(record.key or b"", PARTITIONS) for record in numbered(20)} == set(range(PARTITIONS))

        async def appended(*batches: list[Record]) -> list[Any]:
            keyed = LocalLog(open_log)
            try:
                return [await asyncio.gather(keyed.append_by_key(spread, batch), return_exceptions=True) for batch in batches]
            finally:
                await keyed.aclose()

        good = numbered(20)
        [first], [refused] = asyncio.run(appended(good, [*good, bad, *good]))
        assert isinstance(refused, error)
        keys = {record.key for number in range(PARTITIONS) for record in everything(log, spread, number)}
        assert (len(first), keys) == (20, {record.key for record in good})
        assert sum(log.bounds(spread, number).end for number in range(PARTITIONS)) == 20
