from __future__ import annotations

import pytest

from headwater.core.errors import BadInput
from headwater.journal.care_requests import DeadPlace, QuarantineRecord, RebuildCopy, RetryRecord


def test_a_place_is_a_partition_and_an_offset() -> None:
    DeadPlace(topic="bank", partition=0, offset=0).check()
    for partition, offset in ((-1, 0), (0, -1), (True, 0), (0, "1")):
        with pytest.raises(BadInput, match=r"is no (partition|offset)"):
            DeadPlace(topic="bank", partition=partition, offset=offset).check()  # type: ignore[arg-type]


def test_names_of_topics_are_checked() -> None:
    for request in (
        RebuildCopy(topic="a/b"),
        QuarantineRecord(topic="a/b", partition=0, offset=0, why="x"),
        RetryRecord(topic="a/b", partition=0, offset=0),
    ):
        with pytest.raises(BadInput, match="no topic name"):
            request.check()
