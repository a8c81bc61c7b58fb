"""Tables that sinks make in real databases: types that are decided once, wider ones in the open, and what is refused."""

from __future__ import annotations

import math
from collections.abc import Iterator
from decimal import Decimal
from pathlib import Path
from typing import Any

import msgspec
import pytest
from sql_ground import SERVERS, Ground, a_ground, insert, part

from headwater.adaptors.sql.adaptor import SqlAdaptor
from headwater.core.clock import SystemClock
from headwater.core.errors import Rejected
from headwater.core.settings import Settings, SparkSettings
from headwater.log import Log, Record, TopicSettings
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Pipeline
from headwater.pipeline.adaptors import file
from headwater.pipeline.columns import NeedsColumns
from headwater.pipeline.message import Message
from headwater.pipeline.offsets.column_decision import ColumnDecision, decided
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import Change, ReaderState
from headwater.pipeline.operating.operations import PipelineOperations
from headwater.pipeline.operating.verification import compare
from headwater.pipeline.running.run import Result, Run
from headwater.pipeline.sink_adaptor import Batch

TYPES = {
    "postgres": {"int": "bigint", "decimal": "numeric", "float": "double precision", "json": "jsonb"},
    "mysql": {"int": "bigint", "decimal": "decimal", "float": "double", "json": "longtext"},
}


@pytest.fixture(params=SERVERS)
def ground(request: pytest.FixtureRequest) -> Iterator[Ground]:
    with a_ground(request) as made:
        yield made


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as opened:
        yield opened


class Table:
    """A sink with create=True, which is given messages as a run gives them: with decided columns."""

    def __init__(self, ground: Ground, sample: list[Message]) -> None:
        self.sink: SqlAdaptor = ground.sink(create=True)
        rules = self.sink.column_rules()
        assert rules is not None
        self.rules = rules
        self.decision = decided([(self.sink.place(one.namespace), one) for one in sample], rules)
        self.sink.begin("p", "s", 1)

    def give(self, *messages: Message) -> None:
        start, end = messages[0].offset, messages[-1].offset + 1
        while True:
            writer = self.sink.writer(part(start, end, epoch=1, columns=self.decision.tables))
            try:
                writer.write(Batch(start=start, end=end, messages=messages))
                return
            except NeedsColumns as lacking:
                wider = self.decision.extended(lacking.needs, self.rules, at=0)
                assert wider != self.decision
                self.decision = wider
            finally:
                writer.close()


def test_a_float_is_no_integer_and_a_decimal_keeps_its_digits(ground: Ground) -> None:
    rows = [insert(0, id=1, f=1.0, d=Decimal("1.20"), n=1), insert(1, id=2, f=1.5, d=Decimal("0.10000000000000000001"), n=2)]
    table = Table(ground, rows[:1])
    table.give(rows[0])
    table.give(rows[1], insert(2, id=3, f=-0.0, n=-(2**63)))
    names = TYPES[ground.system]
    assert ground.types("t") == {"id": names["int"], "f": names["float"], "d": names["decimal"], "n": names["int"]}
    assert ground.all("SELECT f FROM t ORDER BY id")[:2] == [(1.0,), (1.5,)]
    if ground.system == "postgres":  # MariaDB has one zero
        assert math.copysign(1, ground.all("SELECT f FROM t WHERE id = 3")[0][0]) == -1
    assert ground.all("SELECT d FROM t WHERE id = 2") == [(Decimal("0.10000000000000000001"),)]
    assert list(table.sink.rows("t")) == [
        table.sink.stored(one) for one in (rows[0].data, rows[1].data, {"id": 3, "f": -0.0, "n": -(2**63)})
    ]


def test_a_column_of_integers_becomes_one_of_decimals(ground: Ground) -> None:
    table = Table(ground, [insert(0, id=1, n=1)])
    table.give(insert(0, id=1, n=2**62))
    table.give(insert(1, id=2, n=1), insert(2, id=3, n=Decimal("1.50"), late="x"))
    assert ground.types("t") == {
        "id": "bigint",
        "n": TYPES[ground.system]["decimal"],
        "late": "longtext" if ground.system == "mysql" else "text",
    }
    assert [row[0] for row in ground.all("SELECT n FROM t ORDER BY n")] == [1, Decimal("1.5"), 2**62]
    [wider, late] = table.decision.changes
    assert (wider.column, wider.before, wider.offset, late.column, late.before) == ("n", "bigint", 2, "late", "")


