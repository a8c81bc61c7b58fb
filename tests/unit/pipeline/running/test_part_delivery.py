"""Delivering a part: what a sink is given, whichever of the two ways the documents take."""

from __future__ import annotations

import json
import sqlite3
from collections.abc import Sequence
from contextlib import closing
from decimal import Decimal
from pathlib import Path
from typing import Any

import pytest
from hypothesis import given, settings
from hypothesis import strategies as st
from tests.examples import examples

from headwater.core.errors import Fenced
from headwater.log import Record
from headwater.log.embedded.log import EmbeddedLog
from headwater.pipeline import Message, Pipeline, omit, pick, python, remap, rename
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.columns import ColumnType, TableColumns
from headwater.pipeline.message import Op
from headwater.pipeline.running.part_delivery import PartDelivery, deliver_part
from headwater.pipeline.running.work import SinkWork
from headwater.pipeline.sink_adaptor import Batch, Part, SinkWriter
from headwater.pipeline.transform import Transform

TEXTS = [
    b'{"_id": 1, "card": {"n" : [1, 2.50]}, "price": 1.10, "name": "J\xc3\xb6rg", "big": 12345678901234567890123}',
    b'{"_id":2,"price":1e400,"name":"a\\u00e9\\n","card":null}',
    *(json.dumps({"_id": n, "name": "x" * (n % 3)}).encode() for n in range(3, 20)),
]


def delivered(folder: Path, texts: Sequence[bytes], transforms: Sequence[Transform], ops: Sequence[int] = ()) -> str:
    """What a jsonl sink has when it was given these documents through these transforms."""
    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).transform(*transforms).save("out", file(f"{folder}/out.jsonl"))
    sink = pipeline.sinks["out"]
    with EmbeddedLog(folder / "data") as log:
        log.create_topic("t")
        log.append("t", 0, [Record(b"in.jsonl", text, op=op) for text, op in zip(texts, ops or [0] * len(texts), strict=True)])
        part = Part(pipeline="p", sink="out", start=0, end=len(texts), attempt="a", epoch=0)
        sink.adaptor.begin("p", "out", 0)
        outcome = deliver_part(log, SinkWork(pipeline="p", topic="t", sink=sink, epoch=0), part, batch=1000)
        assert outcome.failure is None
        assert outcome.acked == len(texts)
        sink.adaptor.publish(part, outcome.receipt)
    return (folder / "out.jsonl").read_text()


def same(message: Message) -> Message:
    return message


@pytest.mark.parametrize(
    "transforms",
    [
        [omit("card")],
        [pick("price", "_id", "nosuch")],
        [rename({"price": "name", "name": "price"})],
        [omit("card"), rename({"name": "title"}), pick("title", "_id", "big")],
    ],
)
def test_fields_that_only_move_are_the_same_whether_documents_are_read_or_stay_text(tmp_path: Path, transforms: list[Transform]) -> None:
    (tmp_path / "a").mkdir()
    (tmp_path / "b").mkdir()
    text = delivered(tmp_path / "a", TEXTS, transforms)
    read = delivered(tmp_path / "b", TEXTS, [python(same), *transforms])  # a function has to be given messages
    assert [json.loads(line, parse_float=Decimal) for line in text.split("\n")[:-1]] == [
        json.loads(line, parse_float=Decimal) for line in read.split("\n")[:-1]
    ]


def test_numbers_of_moved_fields_keep_every_digit(tmp_path: Path) -> None:
    lines = delivered(tmp_path, TEXTS, [omit("card", "name")]).split("\n")[:-1]
    assert lines[:2] == ['{"_id":1,"price":1.10,"big":12345678901234567890123}', '{"_id":2,"price":1e400}']


def test_markers_are_left_out_and_updates_are_given(tmp_path: Path) -> None:
    ops = [0] * len(TEXTS)
    ops[3], ops[4] = 4, 1
    lines = delivered(tmp_path, TEXTS, [pick("_id")], ops).split("\n")[:-1]
    assert [json.loads(line)["_id"] for line in lines] == [1, 2, 3, *range(5, 20)]


values = st.recursive(
    st.none() | st.booleans() | st.integers() | st.floats(allow_nan=False, allow_infinity=False) | st.text(max_size=5),
    lambda inner: st.lists(inner, max_size=3) | st.dictionaries(st.text(max_size=3), inner, max_size=3),
    max_leaves=6,
)


@settings(max_examples=examples(15), deadline=None)
@given(st.lists(st.dictionaries(st.sampled_from("abcd"), values), min_size=1, max_size=20))
def test_any_documents_keep_what_is_not_omitted(tmp_path_factory: pytest.TempPathFactory, documents: list[dict[str, Any]]) -> None:
    texts = [json.dumps(one).encode() for one in documents]
    lines = delivered(tmp_path_factory.mktemp("any"), texts, [omit("a"), rename({"b": "c"})]).split("\n")[:-1]
    want = [{key: value for key, value in one.items() if key not in "ab" and not (key == "c" and "b" in one)} for one in documents]
    assert [json.loads(line) for line in lines] == [
        one | ({"c": full["b"]} if "b" in full else {}) for one, full in zip(want, documents, strict=True)
    ]


