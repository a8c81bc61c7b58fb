"""Stepping by hand: what counts as taken has been written, whatever the sink held before; and every step is in the audit."""

from __future__ import annotations

import socket
import sqlite3
from collections.abc import Callable, Iterator, Sequence
from contextlib import closing
from pathlib import Path

import pytest

from headwater.adaptors.http import sink as http_sink
from headwater.core.clock import Clock, SystemClock
from headwater.core.errors import Conflict, NotFound, Stopped, Unavailable
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline.adaptors import file, http, sqlite
from headwater.pipeline.definition import Pipeline
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Change, Dead, RunInfo, SinkState, State
from headwater.pipeline.operating.manual_delivery import ManualDelivery
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.policy import DeadLetter, OnError, Retry, Stop
from headwater.testing.clock import ManualClock


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic(log_topic("p"), part=PART)
        writer = log.claim(log_topic("p"), 0, part=PART)
        writer.append([Record(b"t", b'{"_id":%d}' % number) for number in range(5)])
        run = RunInfo(epoch=writer.epoch, id="r", began=0, state="stopped")
        Control.create(log, "p", SystemClock()).change(lambda state: [("run", run), ("sink/s", SinkState())])
        yield log


@pytest.fixture
def hands(log: Log, tmp_path: Path) -> ManualDelivery:
    return made(log, tmp_path)


def made(log: Log, folder: Path, on_error: OnError | None = None, clock: Clock | None = None) -> ManualDelivery:
    return ManualDelivery(
        PipelineOperations(log, "p", clock=clock),
        _pipeline(folder, on_error),
        "s",
        Settings(spark=SparkSettings(start="never")),
        clock=clock,
    )


def _pipeline(folder: Path, on_error: OnError | None = None) -> Pipeline:
    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).save("s", sqlite(str(folder / "s.db"), table="t"), on_error=on_error)
    return pipeline


def refuse(folder: Path, number: int) -> None:
    with closing(sqlite3.connect(folder / "s.db")) as db, db:
        db.execute(f"create table t (_id integer primary key check (_id <> {number}))")


def rows(folder: Path, statement: str = "select _id from t order by 1") -> list[int]:
    with closing(sqlite3.connect(folder / "s.db")) as db, db:
        return [row[0] for row in db.execute(statement)]


def test_what_an_operator_takes_back_is_written_again(log: Log, hands: ManualDelivery, tmp_path: Path) -> None:
    assert hands.deliver_next(5) == 5
    assert rows(tmp_path) == [0, 1, 2, 3, 4]
    rows(tmp_path, "delete from t where _id >= 3")
    PipelineOperations(log, "p").mark("s", 2, why="lost")
    assert hands.deliver_next(10) == 2
    assert rows(tmp_path) == [0, 1, 2, 3, 4]
    assert hands.deliver_next() == 0


def test_every_step_that_delivers_is_audited(log: Log, hands: ManualDelivery, tmp_path: Path) -> None:
    refuse(tmp_path, 1)
    assert hands.deliver_next(why="first") == 1
    with pytest.raises(Stopped, match="refuses message 1"):
        hands.deliver_next(why="second")
    PipelineOperations(log, "p").ack("s", 1, why="skip")
    assert hands.deliver_next(9, why="rest") == 3
    assert hands.deliver_next(why="nothing is left") == 0
    assert [(entry.what, entry.why, entry.details.get("offset")) for entry in PipelineOperations(log, "p").audit()] == [
        ("step", "first", 0),
        ("step", "second", 1),
        ("ack", "skip", 1),
        ("step", "rest", 2),
    ]


def test_a_sink_below_another_is_given_only_what_that_one_has_taken(log: Log, tmp_path: Path) -> None:
    pipeline = Pipeline("p")
    rows_of = pipeline.source("in", file("in.jsonl")).save("s", sqlite(str(tmp_path / "s.db"), table="t"))
    rows_of.save("below", sqlite(str(tmp_path / "below.db"), table="t"))
    operator = PipelineOperations(log, "p")
    operator.control.change(lambda state: [("sink/below", SinkState())])
    settings = Settings(spark=SparkSettings(start="never"))
    above, below = ManualDelivery(operator, pipeline, "s", settings), ManualDelivery(operator, pipeline, "below", settings)
    assert below.deliver_next(9) == 0
    assert above.deliver_next(2) == 2
    assert below.deliver_next(9) == 2
    assert operator.sink("below").position == 1


