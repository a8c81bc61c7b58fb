"""Targets on real servers that hold less than the sink has taken, or belong to another log: the run stops and says what to type."""

from __future__ import annotations

from collections.abc import Callable, Iterator
from pathlib import Path
from typing import NamedTuple

import mongodb_ground
import msgspec
import opensearch_ground
import pytest
from s3_ground import Store
from sql_ground import SERVERS, a_ground
from sql_ground import Ground as SqlGround
from tests.unit.pipeline.running.ground import gone, piped, prepared

from headwater.adaptors.mongodb.adaptor import MongoDB
from headwater.core.clock import SystemClock
from headwater.core.errors import Conflict, Differs, Fenced, NotFound
from headwater.core.ids import random_id
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline.claim import SinkClaim, this_process
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.verification import compare
from headwater.pipeline.sink_adaptor import CanWrite, Part

DOCUMENTS = [b'{"_id":%d}' % n for n in range(10)]
TOPIC = log_topic("p")


class Ground(NamedTuple):
    """A target, what it holds, and the loss of it."""

    sink: CanWrite
    ids: Callable[[], list[int]]
    lose: Callable[[], None]
    keeps: bool  # whether a take-over leaves the other log's documents where they are found


@pytest.fixture(params=[*SERVERS, "s3"])
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    if request.param == "s3":
        store = Store(request.getfixturevalue("s3"))
        sink = store.adaptor("out/")

        def lose() -> None:
            for key in store.keys("out/part-"):
                store.client.delete_object(Bucket=store.bucket, Key=key)

        yield Ground(sink, lambda: sorted(row["_id"] for row in sink.rows("t")), lose, False)
        return
    with a_ground(request) as made:
        made.run("CREATE TABLE t (_id int PRIMARY KEY)")
        yield Ground(
            made.sink(),
            lambda: [row[0] for row in made.all("SELECT _id FROM t ORDER BY 1")],
            # As a copy from before the first delivery has it.
            lambda: made.run("DELETE FROM t", "DROP TABLE headwater_committed", "DROP TABLE headwater_epoch", "DROP TABLE headwater_owner"),
            True,
        )


@pytest.fixture(params=SERVERS)
def made(request: pytest.FixtureRequest) -> Iterator[SqlGround]:
    with a_ground(request) as made:
        yield made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as log:
        prepared(log, DOCUMENTS, {})
        yield log


def test_what_a_target_has_lost_is_delivered_again_when_an_operator_says_so(log: Log, tmp_path: Path, ground: Ground) -> None:
    pipeline = piped(tmp_path, {"s": ground.sink})
    assert gone(log, tmp_path, pipeline).state == "done"
    assert ground.ids() == list(range(10))
    ground.lose()
    with pytest.raises(Differs, match=r"lacks messages that sink s has taken: 0-9, of 0-9\.") as error:
        gone(log, tmp_path, pipeline)
    assert "headwater pipeline offset p mark s -1 --why" in error.value.hint
    assert ground.ids() == []
    PipelineOperations(log, "p").mark("s", -1, why="it was lost")
    assert gone(log, tmp_path, pipeline).state == "done"
    assert ground.ids() == list(range(10))


def test_a_target_belongs_to_one_log_until_another_takes_it_over(log: Log, tmp_path: Path, ground: Ground) -> None:
    pipeline = piped(tmp_path, {"s": ground.sink})
    assert gone(log, tmp_path, pipeline).state == "done"
    with EmbeddedLog(tmp_path / "other") as other:
        prepared(other, [b'{"_id":%d}' % n for n in range(20, 23)], {})
        with pytest.raises(Conflict, match="belongs to sink s of pipeline p#"):
            gone(other, tmp_path, pipeline)
        assert ground.ids() == list(range(10))
        assert gone(other, tmp_path, pipeline, take_over=["s"]).state == "done"
        assert ground.ids() == [*(range(10) if ground.keeps else ()), 20, 21, 22]
    with pytest.raises(Conflict, match="belongs to sink s of pipeline p#"):
        gone(log, tmp_path, pipeline)
    # It comes back when it is asked to, and knows that nothing of its own is there any more.
    with pytest.raises(Differs, match="0-9, of 0-9"):
        gone(log, tmp_path, pipeline, take_over=["s"])
    PipelineOperations(log, "p").mark("s", -1, why="back again")
    assert gone(log, tmp_path, pipeline, take_over=["s"]).state == "done"
    assert set(ground.ids()) >= set(range(10))


def test_a_prefix_without_its_notes_is_not_said_to_lack_what_it_may_have(log: Log, tmp_path: Path, request: pytest.FixtureRequest) -> None:
    store = Store(request.getfixturevalue("s3"))
    pipeline = piped(tmp_path, {"s": store.adaptor("out/")})
    assert gone(log, tmp_path, pipeline).state == "done"
    (note,) = [key for key in store.keys("out/") if key.endswith("owner.json")]
    store.client.delete_object(Bucket=store.bucket, Key=note)
    before = store.keys("out/")
    with pytest.raises(Differs, match="is not empty, and has no notes of sink s any more, which has taken 0-9") as error:
        gone(log, tmp_path, pipeline)
    assert store.keys("out/") == before
    assert "replay" not in error.value.hint


