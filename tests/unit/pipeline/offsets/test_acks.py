"""A sink's position while a run moves it."""

from __future__ import annotations

import math
from collections.abc import Iterator
from pathlib import Path

import pytest

from headwater.core.errors import Fenced
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline.offsets.acks import Acks
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Change, Dead, Failure, RunInfo, SinkState
from headwater.testing.clock import ManualClock

CLOCK = ManualClock()
FAILURE = Failure(offset=4, error="E", message="m")


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path) as log:
        log.create_topic(log_topic("p"), part=PART)
        log.append(log_topic("p"), 0, [Record(b"t", b"{}")] * 10, part=PART)
        Control.create(log, "p", CLOCK).change(lambda state: [("run", RunInfo(epoch=3, id="r", began=1)), ("sink/s", SinkState())])
        yield log


@pytest.fixture
def acks(log: Log) -> Acks:
    return Acks(Control(log, "p", CLOCK), "s", 3, clock=CLOCK, every=1.0)


def stored(log: Log) -> SinkState:
    return Control(log, "p", CLOCK).state.sink("s")


def by_operator(log: Log, change: Change) -> None:
    Control(log, "p", CLOCK).change(lambda state: [change])


def test_the_position_is_the_contiguous_prefix_and_is_written_at_intervals(log: Log, acks: Acks) -> None:
    acks.add(4, 6, {"t": 5})
    assert (acks.position, acks.missing(8)) == (-1, [(0, 4), (6, 8)])
    assert acks.due() == 1.0
    acks.add(0, 3, {"t": 2})
    assert acks.flush_if_due()  # not yet
    assert stored(log).position == -1
    CLOCK.advance(1.1)
    assert acks.flush_if_due()
    assert (stored(log).position, stored(log).taken) == (2, ((4, 6),))
    assert Control(log, "p", CLOCK).state.taken["s"] == {"t": 5}
    assert acks.due() == math.inf
    acks.add(3, 4, {"t": 3})
    assert acks.flush()
    assert (stored(log).position, stored(log).taken) == (5, ())
    assert Control(log, "p", CLOCK).state.taken["s"] == {"t": 5}  # the last one stays the last one


def test_an_operator_s_word_wins_over_what_was_under_way(log: Log, acks: Acks) -> None:
    acks.add(0, 8, {})
    by_operator(log, ("sink/s", SinkState(position=1, generation=1)))
    assert not acks.flush()
    assert stored(log).position == 1
    acks.refresh()
    assert acks.moved
    acks.confirm_move([(0, 1)])
    assert Control(log, "p", CLOCK).state.unheld["s"].spans == ((1, 2),)  # by the operator's word
    acks.refresh()
    assert not acks.moved
    assert acks.missing(4) == [(2, 4)]
    acks.add(2, 4, {})
    assert acks.flush()
    assert stored(log).position == 3


def test_a_newer_run_shuts_it_out(log: Log, acks: Acks) -> None:
    acks.add(0, 3, {})
    by_operator(log, ("run", RunInfo(epoch=4, id="s", began=2)))
    for call in (acks.flush, acks.refresh):
        with pytest.raises(Fenced, match="A newer run of p has begun"):
            call()
    assert stored(log).position == -1


def test_a_failure_stays_until_its_message_is_taken(log: Log, acks: Acks) -> None:
    acks.add(0, 4, {})
    assert acks.failed(FAILURE)
    assert (stored(log).position, stored(log).failure, stored(log).stopped) == (3, FAILURE, True)
    acks.add(6, 7, {})
    acks.flush()
    assert stored(log).failure == FAILURE
    acks.add(4, 5, {})
    acks.flush()
    assert stored(log).failure is None
    batch = Failure(offset=7, error="E", message="m", start=7, end=9)
    acks.failed(batch, single_until=8)
    assert (stored(log).stopped, stored(log).single_until) == (False, 8)
    acks.add(5, 9, {})
    acks.flush()
    assert (stored(log).failure, stored(log).single_until) == (None, -1)


def test_a_message_is_put_aside_and_counts_in_one_change(log: Log, acks: Acks) -> None:
    acks.add(0, 4, {})
    end = log.bounds(f"{log_topic('p')}-offsets", 0).end
    assert acks.bury(Dead.of("s", FAILURE, tries=2))
    assert stored(log).position == 4
    assert Control(log, "p", CLOCK).state.dead[("s", 4)].tries == 2
    assert Control(log, "p", CLOCK).state.unheld["s"].spans == ((4, 5),)
    assert log.bounds(f"{log_topic('p')}-offsets", 0).end == end + 3  # the sink, the letter and what the sink does not hold, in one append


def test_a_message_is_put_aside_for_the_sinks_below_too(log: Log, acks: Acks) -> None:
    by_operator(log, ("sink/below", SinkState(position=2)))
    by_operator(log, ("sink/ahead", SinkState(position=7)))
    acks.add(0, 4, {})
    assert acks.bury(Dead.of("s", FAILURE, tries=2), ["below", "ahead"])
    state = Control(log, "p", CLOCK).state
    assert sorted(state.dead) == [("below", 4), ("s", 4)]
    assert state.dead[("below", 4)].message == "Sink s, after which below comes, has put it aside: m"
    assert (state.sink("below").position, state.sink("below").taken) == (2, ((4, 5),))
    assert (state.sink("ahead").position, state.unheld.keys()) == (7, {"s", "below"})


def test_the_sink_holds_what_counts_but_for_what_was_put_aside(log: Log, acks: Acks) -> None:
    acks.add(0, 4, {})
    acks.bury(Dead.of("s", FAILURE, tries=1))
    acks.add(6, 8, {})
    assert acks.expected() == [(0, 4), (6, 8)]
    acks.flush()
    assert acks.expected() == [(0, 4), (6, 8)]


def test_what_the_sink_itself_holds_counts(log: Log, acks: Acks) -> None:
    acks.take_over(None)
    assert stored(log).position == -1
    acks.take_over([(0, 3), (5, 7)])
    assert (stored(log).position, stored(log).taken) == (2, ((5, 7),))