def test_a_run_that_is_superseded_while_a_batch_is_transformed_writes_nothing(tmp_path: Path) -> None:
    claims: list[int] = []

    def claiming(message: Message) -> Message:
        claims.append(log.claim("t", 0).epoch)
        return message

    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).transform(python(claiming)).save("out", file(f"{tmp_path}/out.jsonl"))
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("t")
        log.append("t", 0, [Record(b"in.jsonl", text) for text in TEXTS[:3]])
        work = SinkWork(pipeline="p", topic="t", sink=pipeline.sinks["out"], epoch=0)
        written: list[object] = []
        with pytest.raises(Fenced):
            deliver_part(log, work, Part(pipeline="p", sink="out", start=0, end=3), batch=10, writer=Noting(written))
    assert claims
    assert written == []


class Noting(SinkWriter):
    """Keeps what it is given."""

    def __init__(self, written: list[object]) -> None:
        self._written = written

    def write(self, batch: Batch) -> None:
        self._written.append(batch)

    def close(self) -> None: ...


class Slow(SinkWriter):
    """Sends messages one by one; each takes some seconds of a clock."""

    one_by_one = True

    def __init__(self, seconds: float) -> None:
        self.seconds, self.now, self.batches = seconds, 0.0, list[int]()

    def write(self, batch: Batch) -> None:
        self.batches.append(len(batch))
        self.now += self.seconds * len(batch)

    def close(self) -> None:
        pass


@pytest.mark.parametrize(("seconds", "batches"), [(60.0, [1]), (1.0, [1]), (0.2, [1, 2, 1, 2]), (0.01, [1, 2, 4, 8, 5])])
def test_what_a_slow_sink_has_taken_is_soon_counted(tmp_path: Path, seconds: float, batches: list[int]) -> None:
    """A run that is stopped again and again before its first batch ends would send the same messages each time, and never get on."""
    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).save("out", file(f"{tmp_path}/out.jsonl"))
    with EmbeddedLog(tmp_path / "data") as log:
        log.create_topic("t")
        log.append("t", 0, [Record(b"in.jsonl", b'{"_id":%d}' % n) for n in range(20)])
        part = Part(pipeline="p", sink="out", start=0, end=20, attempt="a", epoch=0)
        work, slow = SinkWork(pipeline="p", topic="t", sink=pipeline.sinks["out"], epoch=0), Slow(seconds)
        delivery = PartDelivery(log, work, part, slow, batch=1000, ends=lambda: slow.now >= 1, monotonic=lambda: slow.now)
        assert delivery.run().acked == sum(batches)
        assert slow.batches == batches


def emptied(folder: Path, mapping: dict[str, str]) -> tuple[list[int], str]:
    """The ids of the table `all` when two namespaces were delivered and the first was emptied; and what was refused."""
    pipeline = Pipeline("p")
    pipeline.source("in", file("in.jsonl")).transform(remap(mapping, regex=True)).save("out", sqlite(f"{folder}/out.db"))
    sink = pipeline.sinks["out"]
    records = [Record(b"a.t", b'{"_id":1}'), Record(b"b.t", b'{"_id":2}'), Record(b"a.t", b'{"command":"truncate"}', op=Op.COMMAND)]
    tables = {name: TableColumns(columns={"_id": ColumnType("int")}, key=("_id",)) for name in ("all", "all_a", "all_b")}
    work = SinkWork(pipeline="p", topic="t", sink=sink, epoch=0, ids={"a.t": ("_id",), "b.t": ("_id",)}, columns=tables)
    with EmbeddedLog(folder / "data") as log:
        log.create_topic("t")
        log.append("t", 0, records)
        sink.adaptor.begin("p", "out", 0)
        outcome = deliver_part(log, work, work.part("p", 0, 3), batch=1000)
    with closing(sqlite3.connect(folder / "out.db")) as link:
        names = [name for (name,) in link.execute("SELECT name FROM sqlite_master WHERE name LIKE 'all%' ORDER BY name")]
        ids = [number for name in names for (number,) in link.execute(f'SELECT _id FROM "{name}"')]
    return ids, "" if outcome.failure is None else outcome.failure.message


def test_a_truncate_empties_the_table_that_the_documents_went_to(tmp_path: Path) -> None:
    assert emptied(tmp_path, {r"^(\w)\.t$": r"all_\1"}) == ([2], "")


def test_a_truncate_does_not_empty_a_table_of_several_namespaces(tmp_path: Path) -> None:
    assert emptied(tmp_path, {r"^\w\.t$": "all"}) == ([1, 2], "a.t was emptied at the source, and all holds the documents of b.t, too.")