@pytest.mark.parametrize(
    ("first", "other"),
    [(1, "one"), (1, True), ("x", 1), (True, 0), (1.5, Decimal("0.10000000000000000001")), (Decimal("1.5"), "1.5")],
)
def test_what_does_not_fit_is_refused_with_its_column_and_type(ground: Ground, first: Any, other: Any) -> None:
    table = Table(ground, [insert(0, id=1, v=first)])
    table.give(insert(0, id=1, v=first))
    with pytest.raises(Rejected, match=r"The column v of .*t is .*, and the message has ") as no:
        table.give(insert(1, id=2, v=first), insert(2, id=3, v=other))
    assert (no.value.offset, no.value.untouched) == (2, True)
    assert ground.all("SELECT id FROM t") == [(1,)]


def test_a_decimal_that_would_be_rounded_is_refused(ground: Ground) -> None:
    if ground.system == "postgres":
        pytest.skip("numeric holds it")
    table = Table(ground, [insert(0, id=1, v=Decimal("1.5"))])
    for offset, value in enumerate([Decimal("1e-31"), Decimal(10) ** 35, 10**40]):
        with pytest.raises(Rejected, match=r"is decimal\(65,30\)"):
            table.give(insert(offset, id=1, v=value))


@pytest.mark.parametrize("other", [Decimal("1.0"), True, "1", {"$oid": "1"}])
def test_ids_of_several_types_are_never_one_row(ground: Ground, other: Any) -> None:
    table = Table(ground, [insert(0, id=1, v="first"), insert(1, id=other, v="second")])
    table.give(insert(0, id=1, v="first"))
    with pytest.raises(Rejected, match="The column id of"):
        table.give(insert(1, id=other, v="second"))
    assert ground.all("SELECT id, v FROM t") == [(1, "first")]


def test_a_table_that_is_there_is_the_decision(ground: Ground) -> None:
    ground.run("CREATE TABLE t (id bigint PRIMARY KEY, v text)")
    table = Table(ground, [])
    table.decision = ColumnDecision()
    table.give(insert(0, id=1, v="x", n=Decimal("1.50")), insert(1, id=2, v="y", n=Decimal(2)))
    assert table.decision.tables[table.sink.place("t")].shown() == {"n": "decimal"}
    assert list(table.sink.columns_of(table.sink.place("t"))) == ["id", "v", "n"]


def test_a_type_that_its_owner_has_changed_counts(ground: Ground) -> None:
    table = Table(ground, [insert(0, id=1, v=1)])
    table.give(insert(0, id=1, v=1))
    ground.run("ALTER TABLE t ALTER COLUMN v TYPE text" if ground.system == "postgres" else "ALTER TABLE t MODIFY v text")
    table.give(insert(1, id=2, v="x"))
    assert ground.all("SELECT v FROM t ORDER BY id") == [("1",), ("x",)]


# -- whole runs -------------------------------------------------------------------------------------------------


def ran(log: Log, folder: Path, ground: Ground, *documents: bytes) -> tuple[Pipeline, Result]:
    topic = log_topic("p")
    log.create_topic(topic, settings=TopicSettings(), part=PART)
    log.claim(topic, 0, part=PART).append([Record(b"t", one) for one in documents])
    control = Control.create(log, "p", SystemClock())
    plan = {"identity": {}, "slices": [], "ids": {"t": ["id"]}}
    changes: list[Change] = [("reader", ReaderState(run="r", plan=plan, begun=0, upto=len(documents), copied=True))]
    control.change(lambda state: changes)
    (folder / "in.jsonl").touch()
    pipeline = Pipeline("p")
    pipeline.source("s", file(str(folder / "in.jsonl"))).save("out", ground.sink(create=True))
    return pipeline, again(log, folder, pipeline)


def again(log: Log, folder: Path, pipeline: Pipeline) -> Result:
    return Run(pipeline, log, Settings(data=folder / "data", spark=SparkSettings(start="never"))).go()


