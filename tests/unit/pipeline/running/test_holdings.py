"""A target is compared with the log and the offset log: less, more, and another log's are refused, with what to type."""

from __future__ import annotations

import re
import shutil
import threading
from collections.abc import Callable, Iterator
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ground import gone, piped, prepared, rows

from headwater.core.clock import SystemClock
from headwater.core.errors import Conflict, Differs, Unreachable
from headwater.core.settings import Settings, SparkSettings
from headwater.core.units import Duration
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline import DeadLetter, Pipeline, python
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.claim import SinkClaim, this_process
from headwater.pipeline.definition import Options, Sink
from headwater.pipeline.message import Message
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import RunInfo, SinkState
from headwater.pipeline.operating.manual_delivery import ManualDelivery
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.verification import compare
from headwater.pipeline.running.context import RunContext
from headwater.pipeline.running.delivery_loop import SinkLoop
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.holdings import may_read
from headwater.pipeline.sink_adaptor import CanWrite
from headwater.testing.clock import ManualClock

Make = Callable[[Path], CanWrite]
COUNT = 20
DOCUMENTS = [b'{"_id":%d}' % n for n in range(COUNT)]
SINKS: dict[str, Make] = {
    "database": lambda folder: sqlite(str(folder / "o.db")),
    "file": lambda folder: file(str(folder / "o.jsonl")),
    "folder": lambda folder: file(f"{folder / 'o'}/"),
}


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        yield log


@pytest.fixture(params=SINKS)
def kind(request: pytest.FixtureRequest) -> str:
    return str(request.param)


def ids(folder: Path, kind: str) -> list[int]:
    if kind == "database":
        return [n for (n,) in rows(folder / "o.db", "select _id from t order by 1")]
    paths = [folder / "o.jsonl"] if kind == "file" else sorted((folder / "o").glob("part-*"))
    return sorted(int(n) for path in paths for n in re.findall(r'"_id":\s*(\d+)', path.read_text()))


def removed(folder: Path, kind: str) -> None:
    """As somebody does who wants to have room: the target goes, with the notes beside it."""
    for path in folder.glob("*o.*" if kind != "folder" else "o"):
        shutil.rmtree(path) if path.is_dir() else path.unlink()
    for path in folder.glob(".o.*"):
        shutil.rmtree(path)


def delivered(log: Log, folder: Path, kind: str) -> Pipeline:
    prepared(log, DOCUMENTS, {})
    pipeline = piped(folder, {"s": SINKS[kind](folder)})
    assert gone(log, folder, pipeline).state == "done"
    assert ids(folder, kind) == list(range(COUNT))
    return pipeline


def everything(folder: Path) -> dict[str, bytes]:
    found = {one for one in folder.rglob("*") if one.is_file() and "data" not in one.parts and not one.name.endswith(("-shm", "-wal"))}
    return {str(one.relative_to(folder)): one.read_bytes() for one in found}


def test_a_target_that_was_deleted_is_not_done_and_comes_again_when_an_operator_says_so(log: Log, tmp_path: Path, kind: str) -> None:
    pipeline = delivered(log, tmp_path, kind)
    removed(tmp_path, kind)
    before = everything(tmp_path)
    with pytest.raises(Differs, match=r"lacks messages that sink s has taken: 0-19, of 0-19. Nothing was written") as error:
        gone(log, tmp_path, pipeline)
    assert everything(tmp_path) == before
    for line in ("offset p mark s -1 --why", "replay p s 0..19 --why", "offset p mark s 19 --why"):
        assert line in error.value.hint
    failure = PipelineOperations(log, "p").state().sink("s").failure
    assert failure is not None
    assert (failure.error, failure.of_message) == ("differs", False)
    PipelineOperations(log, "p").mark("s", -1, why="it was deleted")
    assert gone(log, tmp_path, pipeline).state == "done"
    assert ids(tmp_path, kind) == list(range(COUNT))