@pytest.mark.parametrize("policy", [Stop(), DeadLetter(), Retry(5, "1h"), Retry(1, "1ms", DeadLetter())])
def test_whatever_its_policy_a_sink_stands_at_a_message_that_was_sent_by_hand(log: Log, tmp_path: Path, policy: OnError) -> None:
    refuse(tmp_path, 1)
    with pytest.raises(Stopped) as caught:
        made(log, tmp_path, policy).deliver_next(5)
    assert "refuses message 1: SQLite refuses it: CHECK constraint failed" in caught.value.message
    state = PipelineOperations(log, "p").state()
    assert (state.sink("s").position, state.sink("s").stopped, state.dead) == (0, True, {})


def test_a_refusal_shows_the_message_and_what_to_type_next(log: Log, hands: ManualDelivery, tmp_path: Path) -> None:
    refuse(tmp_path, 1)
    with pytest.raises(Stopped) as caught:
        hands.deliver_next(5)
    assert caught.value.hint.splitlines() == [
        'Message 1, insert of t: {"_id":1}',
        "  See it, correct it, or skip it:",
        "    headwater pipeline xlog p show 1",
        "    headwater pipeline edit p 1 --set FIELD=JSON --why ...",
        "    headwater pipeline ack p s 1 --why ...",
    ]
    PipelineOperations(log, "p").mark("s", 4, why="past it")
    with pytest.raises(Stopped) as caught:
        hands.send_again(0, 4)
    assert "See it, correct it, then send it again:" in caught.value.hint
    assert "ack" not in caught.value.hint  # it counts as taken


def test_the_next_message_is_told_before_it_is_sent_and_nothing_is_touched(log: Log, hands: ManualDelivery, tmp_path: Path) -> None:
    assert hands.following() == 0
    PipelineOperations(log, "p").control.change(lambda state: [("sink/s", SinkState(position=1, taken=((2, 4),)))])
    assert hands.following() == 4
    PipelineOperations(log, "p").control.change(lambda state: [("sink/s", SinkState(position=4))])
    assert hands.following() is None
    assert not (tmp_path / "s.db").exists()


def test_nobody_sends_while_a_run_does_or_may(log: Log, tmp_path: Path) -> None:
    clock = ManualClock()
    hands = made(log, tmp_path, clock=clock)
    run = RunInfo(epoch=9, id="r", began=clock.now_ms(), process="elsewhere:1", file="/srv/p.py")
    PipelineOperations(log, "p").control.change(lambda state: [("run", run)])
    for call in (hands.deliver_next, hands.check_alone):
        with pytest.raises(Conflict, match="A run delivers to s now") as caught:
            call()
        assert "headwater pipeline stop p" in caught.value.hint
    clock.advance(61)
    for call in (hands.deliver_next, hands.check_alone):
        with pytest.raises(Conflict, match="A run on elsewhere:1 may still deliver to s, though it has given no sign of life") as caught:
            call()
        assert "`headwater pipeline run /srv/p.py`" in caught.value.hint


def test_what_is_refused_once_more_stays_put_aside_with_the_newest_error(log: Log, hands: ManualDelivery, tmp_path: Path) -> None:
    refuse(tmp_path, 1)
    operator = PipelineOperations(log, "p")
    operator.control.change(lambda state: [("dead/s/1", Dead(sink="s", offset=1, error="Old", message="an old one", tries=3))])
    with pytest.raises(Stopped, match="refuses message 1 again") as caught:
        hands.send_dead(operator.dead_one(1), why="perhaps")
    assert "headwater pipeline dead p drop 1 --sink s --why ..." in caught.value.hint
    (one,) = operator.dead()
    assert "CHECK constraint failed" in one.message
    assert one.tries == 4
    operator.edit(1, {"_id": 11}, why="typo")
    hands.send_dead(one, why="now")
    assert operator.dead() == []
    assert [(entry.what, entry.why, entry.details.get("refused")) for entry in operator.audit()] == [
        ("dead retry", "perhaps", True),
        ("edit", "typo", None),
        ("dead retry", "now", None),
    ]


