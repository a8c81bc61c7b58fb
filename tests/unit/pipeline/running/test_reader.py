"""Reading a source: rounds, failures, many slices, what is too long."""

from __future__ import annotations

import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any, ClassVar

import msgspec
import pytest
from ground import gone, piped, prepared, rows

from headwater.core.errors import Differs, HeadwaterError, Unreachable
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log, Record, TopicSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode
from headwater.pipeline.adaptor import About
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.message import Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.control import Control, log_topic, offsets_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import ReaderState
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.running import reader as reading
from headwater.pipeline.running.context import Activity, LoopState, RunContext
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.events import RunEvent
from headwater.pipeline.running.reader import SourceReader
from headwater.pipeline.running.run import Run
from headwater.pipeline.source_adaptor import CanCopy, CopyPlan, Piece, Slice
from headwater.pipeline.source_progress import CopySize, SourceProgress
from headwater.testing.clock import ManualClock


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


class Stream(CanCopy, frozen=True, kw_only=True):
    """A source of one slice that can be read once only, like standard input."""

    kind: ClassVar[str] = "stream"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    opened: ClassVar[list[Any]] = []
    path: str = "x"

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        return CopyPlan(identity={}, slices=(Slice("in", {}),))

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        self.opened.append(position)
        for n in range(6):
            yield Piece(position=n, values=[b'{"_id":%d,"x":"%s"}' % (n, b"x" * (4 << 20))])


def test_what_cannot_be_entered_in_its_middle_is_opened_once(log: Log, tmp_path: Path) -> None:
    Stream.opened.clear()
    result = gone(log, tmp_path, piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}, source=Stream()))
    assert result.read == 6
    assert Stream.opened == [None]


def test_a_thousand_files_cost_no_thousand_plans(log: Log, tmp_path: Path) -> None:
    (tmp_path / "in").mkdir()
    for n in range(300):
        (tmp_path / "in" / f"{n:03}.jsonl").write_text(f'{{"_id":{n}}}\n')
    source, sinks = file(f"{tmp_path}/in/"), {"db": sqlite(str(tmp_path / "o.db"), table="t")}
    assert gone(log, tmp_path, piped(tmp_path, sinks, source=source)).read == 300
    assert rows(tmp_path / "o.db", "select count(*) from t") == [(300,)]
    stored = sum(len(one.value or b"") for one in log.read(offsets_topic("p"), 0, 0, limit=100_000))
    assert stored < 150_000
    again = Control(log, "p", ManualClock()).state.reader
    assert again is not None
    assert again.finished == ((0, 300),)
    assert again.positions == {}


class Hurried(ManualClock):
    """Whoever waits finds the time gone by."""

    def wait(self, event: threading.Event, seconds: float) -> bool:
        self.advance(seconds)
        return event.is_set()


class Silent(CanCopy, frozen=True, kw_only=True):
    """A source that takes `pause` seconds to fail each time it is read, `times` times; it gives a document before that, or nothing."""

    kind: ClassVar[str] = "silent"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    clock: ClassVar[ManualClock]
    path: str = "x"
    pause: float
    times: int
    gives: bool

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        return CopyPlan(identity={}, slices=(Slice("t", {}),))

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        self.clock.advance(self.pause)
        number = (position or 0) + 1
        if self.gives:
            yield Piece(position=number, values=[b'{"_id":%d}' % number])
        if number < self.times:
            raise Unreachable("gone")


def read_patiently(log: Log, folder: Path, source: Silent) -> SourceReader:
    Silent.clock = Hurried()
    pipeline = piped(folder, {"out": file(str(folder / "o.jsonl"))}, source=source)
    log.create_topic(log_topic("p"), part=PART)
    writer = log.claim(log_topic("p"), 0, part=PART)
    context = RunContext(
        control=Control.create(log, "p", Silent.clock),
        engine=Engine(log, SparkSettings(start="never"), stopping=threading.Event()),
        epoch=writer.epoch,
        options=pipeline.options,
        clock=Silent.clock,
        stopping=threading.Event(),
    )
    told: list[HeadwaterError] = []
    reader = SourceReader(pipeline, context, writer, lag=lambda: 0, on_failure=told.append)
    reader.run()
    assert [one.message for one in told] == ["gone"]
    return reader


