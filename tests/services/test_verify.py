"""Comparing real sinks with the log where documents have no id, or another one than the sink goes by."""

from __future__ import annotations

from collections.abc import Iterator
from pathlib import Path

import pytest
from mongodb_ground import a_database, at
from opensearch_ground import opensearch_at, own_prefixes
from sql_ground import SERVERS, Ground, a_ground

from headwater.core.clock import SystemClock
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log, Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import RunInfo, SinkState
from headwater.pipeline.operating.answers import Verified
from headwater.pipeline.operating.manual_delivery import ManualDelivery
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.verification import compare
from headwater.pipeline.sink_adaptor import CanWrite


@pytest.fixture(params=SERVERS)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with a_ground(request) as made:
        yield made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as opened:
        yield opened


class Delivered:
    """A sink that has all documents of a log."""

    def __init__(self, log: Log, sink: CanWrite, *documents: bytes) -> None:
        self.pipeline = Pipeline("p")
        self.pipeline.source("in", file("in.jsonl")).save("s", sink)
        log.create_topic(log_topic("p"), part=PART)
        writer = log.claim(log_topic("p"), 0, part=PART)
        writer.append([Record(b"t", one, mode=1) for one in documents])
        run = RunInfo(epoch=writer.epoch, id="r", began=0, state="stopped")
        Control.create(log, "p", SystemClock()).change(lambda state: [("run", run), ("sink/s", SinkState())])
        self.operator = PipelineOperations(log, "p")
        settings = Settings(spark=SparkSettings(start="never"))
        assert ManualDelivery(self.operator, self.pipeline, "s", settings).deliver_next(len(documents)) == len(documents)

    def verified(self) -> Verified:
        return compare(self.operator, self.pipeline, "s")


def counts(found: Verified) -> tuple[int, int, int, int]:
    return found.expected, found.found, found.missing, found.extra


def test_rows_of_a_table_without_a_key_are_counted(log: Log, ground: Ground) -> None:
    ground.run("CREATE TABLE t (v bigint)")
    delivered = Delivered(log, ground.sink(), b'{"v":1}', b'{"v":2}', b'{"v":2}')
    assert counts(delivered.verified()) == (3, 3, 0, 0)
    ground.run("DELETE FROM t WHERE v = 1")
    found = delivered.verified()
    assert (counts(found), found.equal, found.first) == ((3, 2, 1, 0), False, '{"v":1}')


def test_the_key_of_a_table_tells_documents_apart_that_have_no_id(log: Log, ground: Ground) -> None:
    ground.run("CREATE TABLE t (k bigint PRIMARY KEY, v bigint)")
    delivered = Delivered(log, ground.sink(), b'{"k":1,"v":1}', b'{"k":2,"v":1}', b'{"k":1,"v":2}')
    assert counts(delivered.verified()) == (2, 2, 0, 0)


def test_documents_of_mongodb_have_the_ids_that_the_sink_has_made(log: Log, mongodb: str) -> None:
    with a_database(mongodb) as database:
        sink = at(mongodb, database.name)
        delivered = Delivered(log, sink, b'{"v":1}', b'{"v":1}', b'{"_id":7,"v":1}', b'{"_id":7,"v":2}')
        assert counts(delivered.verified()) == (3, 3, 0, 0)
        database["t"].delete_one({"v": 1})
        found = delivered.verified()
        assert counts(found) == (3, 2, 1, 0)
        assert found.first.startswith('{"_id":"p#')


def test_ids_whose_fields_are_in_another_order_are_different_documents_of_mongodb(log: Log, mongodb: str) -> None:
    with a_database(mongodb) as database:
        delivered = Delivered(log, at(mongodb, database.name), b'{"_id":{"a":1,"b":2},"v":1}', b'{"_id":{"b":2,"a":1},"v":2}')
        assert counts(delivered.verified()) == (2, 2, 0, 0)


def test_documents_of_opensearch_have_the_ids_that_the_sink_has_made(log: Log, opensearch: str) -> None:
    with own_prefixes(opensearch) as prefixes:
        sink = opensearch_at(opensearch, index=f"{next(prefixes)}-{{namespace}}")
        delivered = Delivered(log, sink, b'{"v":1}', b'{"_id":null,"v":1}', b'{"_id":7,"v":1}', b'{"_id":"7","v":2}')
        assert counts(delivered.verified()) == (3, 3, 0, 0)