@pytest.mark.parametrize(
    "bad", [b'{"id":2,"":1}', b'{"id":2,' + b",".join(b'"c%d":1' % n for n in range(1700)) + b"}"], ids=["no name", "1700"]
)
def test_columns_that_the_server_refuses_are_the_fault_of_their_message(log: Log, tmp_path: Path, ground: Ground, bad: bytes) -> None:
    pipeline, result = ran(log, tmp_path, ground, b'{"id":1,"v":1}', bad, b'{"id":3,"v":3}')
    [sink] = result.sinks
    assert sink.failure is not None
    assert (sink.position, sink.failure.offset, sink.failure.of_message) == (0, 1, True)
    assert "cannot make the columns of" in sink.failure.message
    PipelineOperations(log, "p").ack("out", 1, why="no such columns")
    assert again(log, tmp_path, pipeline).sinks[0].position == 2
    assert ground.all("SELECT id, v FROM t ORDER BY id") == [(1, 1), (3, 3)]


def test_a_document_without_an_id_does_not_decide_the_key(log: Log, tmp_path: Path, ground: Ground) -> None:
    pipeline, result = ran(log, tmp_path, ground, b'{"v":0}', b'{"id":1,"v":1}', b'{"id":1,"v":2}')
    [sink] = result.sinks
    assert sink.failure is not None
    assert sink.failure.offset == 0
    PipelineOperations(log, "p").ack("out", 0, why="no id")
    assert again(log, tmp_path, pipeline).sinks[0].position == 2
    assert ground.all("SELECT id, v FROM t") == [(1, 2)]


def test_a_run_decides_by_its_sample_and_tells_what_became_wider(log: Log, tmp_path: Path, ground: Ground) -> None:
    pipeline, _ = ran(log, tmp_path, ground, b'{"id":1,"v":1}', b'{"id":2,"v":1.50}', b'{"id":3,"n":1}')
    topic = log_topic("p")
    log.claim(topic, 0, part=PART).append([Record(b"t", b'{"id":4,"n":2.50}')])
    assert again(log, tmp_path, pipeline).sinks[0].position == 3
    operations = PipelineOperations(log, "p")
    shown = operations.status().sinks[0]
    assert [(one.column, one.before, one.offset) for one in shown.columns] == [("n", "bigint", 3)]
    assert compare(operations, pipeline, "out").equal
    assert msgspec.json.encode(shown)


def longest(ground: Ground) -> int:
    return 63 if ground.system == "postgres" else 64


def test_a_name_that_the_server_would_cut_is_refused_before_the_table_is_made(ground: Ground) -> None:
    first, second = (Message("n" * longest(ground) + end, {"_id": 1, "v": end}, offset=number) for number, end in enumerate("AB"))
    table = Table(ground, [first, second])
    for message in (first, second):
        with pytest.raises(Rejected, match=f"more than the {longest(ground)}") as refused:
            table.give(message)
        assert (refused.value.offset, refused.value.untouched) == (message.offset, True)
        assert f'remap({{"{message.namespace}"' in refused.value.hint
    whole = Message("n" * longest(ground), {"_id": 1, "v": "whole"}, offset=2)
    table = Table(ground, [whole])
    table.give(whole)
    assert ground.all(f"SELECT v FROM {whole.namespace}") == [("whole",)]


def test_a_field_whose_name_the_server_would_cut_makes_no_column(ground: Ground) -> None:
    name = "é" * 32 if ground.system == "postgres" else "f" * 65
    good, bad = insert(0, id=1, v=1), insert(1, id=2, v=2, **{name: 3})
    table = Table(ground, [good, bad])
    with pytest.raises(Rejected, match=f"The field {name} has a name of more than") as refused:
        table.give(good, bad)
    assert (refused.value.offset, refused.value.untouched) == (1, True)
    table.give(good)
    assert set(ground.types("t")) == {"id", "v"}


def test_namespaces_that_differ_in_case_only_are_two_tables(ground: Ground) -> None:
    first, second = Message("Orders", {"_id": 1, "v": "a"}, offset=0), Message("orders", {"_id": 1, "v": "b"}, offset=1)
    table = Table(ground, [first, second])
    table.give(first, second)
    assert [row["v"] for one in ("Orders", "orders") for row in table.sink.rows(one)] == ["a", "b"]