def test_a_target_that_was_deleted_can_be_left_behind(log: Log, tmp_path: Path, kind: str) -> None:
    pipeline = delivered(log, tmp_path, kind)
    removed(tmp_path, kind)
    PipelineOperations(log, "p").mark("s", COUNT - 1, why="archived")
    writer = log.writer(log_topic("p"), 0, log.epoch(log_topic("p"), 0), part=PART)
    writer.append([Record(b"t", b'{"_id":%d}' % COUNT)])
    for _ in range(2):  # it stays so
        assert gone(log, tmp_path, pipeline).state == "done"
    assert ids(tmp_path, kind) == [COUNT]


@pytest.mark.parametrize("existing", ["append", "overwrite"])
@pytest.mark.parametrize("kind", ["file", "folder"])
def test_a_target_whose_notes_are_gone_is_not_said_to_lack_what_it_may_have(log: Log, tmp_path: Path, kind: str, existing: Any) -> None:
    """To deliver everything again beside what is there would double it; and to go on behind it must not delete it."""
    prepared(log, DOCUMENTS, {})
    name = str(tmp_path / "o.jsonl") if kind == "file" else f"{tmp_path / 'o'}/"
    pipeline = piped(tmp_path, {"s": file(name, existing=existing)})
    assert gone(log, tmp_path, pipeline).state == "done"
    shutil.rmtree(tmp_path / (".o.jsonl.headwater" if kind == "file" else "o/.headwater"))
    with pytest.raises(Differs, match="is not empty, and has no notes of sink s any more, which has taken 0-19") as error:
        gone(log, tmp_path, pipeline)
    assert "replay" not in error.value.hint
    go_on, anew = re.findall(r"offset p mark s (-?\d+) --why", error.value.hint)
    assert error.value.hint.index("Move what is there away") < error.value.hint.index(f"mark s {anew}")
    PipelineOperations(log, "p").mark("s", int(go_on), why="it is all there")
    log.writer(log_topic("p"), 0, log.epoch(log_topic("p"), 0), part=PART).append([Record(b"t", b'{"_id":%d}' % COUNT)])
    assert gone(log, tmp_path, pipeline).state == "done"
    paths = [tmp_path / "o.jsonl"] if kind == "file" else (tmp_path / "o").glob("*.jsonl")
    assert sorted(int(n) for path in paths for n in re.findall(r'"_id":\s*(\d+)', path.read_text())) == list(range(COUNT + 1))


def test_a_sink_that_was_forgotten_gets_everything(log: Log, tmp_path: Path, kind: str) -> None:
    pipeline = delivered(log, tmp_path, kind)
    removed(tmp_path, kind)
    operations = PipelineOperations(log, "p")
    operations.control.change(lambda state: [("run", RunInfo(epoch=1, id="r", began=1, state="done"))])  # one without the sink
    operations.delete("s", why="made anew")
    assert gone(log, tmp_path, pipeline).state == "done"
    assert ids(tmp_path, kind) == list(range(COUNT))


def test_a_target_from_an_older_copy_says_what_it_lacks_and_gets_only_that(log: Log, tmp_path: Path) -> None:
    pipeline = delivered(log, tmp_path, "folder")
    shutil.copytree(tmp_path / "o", tmp_path / "copy")
    writer = log.writer(log_topic("p"), 0, log.epoch(log_topic("p"), 0), part=PART)
    writer.append([Record(b"t", b'{"_id":%d}' % n) for n in range(COUNT, 30)])
    assert gone(log, tmp_path, pipeline).state == "done"
    shutil.rmtree(tmp_path / "o")
    (tmp_path / "copy").rename(tmp_path / "o")
    with pytest.raises(Differs, match="has taken: 20-29, of 0-29"):
        gone(log, tmp_path, pipeline)
    hands = ManualDelivery(PipelineOperations(log, "p"), pipeline, "s", Settings(spark=SparkSettings(start="never")))
    with pytest.raises(Differs, match="20-29"):
        hands.deliver_next()
    hands.send_again(20, 29, why="from an older copy")
    assert gone(log, tmp_path, pipeline).state == "done"
    sent = "".join(one.read_text() for one in (tmp_path / "o").glob("*.jsonl"))
    assert sorted(int(n) for n in re.findall(r'"_id":\s*(\d+)', sent)) == list(range(30))