def test_a_table_that_was_lost_is_filled_again_by_a_replay(log: Log, hands: ManualDelivery, tmp_path: Path) -> None:
    assert hands.deliver_next(5) == 5
    for one in tmp_path.glob("s.db*"):
        one.unlink()
    outcome = hands.send_again(0, 4)
    assert outcome is not None
    assert outcome.written == 5
    assert rows(tmp_path) == [0, 1, 2, 3, 4]
    assert PipelineOperations(log, "p").sink("s").position == 4


def test_beside_a_live_run_a_sink_that_stands_is_stepped_and_the_run_does_not_send_the_same(log: Log, tmp_path: Path) -> None:
    refuse(tmp_path, 1)
    clock = ManualClock()
    hands, operator = made(log, tmp_path, clock=clock), PipelineOperations(log, "p", clock=clock)
    assert hands.deliver_next() == 1
    with pytest.raises(Stopped):
        hands.deliver_next()
    run = RunInfo(epoch=9, id="r", began=clock.now_ms(), process="elsewhere:1")
    operator.control.change(lambda state: [("run", run)])
    standing: list[bool] = []
    changed = operator.control.change

    def seen(decide: Callable[[State], Sequence[Change]]) -> Sequence[Change]:
        standing.append(operator.state().sink("s").stopped)
        return changed(decide)

    operator.control.change = seen  # type: ignore[method-assign]
    with pytest.raises(Stopped):
        ManualDelivery(operator, _pipeline(tmp_path), "s", Settings(spark=SparkSettings(start="never")), clock=clock).deliver_next()
    assert standing
    assert all(standing)  # at no moment could the live run have taken it for seen to
    with closing(sqlite3.connect(tmp_path / "s.db")) as db, db:
        db.execute("pragma writable_schema = on")
        db.execute("update sqlite_master set sql = 'create table t (_id integer primary key)' where name = 't'")
    assert hands.deliver_next() == 1
    assert hands.following() == 2
    with pytest.raises(Conflict, match="A run delivers to s now"):
        hands.deliver_next()


# -- what is older than what the sink has -------------------------------------------------------------------


def bury(log: Log, *more: Record) -> PipelineOperations:
    """Message 1 is put aside; more messages, and the sink has all but that one."""
    operator = PipelineOperations(log, "p")
    log.writer(log_topic("p"), 0, log.epoch(log_topic("p"), 0), part=PART).append(more)
    dead = Dead(sink="s", offset=1, error="E", message="no")
    operator.control.change(lambda state: [("dead/s/1", dead), ("sink/s", SinkState(position=4 + len(more)))])
    return operator


def test_what_was_put_aside_and_is_sent_again_with_others_is_no_longer_aside(log: Log, hands: ManualDelivery, tmp_path: Path) -> None:
    operator = PipelineOperations(log, "p")
    hands.deliver_next(5)
    for offset in (1, 3, 4):
        operator.control.change(lambda state, offset=offset: [(f"dead/s/{offset}", Dead(sink="s", offset=offset, error="E", message="no"))])
    rows(tmp_path, "drop table t")
    refuse(tmp_path, 4)
    hands.send_again(2, 3, why="mended")
    assert [one.offset for one in operator.dead()] == [1, 4]
    with pytest.raises(Stopped):
        hands.send_again(4, 4, why="mended")
    assert [one.offset for one in operator.dead()] == [1, 4]


def test_what_was_put_aside_is_not_put_over_a_newer_state_of_its_document(log: Log, hands: ManualDelivery) -> None:
    operator = bury(log, Record(b"other", b'{"_id":1}'), Record(b"t", b"no json"), Record(b"t", b'{"_id":1,"n":2}', op=1))
    one = operator.dead_one(1)
    with pytest.raises(Conflict, match="Sink s has taken message 7, a newer one of the same document") as caught:
        hands.refuse_older(one)
    assert "headwater pipeline dead p drop 1 --sink s" in caught.value.hint
    assert hands.covered(0, 2) == 7
    assert hands.covered(2, 4) is None
    operator.edit(1, {"_id": 100}, why="another document")
    hands.refuse_older(one)


@pytest.mark.parametrize("how", ["put aside", "skipped", "not taken yet"])
def test_a_newer_message_that_the_sink_does_not_have_is_none(log: Log, hands: ManualDelivery, how: str) -> None:
    operator = bury(log, Record(b"t", b'{"_id":1,"n":2}'))
    if how == "put aside":
        operator.control.change(lambda state: [("dead/s/5", Dead(sink="s", offset=5, error="E", message="no"))])
    else:
        operator.control.change(lambda state: [("sink/s", SinkState(position=4))])
        if how == "skipped":
            operator.ack("s", 5, why="skip")
    hands.refuse_older(operator.dead_one(1))


