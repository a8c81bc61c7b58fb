"""A run as a whole: what one sink's trouble, an operator's word or a listener's failure mean to the rest of it."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import pytest
from ground import gone, piped, prepared, rows

from headwater.core.errors import AlreadyExists, Conflict, Damaged, Differs, Fenced
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode, Record
from headwater.pipeline import Message, Op, Pipeline, python
from headwater.pipeline.adaptor import About
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.definition import Branch
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import SinkState
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.verification import compare
from headwater.pipeline.running import run
from headwater.pipeline.running.events import RunEvent
from headwater.pipeline.running.run import Run
from headwater.pipeline.source_adaptor import CanTail, Piece
from headwater.spark.lazy import LazySpark
from headwater.testing.clock import ManualClock

MIB = 1 << 20


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


def test_a_few_large_documents_are_all_delivered(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":%d,"x":"%s"}' % (n, b"x" * (14 * MIB)) for n in range(4)], {})
    pipeline = piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db")), "out": file(str(tmp_path / "o.jsonl"))})
    result = gone(log, tmp_path, pipeline)
    assert [one.position for one in result.sinks] == [3, 3]
    for name in ("db", "out"):
        found = compare(PipelineOperations(log, "p"), pipeline, name)
        assert (found.equal, found.expected, found.found) == (True, 4, 4)
    assert rows(tmp_path / "o.db", "select _id from t order by 1") == [(0,), (1,), (2,), (3,)]
    assert (tmp_path / "o.jsonl").read_bytes().count(b"\n") == 4


def test_documents_that_nothing_touches_keep_their_bytes_however_few_they_are(log: Log, tmp_path: Path) -> None:
    text = b'{"_id":1,"a":1,"a":2,"n":-0,"f":0.1e1,"g":1E5}'
    prepared(log, [text], {})
    gone(log, tmp_path, piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}))
    assert (tmp_path / "o.jsonl").read_bytes() == text + b"\n"


def when_at(number: int, then: Callable[[], None]) -> Callable[[Message], Message]:
    """A transform during which, at one message, something else happens once."""
    told = threading.Event()

    def call(message: Message) -> Message:
        if message.data["v"] == number and not told.is_set():
            told.set()
            then()
        return message

    return call


def test_a_position_moved_back_while_messages_go_one_at_a_time_leaves_nothing_stale(log: Log, tmp_path: Path) -> None:
    changes = [b'{"_id":"X","v":%d}' % n for n in range(40)]
    prepared(log, changes, {"db": SinkState(position=9, single_until=39)}, mode=Mode.SYNC, op=1)
    call = when_at(20, lambda: PipelineOperations(log, "p").mark("db", 4, why="again") and None)
    result = gone(log, tmp_path, piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))}, transforms=[python(call)], flush="1ms"))
    assert result.sinks[0].position == 39
    assert rows(tmp_path / "o.db", "select v from t") == [(39,)]


def test_a_failure_of_a_message_that_an_operator_has_passed_meanwhile_does_not_count(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":%d}' % n for n in range(40)], {"db": SinkState(position=9)})

    def fails(message: Message) -> Message:
        if message.data["_id"] == 20:
            PipelineOperations(log, "p").mark("db", 25, why="skip")
            raise ValueError("no")
        return message

    result = gone(log, tmp_path, piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))}, transforms=[python(fails)]))
    assert result.state == "done"
    assert result.sinks[0].failure is None
    assert rows(tmp_path / "o.db", "select max(_id) from t") == [(39,)]


def test_a_sink_that_cannot_begin_does_not_keep_others_from_taking_all(log: Log, tmp_path: Path) -> None:
    (tmp_path / "mine.jsonl").write_text("mine\n")
    prepared(log, [b'{"_id":%d}' % n for n in range(10)], {})
    sinks = {"db": sqlite(str(tmp_path / "o.db")), "taken": file(str(tmp_path / "mine.jsonl"), existing="fail")}
    with pytest.raises(AlreadyExists):
        gone(log, tmp_path, piped(tmp_path, sinks))
    assert rows(tmp_path / "o.db", "select count(*) from t") == [(10,)]
    state = PipelineOperations(log, "p").state()
    assert state.sink("db").position == 9
    failure = state.sink("taken").failure
    assert failure is not None
    assert "mine.jsonl" in failure.message
    (tmp_path / "mine.jsonl").unlink()
    assert gone(log, tmp_path, piped(tmp_path, sinks)).state == "done"
    assert (tmp_path / "mine.jsonl").read_bytes().count(b"\n") == 10


def test_every_target_that_is_lost_is_named(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":%d}' % n for n in range(10)], {})
    sinks = {name: file(str(tmp_path / f"{name}.jsonl")) for name in ("one", "two", "three")}
    pipeline = piped(tmp_path, {**sinks, "db": sqlite(str(tmp_path / "o.db"))})
    gone(log, tmp_path, pipeline)
    for name in ("one", "two"):
        (tmp_path / f"{name}.jsonl").unlink()
    with pytest.raises(Differs) as error:
        gone(log, tmp_path, pipeline)
    for name in ("one", "two"):
        assert f"{name}.jsonl is gone" in str(error.value)
        assert f"offset p mark {name} -1" in error.value.hint
    assert "three" not in str(error.value)


def test_a_listener_that_fails_is_no_reason_to_stop(log: Log, tmp_path: Path, caplog: pytest.LogCaptureFixture) -> None:
    prepared(log, [b'{"_id":1}'], {})

    def full(event: RunEvent) -> None:
        raise OSError(28, "No space left on device")

    assert gone(log, tmp_path, piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))}), listeners=[full]).state == "done"
    assert "No space left" in caplog.text


def test_a_new_sink_of_a_compacted_log_is_refused_and_not_given_a_part(log: Log, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("".join(f'{{"_id":{n},"x":"{"x" * 50}"}}\n' for n in range(2000)))
    one, two = {"a": sqlite(str(tmp_path / "a.db"))}, {"a": sqlite(str(tmp_path / "a.db")), "b": sqlite(str(tmp_path / "b.db"))}
    source = file(str(tmp_path / "in.jsonl"))
    for again in (False, True):
        gone(log, tmp_path, piped(tmp_path, one, source=source, segment="64KiB"), again=again)
    freed = PipelineOperations(log, "p").compact()
    assert freed.records_after < freed.records_before
    with pytest.raises(Conflict, match="new"):
        gone(log, tmp_path, piped(tmp_path, two, source=source, segment="64KiB"))
    assert gone(log, tmp_path, piped(tmp_path, two, source=source, segment="64KiB"), again=True).state == "done"
    assert rows(tmp_path / "b.db", f"select count(*) from {table(tmp_path)}") == [(2000,)]


def table(folder: Path) -> str:
    [(name,)] = rows(folder / "b.db", "select name from sqlite_master where type = 'table' and name not like 'headwater%'")
    return f'"{name}"'


class Tail(CanTail, frozen=True, kw_only=True):
    """One change of a table that no plan knows."""

    kind: ClassVar[str] = "tail"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    path: str = "x"

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        if cursor is None:
            yield Piece(position=1, messages=[Message("new", {"key": 1, "v": 1}, Op.INSERT, 1, id_fields=("key",))])
        yield Piece(position=1)


def test_changes_keep_what_tells_their_documents_apart(log: Log, tmp_path: Path) -> None:
    assert gone(log, tmp_path, piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))}, source=Tail())).state == "done"
    assert rows(tmp_path / "o.db", 'select "key", v from new') == [(1, 1)]


def test_passwords_are_not_shown(tmp_path: Path) -> None:
    from headwater.pipeline.adaptors import postgres

    assert "SECRET" not in str(postgres("postgresql://u:SECRET@h/db"))
    assert "h/db" in str(postgres("postgresql://u:SECRET@h/db"))


def test_positions_that_are_nowhere_else_are_not_compacted_away(log: Log, tmp_path: Path) -> None:
    control = Control.create(log, "p", ManualClock())
    from headwater.pipeline.offsets.compaction import limit
    from headwater.pipeline.offsets.state import ReaderState

    control.change(lambda state: [("reader", ReaderState(run="r", plan={}, begun=0, upto=7)), ("sink/x", SinkState(position=20))])
    assert limit(control.state) == 7


class Trickle(CanTail, frozen=True, kw_only=True):
    """Twelve changes, one at a time."""

    kind: ClassVar[str] = "trickle"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    path: str = "x"

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        for n in range(cursor or 0, 12):
            yield Piece(position=n + 1, messages=[Message("t", {"_id": n}, Op.INSERT, 1)])
        idle = threading.Event()
        while not stopped():
            idle.wait(0.01)  # as a database's stream waits for changes: a busy source takes the processor from the sinks
            yield Piece(position=12)


def test_changes_that_trickle_in_become_few_files(log: Log, tmp_path: Path) -> None:
    out = tmp_path / "out"
    pipeline = piped(tmp_path, {"out": file(f"{out}/")}, source=Trickle(), flush="500ms")
    run = Run(pipeline, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never")), follow=True)
    thread = threading.Thread(target=run.go)
    thread.start()
    deadline = time.monotonic() + 60
    while (not run.progress() or run.progress()[0].position < 11) and time.monotonic() < deadline:
        thread.join(0.02)
    run.stop()
    thread.join()
    files = list(out.glob("part-*"))
    assert sum(one.read_bytes().count(b"\n") for one in files) == 12
    assert len(files) <= 3


def refuses(number: int) -> Callable[[Message], Message]:
    def call(message: Message) -> Message:
        if message.data["_id"] == number:
            raise ValueError("no")
        return message

    return call


def chained(folder: Path, source: Any = None, **options: Any) -> Pipeline:
    """A sink that stands at message 3, one below it and one below that, and a sink of its own."""
    pipeline = piped(folder, {"own": sqlite(str(folder / "own.db"))}, source=source, **options)
    rows = Branch(pipeline).transform(python(refuses(3)))
    rows.save("above", file(str(folder / "above.jsonl"))).save("below", file(str(folder / "below.jsonl"))).save(
        "last", file(str(folder / "last.jsonl"))
    )
    return pipeline


def test_sinks_below_one_that_stands_keep_no_run_from_its_end(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":%d}' % n for n in range(10)], {})
    for _ in range(3):
        result = gone(log, tmp_path, chained(tmp_path))
        assert (result.state, [one.position for one in result.sinks]) == ("stopped", [9, 2, 2, 2])


def test_a_full_log_ends_a_run_whose_sinks_wait_for_one_that_stands(log: Log, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text("".join(f'{{"_id":{n},"x":"{"x" * 1000}"}}\n' for n in range(1000)))
    result = gone(log, tmp_path, chained(tmp_path, file(str(tmp_path / "in.jsonl")), max_log="100KiB"))
    assert (result.state, [one.position for one in result.sinks][1:]) == ("stopped", [2, 2, 2])


def test_a_sink_that_stands_keeps_nobody_from_reading(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":%d}' % n for n in range(10)], {})
    settings = Settings(data=tmp_path / "data", spark=SparkSettings(start="never"))
    run = Run(chained(tmp_path, Trickle()), log, settings, follow=True)
    thread = threading.Thread(target=run.go)
    thread.start()
    deadline = time.monotonic() + 60
    while (not run.progress() or run.progress()[0].position < 21) and time.monotonic() < deadline:
        thread.join(0.02)
    run.stop()
    thread.join()
    assert (run.progress()[0].position, run.progress()[1].position) == (21, 2)


def test_a_sink_that_is_slow_keeps_nobody_from_reading(log: Log, tmp_path: Path) -> None:
    """Its first batch takes until everything is read, and has come to the other sink."""
    entered, goes_on = threading.Event(), threading.Event()

    def slow(message: Message) -> Message:
        entered.set()
        assert goes_on.wait(60)
        return message

    pipeline = piped(tmp_path, {"own": sqlite(str(tmp_path / "own.db"))}, source=Trickle())
    Branch(pipeline).transform(python(slow)).save("slow", file(str(tmp_path / "slow.jsonl")))
    run = Run(pipeline, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never")), follow=True)
    meanwhile: list[int] = []

    def reached() -> bool:
        places = [one.position for one in run.progress()] or [-1, -1]
        if entered.is_set() and places[0] == 11 and not meanwhile:
            meanwhile.append(places[1])
            goes_on.set()
        return places[1] == 11

    until(run, reached)
    assert meanwhile == [-1]
    assert [one.position for one in run.progress()] == [11, 11]


def test_a_live_run_begins_a_sink_anew_that_it_has_given_up_once_an_operator_moves_it(log: Log, tmp_path: Path) -> None:
    target, settings = tmp_path / "o.jsonl", Settings(data=tmp_path / "data", spark=SparkSettings(start="never"))
    pipeline = piped(tmp_path, {"own": sqlite(str(tmp_path / "own.db"))}, source=Trickle())
    Branch(pipeline).save("lost", file(str(target))).save("below", file(str(tmp_path / "below.jsonl")))
    run = Run(pipeline, log, settings, follow=True)
    until(run, lambda: [one.position for one in run.progress()] == [11, 11, 11])
    target.unlink()
    operator, marked = PipelineOperations(log, "p"), threading.Event()

    def delivered() -> bool:
        if operator.state().sink("lost").failure is not None and not marked.is_set():
            marked.set()
            operator.mark("lost", -1, why="it was deleted")
        return marked.is_set() and target.exists() and target.read_bytes().count(b"\n") == 12

    until(Run(pipeline, log, settings, follow=True), delivered)
    assert target.read_bytes().count(b"\n") == 12
    state = operator.state()
    assert (state.sink("lost").position, state.sink("lost").failure) == (11, None)


def until(run: Run, reached: Callable[[], bool]) -> None:
    """Runs until something is so, then stops. Errors: as `Run.go`."""
    errors: list[Exception] = []

    def go() -> None:
        try:
            run.go()
        except Exception as error:
            errors.append(error)

    thread = threading.Thread(target=go)
    thread.start()
    deadline = time.monotonic() + 60
    while thread.is_alive() and not reached() and time.monotonic() < deadline:
        thread.join(0.02)
    run.stop()
    thread.join()
    if errors:
        raise errors[0]


def test_messages_that_are_gone_before_a_sink_has_taken_them_stop_it(log: Log, tmp_path: Path) -> None:
    """As after `log repair --cut`."""
    prepared(log, [b'{"_id":0}'], {"db": SinkState(position=3), "up": SinkState(position=39)})
    writer = log.writer(log_topic("p"), 0, 1, part=PART)
    for n in range(1, 40):
        writer.append([Record(b"t", b'{"_id":%d}' % n)])
        if n == 25:
            writer.roll()
    writer.compact(20)
    left = [one.offset or 0 for one in log.read(log_topic("p"), 0, 0, limit=100)]
    pipeline = piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db")), "up": sqlite(str(tmp_path / "up.db"))})
    with pytest.raises(Damaged, match=f"Messages 4 to {left[0] - 1} are gone") as lost:
        gone(log, tmp_path, pipeline)
    assert f"offset p mark db {left[0] - 1} " in lost.value.hint
    operations = PipelineOperations(log, "p")
    state = operations.state()
    assert (state.sink("db").position, state.sink("db").stopped, state.sink("up").stopped) == (3, True, False)
    operations.mark("db", left[0] - 1, why="they are gone")
    assert gone(log, tmp_path, pipeline).state == "done"
    assert rows(tmp_path / "o.db", "select _id from t order by 1") == [(n,) for n in left]


def test_another_size_of_segments_keeps_no_pipeline_from_running(log: Log, tmp_path: Path) -> None:
    for size, kept in (("64KiB", 64 << 10), ("128KiB", 64 << 10)):
        assert gone(log, tmp_path, piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))}, segment=size)).state == "done"
        assert log.topic(log_topic("p")).settings.segment == kept


def test_what_lies_before_lost_messages_is_delivered_first(log: Log, tmp_path: Path) -> None:
    prepared(log, [b'{"_id":0}'], {"db": SinkState()})
    writer = log.writer(log_topic("p"), 0, 1, part=PART)
    for key, numbers in ((b"t", range(1, 20)), (b"u", range(20, 25)), (b"t", range(25, 40))):
        for n in numbers:
            writer.append([Record(key, b'{"_id":%d}' % n)])
        writer.roll()
    writer.compact(25)  # of t the last before 25 stays, and the last of u
    left = [one.offset or 0 for one in log.read(log_topic("p"), 0, 0, limit=100)]
    assert left == [19, 24, *range(25, 40)]
    control = Control(log, "p", ManualClock())
    control.change(lambda state: [("sink/db", SinkState(position=18)), state.counted_apart("db", (0, 19))])
    with pytest.raises(Damaged, match="Messages 20 to 23 are gone"):
        gone(log, tmp_path, piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))}))
    assert rows(tmp_path / "o.db", "select _id from t") == [(19,)]
    assert PipelineOperations(log, "p").state().sink("db").position == 19


@pytest.mark.parametrize(("spark", "most"), [(False, 0.0), (True, 0.2)])
def test_after_the_grace_a_stop_waits_for_all_sinks_together_and_only_for_spark(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, spark: bool, most: float
) -> None:
    prepared(log, [b'{"_id":1}'], {})
    waited: list[float] = []
    joined, freed = threading.Thread.join, threading.Event()

    def join(thread: threading.Thread, timeout: float | None = None) -> None:
        if timeout is not None and thread.name.startswith("headwater p sink"):
            waited.append(timeout)
        joined(thread, timeout)

    monkeypatch.setattr(threading.Thread, "join", join)
    monkeypatch.setattr(run, "_CANCELLING", 0.2)
    monkeypatch.setattr(LazySpark, "started", spark)
    here = threading.Barrier(3, action=lambda: ran.stop())

    def stuck(message: Message) -> Message:
        here.wait(60)
        freed.wait(60)
        return message

    sinks = {name: sqlite(str(tmp_path / f"{name}.db")) for name in ("a", "b", "c")}
    pipeline = piped(tmp_path, sinks, transforms=[python(stuck)], stop_grace="1ms")
    ran = Run(pipeline, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never")))
    try:
        assert ran.go().asked
    finally:
        freed.set()
    assert len(waited) == 3
    assert waited[0] <= most
    assert waited[1:] == [0.0, 0.0]  # nothing is left of it


def test_a_reader_that_meets_the_claim_of_a_newer_run_says_so(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    (tmp_path / "in.jsonl").write_text('{"_id":1}\n')
    pipeline = Pipeline("p")
    pipeline.source("in", file(str(tmp_path / "in.jsonl"))).save("out", file(str(tmp_path / "o.jsonl")))
    read = run.SourceReader.run

    def overtaken(reader: run.SourceReader) -> None:
        log.claim(log_topic("p"), 0, part=PART)
        read(reader)

    monkeypatch.setattr(run.SourceReader, "run", overtaken)
    with pytest.raises(Fenced, match="A newer run of p has begun"):
        gone(log, tmp_path, pipeline)
