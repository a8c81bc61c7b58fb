"""The two ways through sql(...): in Spark's tasks and in the driver. What comes of a part is the same."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from ground import piped, prepared, rows
from quick_spark import quick

from headwater.core.clock import SystemClock
from headwater.core.errors import Cancelled
from headwater.core.settings import Settings
from headwater.log import Log
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Record
from headwater.pipeline import Message, Pipeline, omit, python, sql
from headwater.pipeline.adaptors import file, sqlite
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.offsets.control import Control, log_topic
from headwater.pipeline.offsets.ownership import PART
from headwater.pipeline.offsets.state import SinkState
from headwater.pipeline.running import sql_delivery
from headwater.pipeline.running.engine import Engine
from headwater.pipeline.running.part_delivery import deliver_part
from headwater.pipeline.running.run import Result, Run
from headwater.pipeline.running.sql_delivery import SqlDelivery
from headwater.pipeline.running.work import Outcome, SinkWork
from headwater.pipeline.sink_adaptor import Part
from headwater.pipeline.transform import Transform
from headwater.pipeline.values import decode, encode
from headwater.spark import session

pytestmark = pytest.mark.spark
MASTER = msgspec.structs.replace(quick(), start="eager")
COUNT = 700
ODD = (
    {
        "name": "ann",
        "price": 1.1,
        "qty": 3,
        "card": "4111",
        "at": {"$date": "2024-02-29T00:00:00.000Z"},
        "address": {"city": "Bonn", "n": 1},
    },
    {"name": None, "price": 2.25, "qty": 0, "card": None, "mixed": "x", "list": [1, 2], "big": 10**30},
    {
        "price": 7,
        "qty": -4,
        "at": {"$date": {"$numberLong": "5"}},
        "mixed": 5,
        "address": {"n": None},
        "_raw": {"$binary": "AA==", "$type": "00"},
    },
    {"name": "ünï", "qty": 2**40, "mixed": [1, {"a": None}], "list": [], "nan": {"$numberDouble": "NaN"}, "x.y": "dot"},
    {"name": "", "price": 0.5, "huge": 1e300, "qty": 5, "card": "5", "extra": {"$oid": "507f"}, "list": [None, 4], "address": None},
)


def documents(count: int) -> list[bytes]:
    exact = [b'{"_id":%d,"price":1.10,"qty":2,"name":"exact","card":"6","rate":12345678901234567890.10}' % i for i in range(count)]
    return [exact[i] if i % 6 == 5 else encode({"_id": i, **ODD[i % 6]}) for i in range(count)]


@pytest.fixture(scope="module", autouse=True)
def spark() -> Iterator[None]:
    started = session(MASTER, archive="use")
    yield
    started.stop()


@pytest.fixture(autouse=True)
def few(monkeypatch: pytest.MonkeyPatch) -> None:
    monkeypatch.setattr(sql_delivery, "_LEAST", 1)


@pytest.fixture
def log(tmp_path: Path) -> Iterator[Log]:
    with EmbeddedLog(tmp_path / "data") as opened:
        yield opened


class Ground:
    """A filled log, and what delivering it to files makes of it, in parts."""

    def __init__(self, log: Log, folder: Path, texts: Sequence[bytes], monkeypatch: pytest.MonkeyPatch) -> None:
        monkeypatch.setattr(sql_delivery, "_BATCH", 150)
        monkeypatch.setattr(sql_delivery, "_SAMPLE", 20)
        self.log, self.folder, self.count = log, folder, len(texts)
        prepared(log, texts, {})
        self.engine = Engine(log, MASTER, stopping=threading.Event())

    def work(self, name: str, transforms: Sequence[Transform], **options: Any) -> tuple[SinkWork, list[Part]]:
        pipeline = Pipeline("p")
        (self.folder / "in.jsonl").touch()
        pipeline.source("s", file(str(self.folder / "in.jsonl"))).transform(*transforms).save(
            "out", file(f"{self.folder}/{name}/", **options)
        )
        work = SinkWork(pipeline="p", topic=log_topic("p"), sink=pipeline.sinks["out"], epoch=1)
        work.sink.adaptor.begin("p", "out", 1)
        half = self.count // 2
        return work, [Part(pipeline="p", sink="out", start=a, end=b, epoch=1, attempt=str(a)) for a, b in ((0, half), (half, self.count))]

    def by_driver(self, transforms: Sequence[Transform], **options: Any) -> tuple[list[Outcome], list[Any]]:
        work, parts = self.work("driver", transforms, **options)
        return self.seen(work, parts, [deliver_part(self.log, work, part, batch=100_000) for part in parts], "driver")

    def by_tasks(self, transforms: Sequence[Transform], **options: Any) -> tuple[list[Outcome], list[Any]]:
        work, parts = self.work("tasks", transforms, **options)
        outcomes = SqlDelivery(work.sink, self.log, self.engine).deliver_in_tasks(work, parts, batch=100)
        assert outcomes is not None
        return self.seen(work, parts, outcomes, "tasks")

    def seen(self, work: SinkWork, parts: list[Part], outcomes: list[Outcome], name: str) -> tuple[list[Outcome], list[Any]]:
        for part, one in zip(parts, outcomes, strict=True):
            if one.acked > one.start:
                work.sink.adaptor.publish(msgspec.structs.replace(part, end=one.acked, attempt=one.attempt), one.receipt)
        lines = [decode(line) for path in sorted((self.folder / name).glob("part-*")) for line in path.read_bytes().splitlines()]
        return [msgspec.structs.replace(one, attempt="", receipt={}) for one in outcomes], lines


def between() -> list[Transform]:
    def tripled(message: Message) -> Message:
        message.data["qty"] = message.data["qty"] * 3
        return message

    def without_some(message: Message) -> Message | None:
        return None if message.data["_id"] % 7 == 3 else message

    return [python(tripled), sql("* EXCEPT (list), qty + 1 AS more", where="qty <> 0"), omit("card"), python(without_some)]


STEPS: dict[str, Callable[[], list[Transform]]] = {
    "all": lambda: [sql("*")],
    "except": lambda: [sql("* EXCEPT (card)")],
    "except in capitals": lambda: [sql("* EXCEPT (CARD, gone), upper(name) AS `NAME`")],
    "added": lambda: [sql("*, price * qty AS total, address.city AS city, year(at) AS y")],
    "replaced": lambda: [sql("*, upper(name) AS name, coalesce(mixed, 'none') AS mixed, coalesce(nick, name) AS shown")],
    "where": lambda: [sql("*", where="qty > 1")],
    "where and except": lambda: [sql("* EXCEPT (card, at), qty + 1 AS qty", where="name IS NOT NULL AND card IS NULL")],
    "fields": lambda: [sql("_id, name, card, at")],
    "made fields": lambda: [sql("_id, PRICE, name AS who, at, address, list, timestamp'2024-02-29 00:00:00Z' AS day, rate * 2 AS twice")],
    "an id that is kept": lambda: [sql("*, qty * 2 AS twice", keeps_id=True)],
    "a schema": lambda: [sql("*, qty * 2 AS twice, typeof(name) AS t", schema="qty DECIMAL(20, 0), name STRING")],
    "a schema alone": lambda: [sql("* EXCEPT (card)", schema="qty DECIMAL(20, 0)")],
    "between others": between,
    "before others": lambda: [sql("*, qty + 1 AS more", where="qty > 0"), omit("card")],
    "none is left": lambda: [sql("*", where="qty = 12345")],
}


@pytest.mark.parametrize("step", STEPS)
@pytest.mark.parametrize("envelope", [False, True])
def test_both_ways_make_the_same(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: str, envelope: bool) -> None:
    ground = Ground(log, tmp_path, documents(COUNT), monkeypatch)
    there, lines = ground.by_tasks(STEPS[step](), envelope=envelope)
    here, expected = ground.by_driver(STEPS[step](), envelope=envelope)
    assert [one.stop for one in there] == [None, None]
    assert [encode(line) for line in lines] == [encode(line) for line in expected]
    assert there == here
    assert [one.acked for one in there] == [COUNT // 2, COUNT]


@pytest.mark.parametrize(
    "steps",
    [
        lambda: [sql("*, 1 AS a"), sql("*, 2 AS b")],
        lambda: [sql("*, row_number() OVER (ORDER BY _id) AS r")],
        lambda: [sql("*, to_json(struct(*)) AS copy")],
        lambda: [sql("*, rand() AS chance")],
        lambda: [sql("nosuch(qty) AS x")],
        lambda: [sql("qty + 1")],
        lambda: [sql("*, (SELECT 1) AS one")],
        lambda: [sql("*", where="(SELECT true)")],
        lambda: [sql("explode(array(1, 2)) AS x")],
        lambda: [sql("*, 1 AS a").within(Namespaces("^t$"))],
    ],
)
def test_what_is_more_than_columns_of_one_row_is_the_drivers(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, steps: Callable[[], list[Transform]], capfd: pytest.CaptureFixture[str]
) -> None:
    ground = Ground(log, tmp_path, documents(40), monkeypatch)
    work, parts = ground.work("tasks", steps())
    assert SqlDelivery(work.sink, log, ground.engine).deliver_in_tasks(work, parts, batch=100) is None
    assert capfd.readouterr().err == ""


@pytest.mark.parametrize(
    ("step", "value"),
    [
        (sql("*", schema="qty BIGINT"), b'"many"'),
        (sql("*, qty + 1 AS more", schema="qty BIGINT"), b'"many"'),
        (sql("*, 1 / qty AS part"), b"0"),
    ],
)
def test_a_document_that_cannot_pass_ends_its_part_and_no_other(
    log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, step: Transform, value: bytes
) -> None:
    ground = Ground(log, tmp_path, [b'{"_id":%d,"qty":%s}' % (i, value if i == 400 else b"5") for i in range(COUNT)], monkeypatch)
    outcomes, lines = ground.by_tasks([step])
    assert [(one.start, one.end, one.stop is not None, one.failure) for one in outcomes] == [(0, 350, False, None), (350, 700, True, None)]
    assert outcomes[0].acked == 350
    assert outcomes[1].acked == 350
    assert [line["_id"] for line in lines] == list(range(350))


def test_commands_and_several_namespaces_are_the_drivers(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground(log, tmp_path, documents(400), monkeypatch)
    work = msgspec.structs.replace(ground.work("tasks", [sql("*, qty + 1 AS more")])[0], epoch=2)
    log.claim(work.topic, 0, part=PART).append(
        [Record(b"other" if i == 190 else b"t", b'{"qty":1}', op=3 if i == 390 else 0) for i in range(400)]
    )
    parts = [Part(pipeline="p", sink="out", start=a, end=a + 200, epoch=1, attempt=str(a)) for a in (200, 400, 600)]
    outcomes = SqlDelivery(work.sink, log, ground.engine).deliver_in_tasks(work, parts, batch=100)
    assert outcomes is not None
    assert [(one.acked, one.stop is not None, one.failure) for one in outcomes] == [
        (400, False, None),
        (550, True, None),
        (750, True, None),
    ]


def test_few_messages_are_the_drivers(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    ground = Ground(log, tmp_path, documents(40), monkeypatch)
    monkeypatch.setattr(sql_delivery, "_LEAST", 41)
    work, parts = ground.work("tasks", [sql("*, 1 AS a")])
    assert SqlDelivery(work.sink, log, ground.engine).deliver_in_tasks(work, parts, batch=100) is None


def test_it_ends_when_the_run_does(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch) -> None:
    begun = tmp_path / "begun"

    def waits(message: Message) -> Message:
        begun.touch()
        while True:
            time.sleep(0.01)

    ground = Ground(log, tmp_path, documents(COUNT), monkeypatch)
    work, parts = ground.work("tasks", [sql("*, 1 AS a"), python(waits)])
    stopping = threading.Event()
    engine = Engine(log, MASTER, stopping=stopping)

    def stops() -> None:
        while not begun.exists():
            time.sleep(0.01)
        stopping.set()

    watching = threading.Thread(target=stops, daemon=True)
    watching.start()
    with pytest.raises(Cancelled):
        SqlDelivery(work.sink, log, engine).deliver_in_tasks(work, parts, batch=100)
    watching.join()
    assert list((tmp_path / "tasks").glob("part-*")) == []


# -- whole runs -------------------------------------------------------------------------------------------------------


def ran(log: Log, folder: Path, name: str, transform: Transform) -> tuple[Result, SinkState, list[dict[str, Any]]]:
    """A run into a folder of files: what it says, how the sink stands, and what it has."""
    pipeline = piped(folder, {name: file(f"{folder}/{name}/")}, transforms=[transform])
    result = Run(pipeline, log, Settings(data=folder / "data", spark=MASTER)).go()
    lines = [decode(line) for path in (folder / name).glob("part-*") for line in path.read_bytes().splitlines()]
    return result, Control(log, "p", SystemClock()).state.sink(name), sorted(lines, key=lambda one: one["_id"])


@pytest.fixture
def ways(monkeypatch: pytest.MonkeyPatch) -> list[list[Outcome] | None]:
    """What every round of the tasks came to."""
    seen: list[list[Outcome] | None] = []
    real = SqlDelivery.deliver_in_tasks

    def deliver_part(self: SqlDelivery, work: SinkWork, parts: Sequence[Part], *, batch: int) -> list[Outcome] | None:
        seen.append(real(self, work, parts, batch=batch))
        return seen[-1]

    monkeypatch.setattr(SqlDelivery, "deliver_in_tasks", deliver_part)
    return seen


def test_types_grow_with_the_documents(log: Log, tmp_path: Path, ways: list[list[Outcome] | None]) -> None:
    prices = [b"%d" % (i % 100) if i < 3000 else b"%d.%d0" % (i, i % 7 + 1) if i < 6000 else b"0.125" for i in range(9000)]
    texts = [b'{"_id":%d,"price":%s%s}' % (i, price, b',"qty":3' if i > 4000 else b"") for i, price in enumerate(prices)]
    prepared(log, texts, {"out": SinkState()})
    result, state, lines = ran(log, tmp_path, "out", sql("*, price * coalesce(qty, 1) AS total"))
    assert (result.state, state.position) == ("done", 8999)
    assert [(one["_id"], one["total"]) for one in lines] == [
        (i, one["price"] * one.get("qty", 1)) for i, one in enumerate(map(decode, texts))
    ]
    assert None not in ways
    assert len(ways) > 1


def test_a_strange_document_is_the_drivers_and_the_rest_the_tasks(log: Log, tmp_path: Path, ways: list[list[Outcome] | None]) -> None:
    texts = [b'{"_id":%d,"qty":%s}' % (i, b'"7"' if i == 1200 else b"%d" % i) for i in range(12_000)]
    prepared(log, texts, {"out": SinkState()})
    result, state, lines = ran(log, tmp_path, "out", sql("*, coalesce(try_cast(qty AS BIGINT), 0) + 1 AS more"))
    assert (result.state, state.position) == ("done", 11_999)
    assert [(one["_id"], one["more"]) for one in lines] == [(i, 1 if i == 1200 else i + 1) for i in range(12_000)]
    assert ways[0] is not None
    assert [one.stop is not None for one in ways[0]] == [True, False]


@pytest.mark.parametrize("poison", [b'{"_id":4321,"qty":0}', b"no json"])
def test_a_message_that_is_refused_stops_the_sink_there(log: Log, tmp_path: Path, monkeypatch: pytest.MonkeyPatch, poison: bytes) -> None:
    texts = [poison if i == 4321 else b'{"_id":%d,"qty":%d}' % (i, i % 5 + 1) for i in range(9000)]
    prepared(log, texts, {"tasks": SinkState(), "driver": SinkState()})
    step = sql("*, 10 / qty AS each")
    result, state, lines = ran(log, tmp_path, "tasks", step)
    monkeypatch.setattr(SqlDelivery, "deliver_in_tasks", lambda *given, **more: None)
    expected, known, others = ran(log, tmp_path, "driver", step)
    assert (result.state, state.position, state.stopped) == (expected.state, 4320, True)
    assert state.failure is not None
    assert known.failure is not None
    assert msgspec.structs.replace(state.failure, at=0, trace="") == msgspec.structs.replace(known.failure, at=0, trace="")
    assert lines[:4321] == others[:4321]
    assert 4321 not in {one["_id"] for one in lines}


def test_what_a_sink_refuses_is_told_as_ever(log: Log, tmp_path: Path, ways: list[list[Outcome] | None]) -> None:
    prepared(log, [b'{"_id":%d,"qty":%d}' % (i, i) for i in range(9000)], {"db": SinkState()})
    rows(tmp_path / "o.db", "create table t (_id integer primary key, more integer check (more <> 4512))")
    pipeline = piped(tmp_path, {"db": sqlite(str(tmp_path / "o.db"), table="t")}, transforms=[sql("_id, qty + 1 AS more")])
    assert Run(pipeline, log, Settings(data=tmp_path / "data", spark=MASTER)).go().state == "stopped"
    state = Control(log, "p", SystemClock()).state.sink("db")
    assert (state.position, state.stopped) == (4510, True)
    assert state.failure is not None
    assert "CHECK" in state.failure.message
    assert rows(tmp_path / "o.db", "select count(*), max(_id), sum(more) from t") == [(4511, 4510, 4511 * 4512 // 2)]
    assert [one is None for one in ways] == [False]