def test_a_table_that_somebody_drops_is_not_made_anew_with_what_comes_next(log: Log, tmp_path: Path, made: SqlGround) -> None:
    pipeline, operations = piped(tmp_path, {"s": made.sink(create=True)}), PipelineOperations(log, "p")
    assert gone(log, tmp_path, pipeline).state == "done"
    made.run("DROP TABLE t")
    log.writer(TOPIC, 0, log.epoch(TOPIC, 0), part=PART).append([Record(b"t", b'{"_id":10}')])
    for _ in range(2):
        with pytest.raises(Differs, match=r"has no table \S*t any more, .* sink s .*Nothing was written") as error:
            gone(log, tmp_path, pipeline)
        assert not made.sink().columns_of(made.sink().place("t"))
    assert "headwater pipeline offset p mark s -1 --why" in error.value.hint
    assert "headwater pipeline offset p mark s 9 --why" in error.value.hint
    assert not compare(operations, pipeline, "s").equal
    operations.mark("s", -1, why="it was dropped")
    assert gone(log, tmp_path, pipeline).state == "done"
    assert made.all("SELECT count(*) FROM t") == [(11,)]
    assert compare(operations, pipeline, "s").equal


def test_a_table_that_somebody_drops_can_be_left_behind(log: Log, tmp_path: Path, made: SqlGround) -> None:
    pipeline = piped(tmp_path, {"s": made.sink(create=True)})
    assert gone(log, tmp_path, pipeline).state == "done"
    made.run("DROP TABLE t")
    PipelineOperations(log, "p").mark("s", 9, why="archived")
    assert gone(log, tmp_path, pipeline).state == "done"
    log.writer(TOPIC, 0, log.epoch(TOPIC, 0), part=PART).append([Record(b"t", b'{"_id":10}')])
    for _ in range(2):
        assert gone(log, tmp_path, pipeline).state == "done"
    assert made.all("SELECT _id FROM t") == [(10,)]


@pytest.fixture(params=["mongodb", "opensearch"])
def positionless(request: pytest.FixtureRequest) -> Iterator[CanWrite]:
    """A sink whose target keeps no positions."""
    uri = request.getfixturevalue(request.param)
    if request.param == "mongodb":
        with mongodb_ground.a_database(uri) as database:
            yield mongodb_ground.at(uri, database.name)
        return
    with opensearch_ground.own_prefixes(uri) as prefixes:
        yield opensearch_ground.opensearch_at(uri, index=f"{next(prefixes)}-{{namespace}}")


def test_a_target_without_positions_belongs_to_one_log_too(log: Log, tmp_path: Path, positionless: CanWrite) -> None:
    name = f"s{random_id()}"  # notes of one cluster stand side by side
    pipeline = piped(tmp_path, {name: positionless})
    assert gone(log, tmp_path, pipeline).state == "done"
    owner = positionless.owner(Control(log, "p", SystemClock()).identity(), name)
    assert owner is not None
    assert owner.beat == 0
    with EmbeddedLog(tmp_path / "other") as other:
        prepared(other, [b'{"_id":5,"n":"theirs"}'], {})
        with pytest.raises(Conflict, match=f"belongs to sink {name} of pipeline p#"):
            gone(other, tmp_path, pipeline)
        living = msgspec.structs.replace(owner, process=this_process(), beat=SystemClock().now_ms())
        assert positionless.claim(living)
        with pytest.raises(Conflict, match=r"A run on .* writes to"):
            gone(other, tmp_path, pipeline, take_over=[name])
        assert positionless.claim(owner)
        assert gone(other, tmp_path, pipeline, take_over=[name]).state == "done"
    with pytest.raises(Fenced, match="another log"):
        positionless.writer(Part(pipeline=owner.pipeline, sink=name, start=0, end=1, epoch=owner.epoch))
    with pytest.raises(Conflict, match="belongs to sink"):
        positionless.claim(owner)


def test_sinks_of_one_name_with_other_indices_of_one_cluster_are_other_targets(opensearch: str) -> None:
    theirs, ours = (SinkClaim(pipeline=f"p#{log}", sink=f"s{random_id()}", beat=SystemClock().now_ms()) for log in "ab")
    ours = msgspec.structs.replace(ours, sink=theirs.sink)
    with opensearch_ground.own_prefixes(opensearch) as prefixes:
        production, staging = (opensearch_ground.opensearch_at(opensearch, index=f"{next(prefixes)}-{{namespace}}") for _ in "ab")
        assert production.claim(theirs)
        assert staging.owner(ours.pipeline, ours.sink) is None
        assert staging.claim(ours)
        assert production.owner(theirs.pipeline, theirs.sink) == theirs
        with pytest.raises(Conflict, match="belongs to sink"):
            production.claim(ours)


def test_an_older_run_does_not_write_to_a_target_without_positions(positionless: CanWrite) -> None:
    mine = SinkClaim(pipeline="p#g", sink=f"s{random_id()}", epoch=2)
    part = Part(pipeline="p#g", sink=mine.sink, start=0, end=1, epoch=1)
    positionless.writer(part).close()  # nobody has claimed it: an operator may step first
    assert positionless.claim(mine)
    assert positionless.claim(mine)
    assert positionless.owner("p#other", mine.sink) == mine
    with pytest.raises(Fenced, match="Run 2 of p#g"):
        positionless.writer(part)
    with pytest.raises(Fenced, match="Run 2 of p#g"):
        positionless.claim(msgspec.structs.replace(mine, epoch=1))
    positionless.writer(msgspec.structs.replace(part, epoch=2)).close()
    if isinstance(positionless, MongoDB):
        with pytest.raises(NotFound, match="no collection"):  # its notes are no documents
            positionless.plan(Namespaces(), 1)