def test_what_was_acknowledged_put_aside_and_dropped_by_a_filter_is_not_lacking(log: Log, tmp_path: Path, kind: str) -> None:
    prepared(log, DOCUMENTS, {"s": SinkState()})
    pipeline = Pipeline("p")
    (tmp_path / "empty.jsonl").touch()

    def some(message: Message) -> Message | None:
        if message.data["_id"] == 11:
            raise ValueError("no")
        return message if message.data["_id"] > 8 else None

    rows = pipeline.source("in", file(str(tmp_path / "empty.jsonl"))).transform(python(some))
    rows.save("s", SINKS[kind](tmp_path), on_error=DeadLetter(), batch=4)
    PipelineOperations(log, "p").ack("s", 14, why="not this one")
    for _ in range(2):
        assert gone(log, tmp_path, pipeline).state == "done"
    assert ids(tmp_path, kind) == [9, 10, 12, 13, 15, 16, 17, 18, 19]


def test_parts_that_held_nothing_are_told_from_parts_that_somebody_deleted(log: Log, tmp_path: Path) -> None:
    prepared(log, DOCUMENTS, {})
    pipeline = piped(tmp_path, {"s": SINKS["folder"](tmp_path)}, transforms=[python(lambda message: None)])
    for _ in range(2):
        assert gone(log, tmp_path, pipeline).state == "done"
    (tmp_path / "o" / ".headwater" / "empty.json").unlink()
    with pytest.raises(Differs, match="lacks messages"):
        gone(log, tmp_path, pipeline)


@pytest.mark.parametrize("with_offsets", [True, False], ids=["both logs older", "the offset log newer"])
def test_a_target_that_holds_more_than_the_log_is_not_passed_over(tmp_path: Path, kind: str, with_offsets: bool) -> None:
    pipeline = piped(tmp_path, {"s": SINKS[kind](tmp_path)})
    topic = log_topic("p")
    with EmbeddedLog(tmp_path / "data") as log:
        prepared(log, DOCUMENTS[:12], {})
    shutil.copytree(tmp_path / "data", tmp_path / "copy")
    with EmbeddedLog(tmp_path / "data") as log:
        log.writer(topic, 0, log.epoch(topic, 0), part=PART).append([Record(b"t", one) for one in DOCUMENTS[12:]])
        assert gone(log, tmp_path, pipeline).state == "done"
    if with_offsets:
        shutil.rmtree(tmp_path / "data")
        shutil.copytree(tmp_path / "copy", tmp_path / "data")
    else:
        found = next(path for path in (tmp_path / "data").rglob(topic) if path.is_dir())
        shutil.rmtree(found)
        shutil.copytree(tmp_path / "copy" / found.relative_to(tmp_path / "data"), found)
    before = everything(tmp_path)
    with EmbeddedLog(tmp_path / "data") as log:
        assert log.bounds(topic, 0).end == 12
        with pytest.raises(Differs, match=r"ends before message 12\. The log is older than"):  # the reader says so, too
            gone(log, tmp_path, pipeline)
        failure = PipelineOperations(log, "p").state().sink("s").failure
        assert failure is not None
        assert "ends before message 12. The log is older than the sink" in failure.message
        assert everything(tmp_path) == before
        assert "offset p mark s 11 --why" in failure.hint
        PipelineOperations(log, "p").mark("s", 11, why="from a copy")
        log.writer(topic, 0, log.epoch(topic, 0), part=PART).append([Record(b"t", b'{"_id":%d}' % n) for n in range(30, 34)])
        assert gone(log, tmp_path, pipeline, again=not with_offsets).state == "done"
        assert set(ids(tmp_path, kind)) >= {30, 31, 32, 33}