def test_two_do_not_send_to_a_sink_at_once(log: Log, hands: ManualDelivery, tmp_path: Path) -> None:
    other = made(log, tmp_path)

    def meanwhile(offset: int) -> None:
        for call in (other.deliver_next, lambda: other.send_again(0, 0)):
            with pytest.raises(Conflict, match="Somebody sends to s of p now"):
                call()

    assert hands.deliver_next(2, on_taken=meanwhile) == 2
    assert other.deliver_next() == 1  # it is over
    assert [entry.what for entry in PipelineOperations(log, "p").audit()] == ["step", "step"]


def test_what_somebody_else_has_sent_meanwhile_is_not_sent_again(log: Log, hands: ManualDelivery) -> None:
    operator = bury(log, Record(b"t", b"{}"))
    one = operator.dead_one(1)
    hands.send_dead(one)
    with pytest.raises(NotFound, match="Message 1 is not put aside"):
        hands.send_dead(one)


def test_what_a_sink_that_cannot_be_reached_has_ended_is_audited(log: Log, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(http_sink, "PAUSE", 3600.0)  # it gives up after one try, however slow the machine is
    operator = bury(log, Record(b"t", b"{}"))
    pipeline = Pipeline("p")
    with socket.socket() as taken:
        taken.bind(("127.0.0.1", 0))  # nobody listens there
        pipeline.source("in", file("in.jsonl")).save("s", http(f"http://127.0.0.1:{taken.getsockname()[1]}/"), timeout="1m")
        hands = ManualDelivery(operator, pipeline, "s", Settings(spark=SparkSettings(start="never")))
        with pytest.raises(Unavailable):
            hands.send_again(0, 2, why="lost")
        with pytest.raises(Unavailable):
            hands.send_dead(operator.dead_one(1), why="mended")
    first, second = operator.audit()
    assert (first.what, first.why, first.details["first"], first.details["last"]) == ("replay failed", "lost", 0, 2)
    assert (second.what, second.why, second.details["offset"]) == ("dead retry failed", "mended", 1)
    assert "cannot be reached" in first.details["error"]
    assert [one.offset for one in operator.dead()] == [1]


@pytest.mark.parametrize("dry_run", [False, True])
def test_a_sink_is_not_forgotten_under_a_run_that_has_just_begun(log: Log, dry_run: bool) -> None:
    clock = ManualClock()
    operator, other = PipelineOperations(log, "p", clock=clock), PipelineOperations(log, "p", clock=clock)
    change, begun = operator.control.change, RunInfo(epoch=9, id="r", began=clock.now_ms(), process="elsewhere:1", sinks=("s",))

    def then(decide: Callable[[State], Sequence[Change]]) -> Sequence[Change]:
        other.control.change(lambda state: [("run", begun)])  # between the look and the change
        return change(decide)

    operator.control.change = then  # type: ignore[method-assign]
    if dry_run:
        then(lambda state: [])
    with pytest.raises(Conflict, match="A run delivers to s now"):
        operator.delete("s", why="no more", dry_run=dry_run)
    assert "s" in other.state().sinks


def test_a_table_that_was_emptied_long_ago_is_not_emptied_again_with_what_came_since(log: Log, hands: ManualDelivery) -> None:
    truncate = Record(b"t", b'{"command":"truncate"}', op=3)
    operator = bury(
        log, truncate, Record(b"other", b'{"command":"truncate"}', op=3), Record(b"t", b'{"_id":9}'), Record(b"t", b'{"_id":10}')
    )
    for dry_run in (True, False):
        with pytest.raises(Conflict, match="Message 5 is a command to s, and messages behind 7 would not come again") as caught:
            hands.send_again(4, 7, dry_run=dry_run)
        assert "replay p s 4..8" in caught.value.hint
    assert operator.audit() == []
    assert hands.send_again(7, 7, dry_run=True) is None
    assert hands.send_again(4, 8, dry_run=True) is None  # all that came since comes again
    with pytest.raises(Conflict, match="has taken message 7"):
        hands.refuse_older(Dead(sink="s", offset=5, error="E", message="no"))
