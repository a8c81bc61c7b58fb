"""A table that a sink has made and written to is not made anew, with less in it, when somebody drops it."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from ground import gone, piped, prepared, rows
from test_holdings import LoopGround

from headwater.core.errors import Differs, Unavailable
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode, Record
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import sqlite
from headwater.pipeline.message import Op
from headwater.pipeline.offsets.control import log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.operating.manual_delivery import ManualDelivery
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.verification import compare
from headwater.pipeline.transforms import remap

TOPIC = log_topic("p")
DOCUMENTS = [b'{"_id":%d}' % n for n in range(5)]


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        prepared(log, DOCUMENTS, {})
        yield log


@pytest.fixture
def pipeline(tmp_path: Path) -> Pipeline:
    return piped(tmp_path, {"s": sqlite(str(tmp_path / "o.db"))})


def more(log: Log, *numbers: int, namespace: bytes = b"t") -> None:
    writer = log.writer(TOPIC, 0, log.epoch(TOPIC, 0), part=PART)
    writer.append([Record(namespace, b'{"_id":%d}' % n) for n in numbers])


def emptied(log: Log, namespace: bytes = b"t") -> None:
    writer = log.writer(TOPIC, 0, log.epoch(TOPIC, 0), part=PART)
    writer.append([Record(namespace, b'{"command":"truncate"}', mode=Mode.SYNC, op=Op.COMMAND)])


def ids(folder: Path, table: str = "t") -> list[int]:
    return [n for (n,) in rows(folder / "o.db", f"select _id from {table} order by 1")]


def tables(folder: Path) -> set[str]:
    return {name for (name,) in rows(folder / "o.db", "select name from sqlite_master where type = 'table' and name not like 'headwater%'")}


def test_a_table_that_somebody_drops_is_not_made_anew_with_what_comes_next(log: Log, tmp_path: Path, pipeline: Pipeline) -> None:
    operations = PipelineOperations(log, "p")
    assert gone(log, tmp_path, pipeline).state == "done"
    rows(tmp_path / "o.db", "drop table t")
    for number in (5, 6):
        more(log, number)
        with pytest.raises(Differs, match=r"has no table t any more, which sink s has written to\. Nothing was written\.") as error:
            gone(log, tmp_path, pipeline)
        assert not tables(tmp_path)
    assert "offset p mark s -1 --why" in error.value.hint
    assert "offset p mark s 4 --why" in error.value.hint
    assert not compare(operations, pipeline, "s").equal
    operations.mark("s", -1, why="it was dropped")
    assert gone(log, tmp_path, pipeline).state == "done"
    assert ids(tmp_path) == [0, 1, 2, 3, 4, 5, 6]
    assert compare(operations, pipeline, "s").equal


def test_without_a_new_message_it_is_noticed_too(log: Log, tmp_path: Path, pipeline: Pipeline) -> None:
    assert gone(log, tmp_path, pipeline).state == "done"
    rows(tmp_path / "o.db", "drop table t")
    with pytest.raises(Differs, match="has no table t any more"):
        gone(log, tmp_path, pipeline)


def test_an_operator_can_go_on_without_what_the_table_held(log: Log, tmp_path: Path, pipeline: Pipeline) -> None:
    assert gone(log, tmp_path, pipeline).state == "done"
    rows(tmp_path / "o.db", "drop table t")
    PipelineOperations(log, "p").mark("s", 4, why="archived")
    for number in (5, 6):
        more(log, number)
        assert gone(log, tmp_path, pipeline).state == "done"
    assert ids(tmp_path) == [5, 6]
    rows(tmp_path / "o.db", "drop table t")
    with pytest.raises(Differs, match="has no table t any more"):
        gone(log, tmp_path, pipeline)


def test_a_table_that_is_dropped_under_a_run_is_not_made_anew(log: Log, tmp_path: Path, pipeline: Pipeline) -> None:
    ground = LoopGround(log, sqlite(str(tmp_path / "o.db")), tmp_path)
    ground.loop.begin()
    assert ground.loop.step()
    assert ids(tmp_path) == [0, 1, 2, 3, 4]
    rows(tmp_path / "o.db", "drop table t")
    more(log, 5)
    with pytest.raises(Differs, match="has no table t any more"):
        for _ in range(3):
            ground.loop.step()
    assert not tables(tmp_path)


def test_a_message_that_is_sent_by_hand_does_not_make_it_anew(log: Log, tmp_path: Path, pipeline: Pipeline) -> None:
    assert gone(log, tmp_path, pipeline).state == "done"
    rows(tmp_path / "o.db", "drop table t")
    by_hand = ManualDelivery(PipelineOperations(log, "p"), pipeline, "s", Settings(data=tmp_path, spark=SparkSettings(start="never")))
    with pytest.raises(Unavailable, match="The table t is gone"):
        by_hand.send_again(0, 1, why="to see")
    assert not tables(tmp_path)
    assert by_hand.send_again(0, 4, why="all of it") is not None
    assert ids(tmp_path) == [0, 1, 2, 3, 4]
    assert gone(log, tmp_path, pipeline).state == "done"


def test_what_is_gone_with_its_notes_can_be_sent_again_by_hand(log: Log, tmp_path: Path, pipeline: Pipeline) -> None:
    assert gone(log, tmp_path, pipeline).state == "done"
    for one in tmp_path.glob("o.db*"):
        one.unlink()
    by_hand = ManualDelivery(PipelineOperations(log, "p"), pipeline, "s", Settings(data=tmp_path, spark=SparkSettings(start="never")))
    for first, last in ((0, 1), (2, 4)):
        by_hand.send_again(first, last, why="it was deleted")
    assert ids(tmp_path) == [0, 1, 2, 3, 4]
    assert gone(log, tmp_path, pipeline).state == "done"


def test_a_table_that_was_decided_and_got_nothing_is_not_missed(log: Log, tmp_path: Path) -> None:
    """Deletes alone make no table."""
    pipeline = piped(tmp_path, {"s": sqlite(str(tmp_path / "o.db"))})
    writer = log.writer(TOPIC, 0, log.epoch(TOPIC, 0), part=PART)
    writer.append([Record(b"u", b'{"_id":1}', mode=Mode.SYNC, op=Op.DELETE)])
    for _ in range(2):
        assert gone(log, tmp_path, pipeline).state == "done"
    assert tables(tmp_path) == {"t"}
    assert compare(PipelineOperations(log, "p"), pipeline, "s").equal


def test_a_table_that_the_pipeline_empties_is_still_there(log: Log, tmp_path: Path, pipeline: Pipeline) -> None:
    assert gone(log, tmp_path, pipeline).state == "done"
    emptied(log)
    for _ in range(2):
        assert gone(log, tmp_path, pipeline).state == "done"
    assert ids(tmp_path) == []


def test_a_table_of_another_name_by_the_definition_is_not_missed(log: Log, tmp_path: Path) -> None:
    assert gone(log, tmp_path, piped(tmp_path, {"s": sqlite(str(tmp_path / "o.db"), table="a")})).state == "done"
    rows(tmp_path / "o.db", "alter table a rename to b")
    more(log, 5)
    assert gone(log, tmp_path, piped(tmp_path, {"s": sqlite(str(tmp_path / "o.db"), table="b")})).state == "done"
    assert ids(tmp_path, "b") == [0, 1, 2, 3, 4, 5]


def test_a_table_under_another_name_by_remap_is_missed_under_that_name(log: Log, tmp_path: Path) -> None:
    pipeline = piped(tmp_path, {"s": sqlite(str(tmp_path / "o.db"))}, transforms=[remap({"t": "renamed"})])
    assert gone(log, tmp_path, pipeline).state == "done"
    rows(tmp_path / "o.db", "drop table renamed")
    with pytest.raises(Differs, match="has no table renamed any more"):
        gone(log, tmp_path, pipeline)


def test_what_has_taken_nothing_misses_nothing(log: Log, tmp_path: Path, pipeline: Pipeline) -> None:
    """Somebody may drop a table that refuses the first message, so that the sink makes a better one."""
    rows(tmp_path / "o.db", "create table t (_id int primary key, needed int not null)")
    gone(log, tmp_path, pipeline)
    assert PipelineOperations(log, "p").state().sink("s").position == -1
    rows(tmp_path / "o.db", "drop table t")
    PipelineOperations(log, "p").mark("s", -1, why="the table is better now")
    assert gone(log, tmp_path, pipeline).state == "done"
    assert ids(tmp_path) == [0, 1, 2, 3, 4]