class LoopGround:
    """A loop over a sink, with a clock that a test moves."""

    def __init__(self, log: Log, adaptor: CanWrite, folder: Path, *, takes_over: bool = False, reads: bool = False) -> None:
        self.clock = ManualClock()
        control = Control(log, "p", self.clock)
        stopping = threading.Event()
        context = RunContext(
            control=control,
            engine=Engine(log, SparkSettings(start="never"), stopping=stopping),
            epoch=log.epoch(log_topic("p"), 0),
            options=Options(flush=Duration(0)),
            clock=self.clock,
            stopping=stopping,
            begun=log.bounds(log_topic("p"), 0).end if reads else None,
        )
        self.context = context
        self.loop = SinkLoop(piped(folder, {"s": adaptor}).sinks["s"], context, takes_over=takes_over)


def lines(path: Path, numbers: range) -> None:
    path.write_text("".join(f'{{"_id":{n}}}\n' for n in numbers))


@pytest.mark.parametrize("with_offsets", [True, False], ids=["both logs older", "the offset log newer"])
def test_a_log_that_is_older_than_a_sink_is_not_read_into(tmp_path: Path, kind: str, with_offsets: bool) -> None:
    """Else the log grows past what the target holds, and the next run would take new messages for delivered ones."""
    source, data, topic = tmp_path / "in", tmp_path / "data", log_topic("p")
    source.mkdir()
    adaptor = sqlite(str(tmp_path / "o.db"), table="t") if kind == "database" else SINKS[kind](tmp_path)
    pipeline = piped(tmp_path, {"s": adaptor}, source=file(f"{source}/"))
    lines(source / "a.jsonl", range(5))
    with EmbeddedLog(data) as log:
        gone(log, tmp_path, pipeline)
    shutil.copytree(data, tmp_path / "copy")
    for name, numbers in (("b", range(5, 9)), ("c", range(9, 12))):
        lines(source / f"{name}.jsonl", numbers)
        with EmbeddedLog(data) as log:
            gone(log, tmp_path, pipeline)
    if with_offsets:
        shutil.rmtree(data)
        shutil.copytree(tmp_path / "copy", data)
    else:
        found = next(path for path in data.rglob(topic) if path.is_dir())
        shutil.rmtree(found)
        shutil.copytree(tmp_path / "copy" / found.relative_to(data), found)
    lines(source / "d.jsonl", range(20, 60))
    for again in (False, False, True, False):
        with EmbeddedLog(data) as log:
            end = log.bounds(topic, 0).end
            with pytest.raises(Differs, match="The log is older than"):
                gone(log, tmp_path, pipeline, again=again, file="p.py")
            assert log.bounds(topic, 0).end == end
    assert ids(tmp_path, kind) == list(range(12))
    with EmbeddedLog(data) as log:  # what the hint says cures it
        failure = PipelineOperations(log, "p").state().sink("s").failure
        assert failure is not None
        assert f"offset p mark s {end - 1} --why ...\n    headwater pipeline run p.py --again" in failure.hint
        PipelineOperations(log, "p").mark("s", end - 1, why="as it says")
        assert gone(log, tmp_path, pipeline, again=True).state == "done"
    assert set(ids(tmp_path, kind)) == {*range(12), *range(20, 60)}


def test_a_log_that_has_grown_before_the_sink_could_be_asked_is_still_older(
    tmp_path: Path, kind: str, monkeypatch: pytest.MonkeyPatch
) -> None:
    data, topic, adaptor = tmp_path / "data", log_topic("p"), SINKS[kind](tmp_path)
    pipeline = piped(tmp_path, {"s": adaptor})
    with EmbeddedLog(data) as log:
        prepared(log, DOCUMENTS[:12], {"s": SinkState()})
    shutil.copytree(data, tmp_path / "copy")
    with EmbeddedLog(data) as log:
        log.writer(topic, 0, log.epoch(topic, 0), part=PART).append([Record(b"t", one) for one in DOCUMENTS[12:]])
        gone(log, tmp_path, pipeline)
    shutil.rmtree(data)
    (tmp_path / "copy").rename(data)
    with EmbeddedLog(data) as log:
        ground = LoopGround(log, adaptor, tmp_path, reads=True)

        def away(*_: object) -> None:
            raise Unreachable("It is away.", hint="Wait.")

        with monkeypatch.context() as patch:
            patch.setattr(type(adaptor), "owner", away)
            with pytest.raises(Unreachable):
                ground.loop.begin()
        assert may_read([ground.loop.holdings], ground.context)
        log.writer(topic, 0, log.epoch(topic, 0), part=PART).append([Record(b"t", b'{"_id":%d}' % n) for n in range(30, 60)])
        with pytest.raises(Differs, match=r"ended before message 12 when the sink was last compared with it\. The log is older"):
            ground.loop.begin()
        for _ in range(2):  # later runs say it, too
            with pytest.raises(Differs, match="The log is older than the sink") as error:
                gone(log, tmp_path, pipeline)
        assert "offset p mark s 11 --why" in error.value.hint
        PipelineOperations(log, "p").mark("s", 11, why="as it says")
        for _ in range(2):
            assert gone(log, tmp_path, pipeline).state == "done"
        assert set(ids(tmp_path, kind)) >= {*range(12), *range(30, 60)}


