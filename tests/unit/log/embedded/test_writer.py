"""Every call of a Writer is compared with the newest claim."""

from __future__ import annotations

from collections.abc import Callable
from typing import Any

import pyarrow as pa
import pytest

from headwater.core.errors import Fenced
from headwater.log import Writer
from headwater.log.record import Record

CALLS: list[Callable[[Writer], Any]] = [
    lambda writer: writer.append([Record(b"k", b"v")]),
    lambda writer: writer.append_arrow(pa.RecordBatch.from_pydict({"key": [b"k"], "value": [b"v"]})),
    lambda writer: writer.roll(),
    lambda writer: writer.delete_before(3),
    lambda writer: writer.compact(),
]


@pytest.mark.parametrize("call", CALLS)
def test_a_stale_writer_changes_nothing(ground: Any, call: Callable[[Writer], Any]) -> None:
    log = ground.fill(6)
    stale = log.claim("t", 0)
    newer = log.claim("t", 0)
    before = (log.bounds("t", 0), ground.segments())
    with pytest.raises(Fenced):
        call(stale)
    assert (log.bounds("t", 0), ground.segments()) == before
    call(newer)


@pytest.mark.parametrize("call", CALLS)
def test_a_claim_ends_with_its_topic(ground: Any, call: Callable[[Writer], Any]) -> None:
    log, other = ground.fill(6), ground.open()
    stale = log.claim("t", 0)
    other.delete_topic("t")
    other.create_topic("t", part="pipeline")
    newer = other.claim("t", 0, part="pipeline")
    assert newer.epoch == stale.epoch  # which says nothing: it counts from 1 again
    newer.append([Record(b"new", b"%d" % number) for number in range(6)])
    before = (other.bounds("t", 0), ground.segments())
    with pytest.raises(Fenced):
        call(stale)
    assert (other.bounds("t", 0), ground.segments()) == before
    call(newer)


def test_the_epoch_is_enough_to_work_under_a_claim(ground: Any) -> None:
    log = ground.fill(6)
    claimed = log.claim("t", 0)
    lent = log.writer("t", 0, claimed.epoch)
    assert (lent.topic, lent.partition, lent.epoch) == ("t", 0, claimed.epoch)
    assert list(lent.append([Record(b"k", b"v")])) == [6]
    assert lent.roll() == 7
    assert lent.delete_before(7) == 7
    assert log.bounds("t", 0).start == 7


@pytest.mark.parametrize("call", CALLS)
def test_a_lent_epoch_belongs_to_the_topic_in_which_it_was_read(ground: Any, call: Callable[[Writer], Any]) -> None:
    log, other = ground.fill(6), ground.open()
    generation, epoch = log.topic("t").generation, log.claim("t", 0).epoch
    other.delete_topic("t")
    other.create_topic("t")
    newer = other.claim("t", 0)
    assert newer.epoch == epoch
    newer.append([Record(b"new", b"%d" % number) for number in range(6)])
    before = (other.bounds("t", 0), ground.segments())
    with pytest.raises(Fenced, match="created again"):
        call(log.writer("t", 0, epoch, generation=generation))
    assert (other.bounds("t", 0), ground.segments()) == before
    call(log.writer("t", 0, epoch, generation=newer.generation))