def test_a_source_that_gave_something_since_it_failed_is_waited_for_anew(log: Log, tmp_path: Path) -> None:
    reader = read_patiently(log, tmp_path, Silent(pause=250.0, times=10, gives=True))
    assert log.bounds(log_topic("p"), 0).end == 11  # and the mark of a complete copy
    assert reader.state == LoopState(Activity.DONE)


def test_a_source_that_gives_nothing_for_five_minutes_is_given_up(log: Log, tmp_path: Path) -> None:
    with pytest.raises(Unreachable):
        read_patiently(log, tmp_path, Silent(pause=100.0, times=10, gives=False))


class Falling(CanCopy, frozen=True, kw_only=True):
    """A source that falls silent before its second piece, twice."""

    kind: ClassVar[str] = "falling"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    left: ClassVar[list[int]] = []
    path: str = "x"

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        return CopyPlan(identity={}, slices=(Slice("in", {}),))

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        if position is None:
            yield Piece(position=1, values=[b'{"_id":1}'])
        if Falling.left:
            Falling.left.pop()
            raise Unreachable("h:1 does not answer.")
        yield Piece(position=2, values=[b'{"_id":2}'])


def test_a_source_that_is_waited_for_is_told_once_and_seen_until_it_gives_something(log: Log, tmp_path: Path) -> None:
    events: list[RunEvent] = []
    phases: list[str] = []

    class Watching(Hurried):
        def wait(self, event: threading.Event, seconds: float) -> bool:
            phases.append(str(made.phase))
            event.wait(0.001)  # others wait here, too: without a pause they would let minutes go by while the reader is not running
            return super().wait(event, min(seconds, 0.01))

    Falling.left[:] = [1, 2]
    pipeline = piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}, source=Falling())
    made = Run(
        pipeline, log, Settings(data=tmp_path / "data", spark=SparkSettings(start="never")), clock=Watching(), listeners=[events.append]
    )
    assert made.go().state == "done"
    assert "unreachable: h:1 does not answer." in phases
    assert made.phase == LoopState(Activity.DONE)
    [one] = [event for event in events if event.kind == "error"]
    assert one.path == "s"
    assert one.details == {"error": "unreachable", "message": "h:1 does not answer."}
    assert (tmp_path / "o.jsonl").read_text() == '{"_id":1}\n{"_id":2}\n'


def test_operators_see_how_far_reading_is(log: Log, tmp_path: Path) -> None:
    (tmp_path / "in.jsonl").write_text('{"_id":1}\n')
    gone(log, tmp_path, piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}, source=file(str(tmp_path / "in.jsonl"))))
    reader = PipelineOperations(log, "p").state().reader
    assert reader is not None
    assert reader.copied


class Halting(CanCopy, frozen=True, kw_only=True):
    """Two slices of four documents. The copy ends with an error before the piece that is told, if one is."""

    kind: ClassVar[str] = "halting"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    before: ClassVar[tuple[int, int] | None] = None
    path: str = "x"
    size: CopySize | None = None

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        parts = tuple(Slice("in", {"number": n}, 4 if self.size is not None and not self.size.estimate else None) for n in range(2))
        return CopyPlan(identity={}, slices=parts, size=self.size)

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        for n in range(position or 0, 4):
            if (part.spec["number"], n) == Halting.before:
                raise Differs("It is another one.")
            yield Piece(position=n + 1, values=[b'{"_id":"%d-%d"}' % (part.spec["number"], n)])