def test_a_sink_that_the_pipeline_has_again_is_compared_with_the_log_as_it_was(log: Log, tmp_path: Path) -> None:
    pipeline = delivered(log, tmp_path, "folder")
    other = piped(tmp_path, {"t": sqlite(str(tmp_path / "t.db"))})
    gone(log, tmp_path, other)
    control = Control(log, "p", SystemClock())
    assert (control.state.sink("s").uncompared, control.state.sink("t").uncompared) == (COUNT, -1)
    assert gone(log, tmp_path, pipeline).state == "done"
    assert control.refresh().sink("s").uncompared == -1


def test_what_is_acknowledged_after_a_mark_is_not_lacking(log: Log, tmp_path: Path, kind: str) -> None:
    pipeline = delivered(log, tmp_path, kind)
    operator = PipelineOperations(log, "p")
    operator.mark("s", 4, why="again")
    operator.ack("s", 15, why="not this one")
    for _ in range(2):
        assert gone(log, tmp_path, pipeline).state == "done"
    assert set(ids(tmp_path, kind)) >= set(range(COUNT)) - {15}


def test_what_was_sent_again_into_a_folder_is_verified_and_does_not_stay_beside_what_comes_again(log: Log, tmp_path: Path) -> None:
    pipeline = delivered(log, tmp_path, "folder")
    operator = PipelineOperations(log, "p")
    ManualDelivery(operator, pipeline, "s", Settings(spark=SparkSettings(start="never"))).send_again(3, 4, why="once more")
    found = compare(operator, pipeline, "s")
    assert (found.found, found.extra, found.equal) == (COUNT + 2, 2, False)
    operator.mark("s", -1, why="all again")
    assert gone(log, tmp_path, pipeline).state == "done"
    found = compare(operator, pipeline, "s")
    assert (found.found, found.equal) == (COUNT, True)


def test_a_file_whose_notes_are_older_goes_on_behind_what_the_offset_log_knows(log: Log, tmp_path: Path) -> None:
    prepared(log, DOCUMENTS[:12], {})
    pipeline = piped(tmp_path, {"s": SINKS["file"](tmp_path)})
    gone(log, tmp_path, pipeline)
    notes = tmp_path / ".o.jsonl.headwater" / "notes.jsonl"
    before = notes.read_bytes()
    writer = log.writer(log_topic("p"), 0, log.epoch(log_topic("p"), 0), part=PART)
    writer.append([Record(b"t", one) for one in DOCUMENTS[12:]])
    gone(log, tmp_path, pipeline)
    notes.write_bytes(before)
    with pytest.raises(Differs, match="somebody has added to it") as error:
        gone(log, tmp_path, pipeline)
    assert "offset p mark s 19 --why" in error.value.hint
    PipelineOperations(log, "p").mark("s", 19, why="as it says")
    assert gone(log, tmp_path, pipeline).state == "done"
    assert ids(tmp_path, "file") == list(range(COUNT))


