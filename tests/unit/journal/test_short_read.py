"""The short way of a read: the same events as the long way, or none."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from tests.unit.journal.partitions import TOPIC, Ground

from headwater.journal.action import ActionRecord, Append, Delete, Purge
from headwater.journal.append_rows import event_rows
from headwater.journal.event import MAX_SEQ_NR
from headwater.journal.read import JournalRead
from headwater.journal.short_read import SHORT, add_tail, highest, short_events
from headwater.journal.shown import events_of
from headwater.journal.topics import PART
from headwater.journal.wire import write_record


@pytest.fixture
def ground(tmp_path: Path) -> Iterator[Ground]:
    ground = Ground(tmp_path)
    yield ground
    ground.close()


def both(ground: Ground, id: str = "a") -> bool:
    """Read a journal in both ways; return whether the short one was open, with the same events."""
    long = events_of(JournalRead(ground.partition, id, end=ground.partition.end()).page())
    short = ground.partition.short_read(id, 1, MAX_SEQ_NR)
    assert short is None or short == long
    return short is not None


def test_every_kind_of_event(ground: Ground) -> None:
    for number, payload in enumerate([{"a": 1}, "text", b"bytes", 10**30, None, [1.5]], 1):
        ground.append("a", number, payload=payload)
    value = b'{"events":[{"seqNr":7,"tags":["t"]},{"seqNr":8,"payload":2}],"metadata":{"data":{"m":1}}}'
    action = Append(7, 8, "json", "host", "1", b'{"h":1}')
    ground.log.append(TOPIC, 0, [write_record("a", action, value=value, headers=[("x", "y")])], part=PART)
    assert not both(ground), "nothing is copied"
    for end in range(3, ground.partition.end() + 1):
        ground.copy(end)
        assert both(ground)
    events = ground.partition.short_read("a", 1, MAX_SEQ_NR)
    assert events is not None
    assert (events[-1].metadata, events[-1].header_metadata, events[-1].headers) == ({"m": 1}, {"h": 1}, {"x": "y"})


def test_what_takes_the_long_way(ground: Ground) -> None:
    ground.append("a", 1, 2)
    ground.append("many", *range(1, SHORT + 2))
    ground.append("twice", 1)
    ground.append("twice", 1)
    ground.copy()
    assert not both(ground, "many")
    assert not both(ground, "twice")
    assert not both(ground, "nobody")
    assert both(ground)
    ground.append("a", 3)
    both(ground)
    assert both(ground), "an Append behind the pointer"
    ground.append("a", 3)
    both(ground)
    assert not both(ground), "a fork"
    ground.copy()
    both(ground)
    assert not both(ground), "a copied fork"
    ground.put("a", Delete(1))
    assert not both(ground)
    ground.copy()
    ground.put("a", Purge())
    assert not both(ground)
    ground.partition.quick = False
    assert ground.partition.short_read("a", 1, MAX_SEQ_NR) is None


def test_a_bound_leaves_more_than_a_few_numbers_out(ground: Ground) -> None:
    ground.append("a", *range(1, SHORT + 2))
    ground.copy()
    ground.read("a")
    assert ground.partition.short_read("a", 1, MAX_SEQ_NR) is None
    assert [event.seq_nr for event in ground.partition.short_read("a", 2, MAX_SEQ_NR) or ()] == list(range(2, SHORT + 2))
    assert [event.seq_nr for event in ground.partition.short_read("a", 1, SHORT) or ()] == list(range(1, SHORT + 1))


def test_rows_that_cannot_be_decoded_take_the_long_way() -> None:
    good = (1, 5, 0, None, None, None, "{}", 2, b"{}", None)
    assert short_events([good], 0) is not None
    for at, rotten in [(7, 9), (8, b"{"), (8, None), (5, "no json"), (6, "no json"), (9, "no json")]:
        assert short_events([(*good[:at], rotten, *good[at + 1 :])], 0) is None, at


def test_a_tail_whose_numbers_do_not_follow_takes_the_long_way(ground: Ground) -> None:
    ground.append("a", 4)
    (record,) = ground.partition.records([0])
    stored = events_of(event_rows(record, 0))
    value = b'{"events":[{"seqNr":5,"tags":[]},{"seqNr":6,"tags":[]}]}'

    def tail(first: int, last: int, body: bytes = value) -> ActionRecord:
        return ActionRecord("a", Append(first, last), 9, 5, (), body)

    events = list(stored)
    assert add_tail(events, [tail(5, 6)], 5, 0)
    assert [event.seq_nr for event in events] == [4, 5]
    for wrong in (tail(6, 6), tail(5, 5), tail(5, 6, b"{"), tail(5, 6, value.replace(b"6", b"5"))):
        assert not add_tail(list(stored), [wrong], MAX_SEQ_NR, 0)
    assert highest([]) == 0
    assert highest([tail(5, 9), tail(5, 6)]) == 9
