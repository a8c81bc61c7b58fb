"""The question before a write is asked at the place where the batch would lie."""

from __future__ import annotations

from typing import Any

from headwater.log.embedded.page import SegmentPosition
from headwater.log.encoding import encode
from headwater.log.record import Record


def test_a_question_sees_the_tail_and_its_answer_keeps_the_batch_out(ground: Any) -> None:
    log = ground.fill(6)
    partition, asked = ground.partition(log), list[SegmentPosition]()

    def refuse(tail: SegmentPosition) -> Exception | None:
        asked.append(tail)
        return ValueError("no")

    def agree(tail: SegmentPosition) -> Exception | None:
        asked.append(tail)
        return None

    partition.append(encode([Record(b"k", b"refused")], now=1), None, refuse)
    assert log.bounds("t", 0).end == 6
    assert partition.append(encode([Record(b"k", b"taken")], now=1), None, agree) == 6
    assert [tail.offset for tail in asked] == [6, 6]
    assert ground.values(log)[-1] == b"taken"