@pytest.mark.parametrize("in_place", [True, False])
def test_a_file_from_an_older_copy_says_where_it_ends(log: Log, tmp_path: Path, in_place: bool) -> None:
    """To go on behind the last message would leave a hole; to begin anew would double what the copy holds."""
    prepared(log, DOCUMENTS[:12], {})
    pipeline = piped(tmp_path, {"s": SINKS["file"](tmp_path)})
    gone(log, tmp_path, pipeline)
    copy = (tmp_path / "o.jsonl").read_bytes()
    log.writer(log_topic("p"), 0, log.epoch(log_topic("p"), 0), part=PART).append([Record(b"t", one) for one in DOCUMENTS[12:]])
    gone(log, tmp_path, pipeline)
    if not in_place:
        (tmp_path / "o.jsonl").rename(tmp_path / "newer")
    (tmp_path / "o.jsonl").write_bytes(copy)
    with pytest.raises(Differs) as error:
        gone(log, tmp_path, pipeline)
    assert re.findall(r"mark s (-?\d+) --why", error.value.hint) == ["19", "11", "-1"]
    assert "as long as it was behind message 11. An older copy goes on there:" in error.value.hint
    assert "Move it away first" in error.value.hint
    PipelineOperations(log, "p").mark("s", 11, why="as it says")
    assert gone(log, tmp_path, pipeline).state == "done"
    assert ids(tmp_path, "file") == list(range(COUNT))


def test_no_hint_passes_over_messages_that_the_sink_does_not_have(log: Log, tmp_path: Path) -> None:
    prepared(log, DOCUMENTS, {"s": SinkState(taken=((8, 10),))})
    with pytest.raises(Differs, match=r"has taken: 8-9\. Nothing was written") as error:
        gone(log, tmp_path, piped(tmp_path, {"s": SINKS["folder"](tmp_path)}))
    assert "mark s -1 --why" in error.value.hint
    assert "mark s 7" not in error.value.hint


def test_a_folder_that_is_emptied_under_a_run_is_noticed(log: Log, tmp_path: Path) -> None:
    delivered(log, tmp_path, "folder")
    ground = LoopGround(log, SINKS["folder"](tmp_path), tmp_path)
    ground.loop.begin()
    for path in (tmp_path / "o").glob("part-*"):
        path.unlink()
    ground.loop.holdings.look()  # not yet
    ground.clock.advance(61)
    with pytest.raises(Differs, match="lacks messages that sink s has taken: 0-19"):
        ground.loop.holdings.look()


def test_a_sink_that_was_moved_and_stepped_beside_the_run_lacks_nothing(log: Log, tmp_path: Path) -> None:
    pipeline = delivered(log, tmp_path, "folder")
    ground = LoopGround(log, SINKS["folder"](tmp_path), tmp_path)
    ground.loop.begin()  # a run that knows the state of this moment
    operator = PipelineOperations(log, "p")
    operator.mark("s", -1, why="again")
    ManualDelivery(operator, pipeline, "s", Settings(spark=SparkSettings(start="never"))).deliver_next(3)
    ground.clock.advance(61)
    ground.loop.holdings.look()
    assert ids(tmp_path, "folder") == [0, 1, 2]


def test_a_run_looks_before_it_says_that_all_is_done(log: Log, tmp_path: Path) -> None:
    prepared(log, DOCUMENTS, {})
    adaptor = SINKS["folder"](tmp_path)
    ground = LoopGround(log, adaptor, tmp_path)
    add = ground.loop.acks.add

    def emptied(start: int, end: int, last: dict[str, int]) -> None:
        add(start, end, last)
        for path in (tmp_path / "o").glob("part-*"):
            path.unlink()

    ground.loop.acks.add = emptied  # type: ignore[method-assign]
    with pytest.raises(Differs, match="lacks messages that sink s has taken: 0-19"):
        ground.loop.run()