@pytest.fixture
def short_rounds(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_SHARE", 1)  # a piece each


def read_so_far(log: Log) -> SourceProgress | None:
    """As `pipeline status` shows it."""
    return PipelineOperations(log, "p").status().progress


@pytest.mark.usefixtures("short_rounds")
@pytest.mark.parametrize("estimate", [False, True])
@pytest.mark.parametrize(("before", "read"), [((0, 0), 0), ((0, 1), 1), ((0, 3), 3), ((1, 0), 4), ((1, 2), 6)])
def test_what_was_read_before_counts_when_a_copy_goes_on(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, before: tuple[int, int], read: int, estimate: bool
) -> None:
    size = CopySize(total=8, unit="documents", estimate=estimate)
    pipeline = piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}, source=Halting(size=size))
    monkeypatch.setattr(Halting, "before", before)
    with pytest.raises(Differs):
        gone(log, tmp_path, pipeline)
    assert read_so_far(log) == SourceProgress.of(size, read)
    monkeypatch.setattr(Halting, "before", None)
    assert gone(log, tmp_path, pipeline).read == 8 - read
    assert read_so_far(log) == SourceProgress.of(size, 8, copied=True)


@pytest.mark.usefixtures("short_rounds")
def test_what_a_killed_run_did_not_come_to_note_is_counted_by_the_log(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    size = CopySize(total=8, unit="documents")
    pipeline = piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}, source=Halting(size=size))
    monkeypatch.setattr(Halting, "before", (1, 2))
    with monkeypatch.context() as patched, pytest.raises(Differs):
        patched.setattr(SourceReader, "_store", once(SourceReader._store))  # the plan is noted, and nothing behind it
        gone(log, tmp_path, pipeline)
    assert read_so_far(log) == SourceProgress.of(size, 0)
    monkeypatch.setattr(Halting, "before", (1, 3))
    with pytest.raises(Differs):
        gone(log, tmp_path, pipeline)
    assert read_so_far(log) == SourceProgress.of(size, 7)


def once(store: Callable[..., ReaderState]) -> Callable[..., ReaderState]:
    """A `_store` that writes the plan alone, as when the process is killed before the rest."""

    def stored(self: SourceReader, state: ReaderState, *, whole: bool = False, **options: Any) -> ReaderState:
        return store(self, state, whole=True) if whole else state

    return stored


def test_a_source_read_anew_is_counted_anew(log: Log, tmp_path: Path) -> None:
    size = CopySize(total=8, unit="documents")
    pipeline = piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}, source=Halting(size=size))
    for again in (False, True):
        assert gone(log, tmp_path, pipeline, again=again).read == 8
        assert read_so_far(log) == SourceProgress.of(size, 8)


def test_a_size_that_is_not_known_is_not_told(log: Log, tmp_path: Path) -> None:
    events: list[RunEvent] = []
    gone(log, tmp_path, piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}, source=Halting()), listeners=[events.append])
    assert read_so_far(log) is None
    assert not [one for one in events if "progress" in one.details]


def test_the_source_s_metrics_tell_how_much_of_it_is_read(log: Log, tmp_path: Path) -> None:
    events: list[RunEvent] = []
    (tmp_path / "in.jsonl").write_text('{"_id":1}\n\n')  # the empty line at its end is read, too
    pipeline = piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}, source=file(str(tmp_path / "in.jsonl")))
    gone(log, tmp_path, pipeline, listeners=[events.append])
    last = [one for one in events if one.kind == "metrics" and one.path == "s"][-1]
    assert msgspec.to_builtins(last.details)["progress"] == {"total": 11, "unit": "bytes", "estimate": False, "read": 11, "percent": 100}


class Short(CanCopy, frozen=True, kw_only=True):
    """Two namespaces: one of one piece, one of three."""

    kind: ClassVar[str] = "short"
    about: ClassVar[About] = About(summary="", namespace="", sample="")
    path: str = "x"

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        return CopyPlan(identity={}, slices=(Slice("a", {"pieces": 1}), Slice("b", {"pieces": 3})))

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        for n in range(position or 0, part.spec["pieces"]):
            yield Piece(position=n + 1, values=[b'{"_id":%d}' % n])