def test_two_logs_do_not_share_a_target(log: Log, tmp_path: Path, kind: str) -> None:
    delivered(log, tmp_path, kind)
    (tmp_path / "other").mkdir()
    with EmbeddedLog(tmp_path / "other" / "data") as second:
        prepared(second, [b'{"_id":%d}' % n for n in range(100, 103)], {})
        pipeline = piped(tmp_path, {"s": SINKS[kind](tmp_path)})
        before = everything(tmp_path)
        with pytest.raises(Conflict, match="belongs to sink s of pipeline p#") as error:
            gone(second, tmp_path, pipeline, file="p.py")
        assert "headwater pipeline run p.py --take-over s" in error.value.hint
        assert str(tmp_path / "data") in error.value.message
        assert everything(tmp_path) == before
        assert gone(second, tmp_path, pipeline, take_over=["s"]).state == "done"
        held = ids(tmp_path, kind)
        assert held == ([100, 101, 102] if kind == "folder" else [*range(COUNT), 100, 101, 102])
        assert gone(second, tmp_path, pipeline).state == "done"  # it stays its own
    with pytest.raises(Conflict, match="belongs to sink s of pipeline p#"):
        gone(log, tmp_path, pipeline)


def test_a_living_run_of_another_log_is_refused_even_when_an_operator_asks(log: Log, tmp_path: Path, kind: str) -> None:
    prepared(log, DOCUMENTS, {})
    adaptor = SINKS[kind](tmp_path)
    ground = LoopGround(log, adaptor, tmp_path)
    now = ground.clock.now_ms()
    other = SinkClaim(pipeline="p#other", sink="s", epoch=3, process=this_process(), log="/other", beat=now)
    claim, owner = adaptor.claim, adaptor.owner
    claim(other)
    for asked in (False, True):
        ground = LoopGround(log, adaptor, tmp_path, takes_over=asked)
        with pytest.raises(Conflict, match=rf"A run on {this_process()} writes to .*whose log is at /other"):
            ground.loop.begin()
    assert owner("p#mine", "s") == msgspec.structs.replace(other, begun=kind == "database")
    ground.clock.advance(61)  # it has given no sign of life for a minute
    ground.loop.begin()
    mine = owner("p#mine", "s")
    assert mine is not None
    assert mine.pipeline == Control(log, "p", SystemClock()).identity()


def test_a_claim_of_a_process_that_has_ended_is_dead_at_once(log: Log, tmp_path: Path) -> None:
    prepared(log, DOCUMENTS, {})
    adaptor = SINKS["file"](tmp_path)
    ground = LoopGround(log, adaptor, tmp_path, takes_over=True)
    host = this_process().rpartition(":")[0]
    adaptor.claim(SinkClaim(pipeline="p#other", sink="s", process=f"{host}:{2**22 + 1}", beat=ground.clock.now_ms()))
    ground.loop.begin()


def test_a_chained_sink_does_not_get_what_its_parent_puts_aside(log: Log, tmp_path: Path) -> None:
    prepared(log, DOCUMENTS, {})
    pipeline = Pipeline("p")
    (tmp_path / "empty.jsonl").touch()

    def refuse(message: Message) -> Message:
        if message.data["_id"] in (3, 7):
            raise ValueError("no")
        return message

    above = pipeline.source("in", file(str(tmp_path / "empty.jsonl"))).transform(python(refuse))
    below = above.save("a", sqlite(str(tmp_path / "a.db"), table="t"), on_error=DeadLetter())
    below.save("b", file(str(tmp_path / "o.jsonl"))).save("c", sqlite(str(tmp_path / "c.db"), table="t"))
    # `b` and `c` come after the transform of `a`; one that takes everything shows what they are given.
    pipeline.sinks["b"] = _without_transforms(pipeline, "b")
    pipeline.sinks["c"] = _without_transforms(pipeline, "c")
    assert gone(log, tmp_path, pipeline).state == "done"
    wanted = [n for n in range(COUNT) if n not in (3, 7)]
    assert ids(tmp_path, "file") == wanted
    assert [n for (n,) in rows(tmp_path / "c.db", "select _id from t order by 1")] == wanted
    dead = PipelineOperations(log, "p").state().dead
    assert sorted(dead) == [(name, n) for name in "abc" for n in (3, 7)]
    assert dead[("c", 7)].message.startswith("Sink a, after which c comes, has put it aside")
    assert gone(log, tmp_path, pipeline).state == "done"


def _without_transforms(pipeline: Pipeline, name: str) -> Sink:
    return msgspec.structs.replace(pipeline.sinks[name], transforms=())