def test_a_namespace_is_marked_complete_when_its_own_copy_ends(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(reading, "_SHARE", 1)
    pipeline = piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"))}, source=Short())
    assert gone(log, tmp_path, pipeline).state == "done"
    found = [((one.key or b"").decode(), one.mode == Mode.COMPLETE) for one in log.read(log_topic("p"), 0, 0)]
    assert found == [("a", False), ("b", False), ("a", True), ("b", False), ("b", False), ("b", True)]
    assert rows(tmp_path / "o.db", "select count(*) from b") == [(3,)]


def test_the_log_stays_within_its_limit_but_for_a_piece(log: Log, tmp_path: Path) -> None:
    line = f'{{"_id":1,"x":"{"x" * 1000}"}}\n'
    (tmp_path / "in.jsonl").write_text(line * 6000)
    pipeline = piped(tmp_path, {"out": file(str(tmp_path / "o.jsonl"))}, source=file(str(tmp_path / "in.jsonl")), max_log="1MiB")
    sizes: list[int] = []

    def lag() -> int:
        sizes.append(log.bounds(log_topic("p"), 0).end * len(line))
        if sizes[-1] >= 1 << 20:
            stopping.set()
        return sizes[-1]

    stopping = threading.Event()
    control = Control.create(log, "p", ManualClock())
    log.create_topic(log_topic("p"), part=PART)
    context = RunContext(
        control=control,
        engine=Engine(log, SparkSettings(start="never"), stopping=stopping),
        epoch=1,
        options=pipeline.options,
        clock=ManualClock(),
        stopping=stopping,
    )
    SourceReader(pipeline, context, log.claim(log_topic("p"), 0, part=PART), lag=lag).run()
    assert 1 << 20 <= sizes[-1] <= (1 << 20) + (1 << 17) + len(line)


def test_a_log_that_was_created_again_is_not_gone_on_with_however_long_it_is(log: Log, tmp_path: Path) -> None:
    """Each run's claim may be a record: refused runs alone make a new log as long as the old one was."""
    pipeline = piped(tmp_path, {"out": file("stdout://")})
    assert gone(log, tmp_path, pipeline).state == "done"
    log.delete_topic(log_topic("p"), part=PART)
    log.create_topic(log_topic("p"), settings=TopicSettings(), part=PART)
    log.claim(log_topic("p"), 0, part=PART).append([Record(b"t", b"{}", op=Op.NOOP)] * 9)
    with pytest.raises(Differs, match="the log is another one"):
        gone(log, tmp_path, pipeline)
    assert gone(log, tmp_path, pipeline, again=True).state == "done"
    assert gone(log, tmp_path, pipeline).state == "done"


def test_a_log_that_is_older_than_what_was_read_is_not_gone_on_with(log: Log, tmp_path: Path) -> None:
    """What lies between would be missing for ever: the source goes on from where it was read to."""
    control = prepared(log, [b'{"_id":1}'] * 3, {})
    reader = control.state.reader
    assert reader is not None
    control.change(lambda state: [("reader", msgspec.structs.replace(reader, upto=9))])
    pipeline = piped(tmp_path, {"out": sqlite(str(tmp_path / "o.db"))})
    with pytest.raises(Differs, match=r"up to message 8, and the log ends before message 3\."):
        gone(log, tmp_path, pipeline)
    assert gone(log, tmp_path, pipeline, again=True).state == "done"


@pytest.mark.parametrize(("slices", "beside"), [(0, True), (1, False), (4, True)])
def test_one_slice_keeps_the_order_of_several_files(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, slices: int, beside: bool
) -> None:
    """Each file is a slice: read side by side, an older file's documents could come behind a newer one's."""
    pipeline = piped(tmp_path, {"out": file("stdout://")}, slices=slices)
    log.create_topic(log_topic("p"), part=PART)
    context = RunContext(
        control=Control.create(log, "p", ManualClock()),
        engine=Engine(log, SparkSettings(), stopping=threading.Event()),
        epoch=1,
        options=pipeline.options,
        clock=ManualClock(),
        stopping=threading.Event(),
    )
    monkeypatch.setattr(type(context.engine.spark), "ready", lambda spark: True)
    reader = SourceReader(pipeline, context, log.claim(log_topic("p"), 0, part=PART), lag=lambda: 0)
    assert reader.reads_side_by_side(3) is beside
