"""The MongoDB adaptor against a real server that speaks its protocol."""

from __future__ import annotations

import time
import uuid
from collections.abc import Callable, Iterator
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import bson
import msgspec
import pytest
from bson import Binary, Code, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.database import Database
from tools.services.private import PrivateServers

from headwater.core.errors import BadInput, NotFound, OffsetGone, Rejected, Timeout, Unreachable
from headwater.pipeline import values
from headwater.pipeline.adaptor import Batch, CopyPlan, Part, Piece
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.systems.mongodb.adaptor import MongoDB, mongodb
from headwater.pipeline.systems.mongodb.sink import MongoWriter
from headwater.testing.adaptor_contract import CopyContract, SinkContract

ALL = Namespaces()
SECONDS = 30.0


@pytest.fixture(autouse=True)
def _restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two questions nothing is to be waited for here."""
    monkeypatch.setattr("headwater.pipeline.systems.mongodb.oplog.REST", 0.01)


@pytest.fixture
def database(mongodb: str) -> Iterator[Database[dict[str, Any]]]:
    """A database of the test's own."""
    with MongoClient[dict[str, Any]](mongodb) as client:
        name = f"t{uuid.uuid4().hex[:10]}"
        yield client[name]
        client.drop_database(name)


@pytest.fixture
def adaptor(mongodb: str, database: Database[dict[str, Any]]) -> MongoDB:
    return at(mongodb, database.name)


def at(uri: str, database: str, **options: Any) -> MongoDB:
    return mongodb(f"{uri}/{database}", **options)


def part(**changes: Any) -> Part:
    return msgspec.structs.replace(Part(pipeline="p", sink="s", start=0, end=1000), **changes)


def message(offset: int, *, op: Op = Op.INSERT, namespace: str = "orders", **data: Any) -> Message:
    return Message(namespace, data, op, offset=offset)


def write(adaptor: MongoDB, *messages: Message) -> None:
    writer = adaptor.writer(part())
    try:
        writer.write(Batch(start=messages[0].offset, end=messages[-1].offset + 1, messages=messages))
    finally:
        writer.close()


def numbered(count: int, *, start: int = 0) -> list[Message]:
    return [message(offset, _id=offset, n=offset) for offset in range(start, start + count)]


def held(adaptor: MongoDB, namespace: str = "orders") -> dict[Any, Any]:
    with adaptor.connect() as link:
        return {one["_id"]: one.get("n") for one in link.database[namespace].find()}


def documents(adaptor: MongoDB, plan: CopyPlan) -> list[dict[str, Any]]:
    return [values.decode(text) for one in plan.slices for piece in adaptor.read(one, None) for text in piece.values]


def raw(database: Database[dict[str, Any]], name: str) -> list[bytes]:
    found = database.get_collection(name, codec_options=CodecOptions(document_class=RawBSONDocument)).find().sort("_id", 1)
    return [one.raw for one in found]


# -- what every adaptor promises ----------------------------------------------------------------------------


class TestSink(SinkContract):
    @pytest.fixture
    def sink(self, adaptor: MongoDB) -> MongoDB:
        return adaptor


class TestCopy(CopyContract):
    @pytest.fixture
    def source(self, adaptor: MongoDB, database: Database[dict[str, Any]]) -> MongoDB:
        for name in ("orders", "clients"):
            database[name].insert_many([{"name": name, "n": n} for n in range(25)])
        return msgspec.structs.replace(adaptor, batch=10)


# -- the copy -----------------------------------------------------------------------------------------------


@pytest.mark.parametrize(("slices", "cut"), [(1, 1), (3, 3), (100, 60)])
def test_every_document_is_read_once_in_slices(adaptor: MongoDB, database: Database[dict[str, Any]], slices: int, cut: int) -> None:
    database.orders.insert_many([{"_id": n, "n": n} for n in reversed(range(60))])
    plan = adaptor.plan(ALL, slices)
    assert len(plan.slices) == cut
    assert plan.ids == {"orders": ("_id",)}
    assert documents(adaptor, plan) == [{"_id": n, "n": n} for n in range(60)]


def test_ids_of_every_kind_are_read(adaptor: MongoDB, database: Database[dict[str, Any]]) -> None:
    kinds = [MinKey(), None, 1.5, 2, Int64(7), "a", "b", {"a": 1}, {"a": Int64(2)}, b"z", ObjectId(), False, True]
    kinds += [datetime(2020, 1, 1, tzinfo=UTC), Timestamp(1, 1), MaxKey()]
    for one in kinds:
        database.orders.insert_one({"_id": one})
    small = msgspec.structs.replace(adaptor, batch=1)
    plan = small.plan(ALL, 2)
    assert len(documents(small, plan)) == len(kinds)
    for one in plan.slices:  # and from every position, null's among them
        pieces = list(small.read(one, None))
        for number, piece in enumerate(pieces):
            assert list(small.read(one, piece.position)) == pieces[number + 1 :]


def test_reading_goes_on_behind_any_position(adaptor: MongoDB, database: Database[dict[str, Any]]) -> None:
    database.orders.insert_many([{"n": n} for n in range(50)])
    small = msgspec.structs.replace(adaptor, batch=7)
    for one in small.plan(ALL, 2).slices:
        pieces = list(small.read(one, None))
        whole = [text for piece in pieces for text in piece.values]
        seen = 0
        for piece in pieces:
            seen += len(piece.values)
            position = msgspec.json.decode(msgspec.json.encode(piece.position))
            assert [text for later in small.read(one, position) for text in later.values] == whole[seen:]


def test_collections_are_chosen_and_filtered(mongodb: str, database: Database[dict[str, Any]]) -> None:
    for name in ("orders", "clients", "other"):
        database[name].insert_many([{"_id": n, "open": n % 2 == 0, "name": name} for n in range(6)])
    adaptor = at(mongodb, database.name, collection_filters={"orders": {"open": True}})
    found = documents(adaptor, adaptor.plan(Namespaces("^(orders|clients)$"), 2))
    assert {(one["name"], one["_id"]) for one in found} == {("orders", n) for n in (0, 2, 4)} | {("clients", n) for n in range(6)}
    with pytest.raises(NotFound, match="no collection"):
        adaptor.plan(Namespaces("nothing"), 2)


def test_an_empty_collection_is_read_too(adaptor: MongoDB, database: Database[dict[str, Any]]) -> None:
    database.create_collection("orders")
    plan = adaptor.plan(ALL, 4)
    assert len(plan.slices) == 1
    assert documents(adaptor, plan) == []


def test_a_document_that_cannot_be_logged_exactly_is_told(adaptor: MongoDB, database: Database[dict[str, Any]]) -> None:
    database.orders.insert_many([{"_id": 1}, {"_id": 2, "odd": {"$oid": "0123456789abcdef01234567"}}, {"_id": 3}])
    (piece,) = adaptor.read(adaptor.plan(ALL, 1).slices[0], None)
    assert [values.decode(text)["_id"] for text in piece.values] == [1, 2, 3]
    assert list(piece.bad) == [1]
    assert "$oid" in piece.bad[1]


def test_a_dropped_collection_is_another_source(adaptor: MongoDB, database: Database[dict[str, Any]]) -> None:
    database.orders.insert_one({"_id": 1})
    database.clients.insert_one({"_id": 1})
    plan = adaptor.plan(ALL, 1)
    assert adaptor.same(plan, ALL)
    database.orders.drop()
    assert not adaptor.same(plan, ALL)


# -- types --------------------------------------------------------------------------------------------------


def test_what_is_copied_is_the_very_same_bson(mongodb: str, adaptor: MongoDB, database: Database[dict[str, Any]]) -> None:
    database.orders.insert_many(
        [
            {
                "_id": ObjectId(),
                "int": 5,
                "long": Int64(5),
                "larger": Int64(1 << 40),
                "double": 5.0,
                "large double": 1e22,
                "nan": float("nan"),
                "decimal": Decimal128("1.10"),
                "bytes": b"\x00\xff",
                "uuid": Binary(bytes(range(16)), 4),
                "stamp": Timestamp(5, 6),
                "pattern": Regex("a.*", "i"),
                "date": datetime(2020, 1, 2, 3, 4, 5, 678000, UTC),
                "code": Code("f()"),
                "ends": [MinKey(), MaxKey()],
                "nothing": None,
                "nested": {"z": [1, {"a": Int64(1)}, []], "a": {}, "true": True},
            },
            {"_id": {"b": Int64(1), "a": 2}},
            {"_id": Binary(bytes(16), 4)},
        ]
    )
    copied = documents(adaptor, adaptor.plan(ALL, 1))
    write(adaptor, *[Message("copy", data, offset=offset) for offset, data in enumerate(copied)])
    assert raw(database, "copy") == raw(database, "orders")
    write(adaptor, *[Message("copy", {"_id": data["_id"]}, Op.DELETE, offset=9) for data in copied])
    assert raw(database, "copy") == []


# -- the sink -----------------------------------------------------------------------------------------------


def test_documents_are_inserted_changed_and_deleted(adaptor: MongoDB) -> None:
    write(adaptor, message(0, _id=1, n=1), message(1, namespace="clients", _id="a", n=5), message(2, _id=2, n=2), message(3, _id=3, n=3))
    write(adaptor, message(4, op=Op.UPDATE, _id=1, n=10), message(5, op=Op.DELETE, _id=2), message(6, op=Op.DELETE, _id="never was"))
    write(adaptor, message(7, op=Op.DELETE, _id=3), message(8, _id=3, n=30), message(9, op=Op.UPDATE, _id=3, n=31))
    assert held(adaptor) == {1: 10, 3: 31}
    assert held(adaptor, "clients") == {"a": 5}


def test_a_refused_document_is_named_by_its_offset_and_all_before_it_are_taken(
    adaptor: MongoDB, database: Database[dict[str, Any]]
) -> None:
    database.orders.create_index("n", unique=True)
    messages = [message(o, namespace="clients" if o % 2 else "orders", _id=o, n=o) for o in range(20)]
    messages[14].data["n"] = messages[18].data["n"] = 4
    with pytest.raises(Rejected, match="duplicate key") as refused:
        write(adaptor, *messages)
    assert (refused.value.offset, refused.value.before_taken) == (14, True)
    found = held(adaptor)
    assert {o: o for o in range(0, 14, 2)}.items() <= found.items()
    assert not {14, 18} & found.keys()
    assert held(adaptor, "clients") == {o: o for o in range(1, 20, 2)}


@pytest.mark.parametrize(
    ("bad", "said"),
    [
        (message(3, _id=3, n=10**40 + 1), "more digits"),
        (message(3, op=Op.DELETE, n=1), "names no document"),
        (message(3, op=Op.COMMAND, drop="orders"), "no commands"),
        (message(3, _id=3, text="x" * (17 << 20)), "bytes"),
        (message(3, namespace="or$ders", _id=3), "No collection"),
        (Message("orders", {"_id": 1, "nr": 2}, offset=3, id_fields=("nr",)), "besides its id"),
    ],
)
def test_a_message_that_can_be_no_document_comes_after_those_before_it(adaptor: MongoDB, bad: Message, said: str) -> None:
    with pytest.raises(Rejected, match=said) as refused:
        write(adaptor, *numbered(3), bad, message(4, namespace="clients", _id=4))
    assert (refused.value.offset, refused.value.before_taken) == (3, True)
    assert held(adaptor) == {0: 0, 1: 1, 2: 2}


@pytest.mark.parametrize("odd", [{"$gt": ""}, {"$ne": None}, {"$regularExpression": {"pattern": "a", "options": ""}}, {"$exists": True}])
def test_an_id_is_never_taken_for_a_condition(adaptor: MongoDB, odd: Any) -> None:
    write(adaptor, message(0, _id="a", n=1), message(1, _id={"a": 1}, n=2))
    write(adaptor, message(2, op=Op.DELETE, _id=odd))
    assert list(adaptor.rows("orders")) == [{"_id": "a", "n": 1}, {"_id": {"a": 1}, "n": 2}]
    with suppress(Rejected):  # not every server takes such ids
        write(adaptor, message(3, _id=odd, n=3))
    assert {"_id": "a", "n": 1} in list(adaptor.rows("orders"))


def test_a_refusal_to_which_the_server_gives_no_code_is_told(adaptor: MongoDB) -> None:
    messages = numbered(5)
    messages[3].data["$odd"] = 1
    with pytest.raises(Rejected, match="illegal update") as refused:
        write(adaptor, *messages)
    assert (refused.value.offset, refused.value.before_taken) == (3, True)
    assert {0, 1, 2} <= held(adaptor).keys()
    assert 3 not in held(adaptor)


def test_one_batch_to_several_collections_has_one_timeout(adaptor: MongoDB) -> None:
    times = iter([0.0, 1.0, 8.0])
    writer = MongoWriter(part(timeout=7.0), adaptor.connect(), clock=lambda: next(times))
    messages = [message(0, _id=0, n=0), message(1, namespace="clients", _id=1, n=1)]
    try:
        with pytest.raises(Timeout, match="within 7 s"):
            writer.write(Batch(start=0, end=2, messages=messages))
    finally:
        writer.close()
    assert held(adaptor) == {0: 0}


def test_sent_again_nothing_is_there_twice(adaptor: MongoDB) -> None:
    for _ in range(3):
        write(adaptor, *numbered(10), message(10, op=Op.DELETE, _id=3), message(11, n=11), message(12, n=12))
    assert held(adaptor) == {n: n for n in range(10) if n != 3} | {"p-11": 11, "p-12": 12}


def test_ids_of_several_fields_are_an_object(adaptor: MongoDB, database: Database[dict[str, Any]]) -> None:
    composed = Message("orders", {"shop": "x", "nr": 1, "n": 5}, offset=0, id_fields=("shop", "nr"))
    write(adaptor, composed)
    assert list(database.orders.find()) == [{"_id": {"shop": "x", "nr": 1}, "shop": "x", "nr": 1, "n": 5}]
    composed.op = Op.DELETE
    write(adaptor, composed)
    assert list(database.orders.find()) == []


@pytest.mark.parametrize(
    ("data", "ids"),
    [
        (
            {"_id": {"$oid": "0123456789abcdef01234567"}, "at": {"$date": "2020-01-01T00:00:00.123456Z"}, "n": {"$numberLong": "5"}},
            ("_id",),
        ),
        ({"_id": 5, "n": 5, "price": Decimal("1.10"), "none": None}, ("_id",)),
        ({"id": 7, "deep": [{"a": {"$uuid": "00010203-0405-0607-0809-0a0b0c0d0e0f"}}]}, ("id",)),
        ({"shop": "x", "nr": {"$numberLong": "3"}, "n": 1.5}, ("shop", "nr")),
    ],
)
def test_what_is_stored_is_what_is_read_back(adaptor: MongoDB, data: dict[str, Any], ids: tuple[str, ...]) -> None:
    write(adaptor, Message("orders", data, offset=0, id_fields=ids))
    assert list(adaptor.rows("orders")) == [adaptor.stored(data)]


def test_nobody_at_the_address() -> None:
    adaptor = mongodb("mongodb://user:secret@127.0.0.1:1/shop?serverSelectionTimeoutMS=50")
    for ask in (lambda: adaptor.writer(part()), lambda: adaptor.check("source", ALL), lambda: adaptor.plan(ALL, 1)):
        with pytest.raises(Unreachable, match=r"127\.0\.0\.1:1/shop cannot be reached") as told:
            ask()
        assert "secret" not in str(told.value)


def test_what_check_tells(mongodb: str, database: Database[dict[str, Any]]) -> None:
    database.orders.insert_many([{"_id": n} for n in range(3)])
    server, counted, oplog = at(mongodb, database.name, tail=True).check("source", ALL)
    assert server.startswith("MongoDB ")
    assert counted == "orders: 3 documents"
    assert "can be followed" in oplog


def test_a_filter_that_no_server_understands_is_the_file_s_fault(mongodb: str, database: Database[dict[str, Any]]) -> None:
    database.orders.insert_one({"_id": 1})
    adaptor = at(mongodb, database.name, collection_filters={"orders": {"n": {"$unknown": 1}}})
    with pytest.raises(BadInput, match="unknown operator") as told:
        adaptor.check("source", ALL)
    assert told.value.hint == "Look at collection_filters."
    with pytest.raises(BadInput, match="unknown operator"):
        documents(adaptor, adaptor.plan(ALL, 1))


def test_a_filter_for_a_collection_that_is_not_there_is_told(mongodb: str, database: Database[dict[str, Any]]) -> None:
    database.orders.insert_one({"_id": 1})
    lines = at(mongodb, database.name, collection_filters={"order": {"open": True}}).check("source", ALL)
    assert "order: has a filter, but there is no such collection" in lines


# -- changes ------------------------------------------------------------------------------------------------


def followed(adaptor: MongoDB, cursor: Any, enough: Callable[[list[Message]], bool], chosen: Namespaces = ALL) -> tuple[list[Message], Any]:
    """The changes until there are enough, and the cursor behind them."""
    deadline = time.monotonic() + SECONDS
    seen: list[Message] = []
    for piece in adaptor.follow(cursor, chosen, lambda: time.monotonic() > deadline):
        seen += piece.messages
        cursor = msgspec.json.decode(msgspec.json.encode(piece.position))
        if enough(seen):
            return seen, cursor
    raise AssertionError(f"only {seen}")


def count(number: int) -> Callable[[list[Message]], bool]:
    return lambda seen: len(seen) >= number


def test_changes_since_before_the_copy_are_followed_in_order(mongodb: str, database: Database[dict[str, Any]]) -> None:
    adaptor = at(mongodb, database.name, tail=True)
    database.orders.insert_many([{"_id": 1, "n": 1}, {"_id": 2, "n": 2}])
    plan = adaptor.plan(ALL, 1)
    database.orders.insert_one({"_id": 3, "n": Int64(3)})
    database.other.insert_one({"_id": 1})
    database.orders.update_one({"_id": 1}, {"$set": {"deep.n": 10}})
    database.orders.replace_one({"_id": 2}, {"n": 20})
    database.orders.delete_one({"_id": 3})
    seen, cursor = followed(adaptor, plan.cursor, count(4), Namespaces("^orders$"))
    assert [(one.op, one.data) for one in seen] == [
        (Op.INSERT, {"_id": 3, "n": {"$numberLong": "3"}}),
        (Op.UPDATE, {"_id": 1, "n": 1, "deep": {"n": 10}}),
        (Op.UPDATE, {"_id": 2, "n": 20}),
        (Op.DELETE, {"_id": 3}),
    ]
    assert {(one.namespace, one.mode) for one in seen} == {("orders", Mode.SYNC)}
    assert all(one.timestamp > 1_000_000_000_000 for one in seen)
    database.orders.insert_one({"_id": 4})
    later, _ = followed(adaptor, cursor, count(1))
    assert [one.data for one in later] == [{"_id": 4}]


def test_any_cursor_can_be_gone_on_from(mongodb: str, database: Database[dict[str, Any]]) -> None:
    adaptor = at(mongodb, database.name, tail=True, batch=3)
    database.orders.insert_one({"_id": "first"})
    cursor = adaptor.plan(ALL, 1).cursor
    database.orders.insert_many([{"_id": n} for n in range(10)])
    whole, _ = followed(adaptor, cursor, count(10))
    pieces: list[Piece] = []
    for piece in adaptor.follow(cursor, ALL, lambda: False):
        pieces.append(piece)
        if sum(len(one.messages) for one in pieces) >= 10:
            break
    assert [one.data["_id"] for one in whole] == list(range(10))
    seen = 0
    for piece in pieces[:-1]:
        seen += len(piece.messages)
        rest, _ = followed(adaptor, piece.position, count(10 - seen))
        assert rest == whole[seen:]


def test_a_change_behind_many_of_others_is_found_before_following_says_that_nothing_is_new(
    mongodb: str, database: Database[dict[str, Any]]
) -> None:
    adaptor = at(mongodb, database.name, tail=True, batch=5)
    database.orders.insert_one({"_id": "first"})
    cursor = adaptor.plan(ALL, 1).cursor
    database.other.insert_many([{"_id": n} for n in range(20)])
    database.orders.insert_one({"_id": "mine"})
    following = adaptor.follow(cursor, Namespaces("^orders$"), lambda: False)
    assert [one.data for one in next(following).messages] == [{"_id": "mine"}]
    quiet = next(piece for piece in following if not piece.messages)
    assert followed(adaptor, cursor, count(1), Namespaces("^orders$"))[0]
    database.orders.insert_one({"_id": "next"})
    assert [one.data for one in followed(adaptor, quiet.position, count(1))[0]] == [{"_id": "next"}]


def test_large_changes_come_in_several_pieces_each_of_which_can_be_gone_on_from(
    mongodb: str, database: Database[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.pipeline.systems.mongodb.oplog.PIECE", 8 << 10)
    adaptor = at(mongodb, database.name, tail=True)
    database.orders.insert_many([{"_id": "first"}, {"_id": "grown", "text": "x" * (5 << 10)}])
    cursor = adaptor.plan(ALL, 1).cursor
    database.orders.insert_many([{"_id": n, "text": "x" * (5 << 10)} for n in range(3)])
    database.orders.update_one({"_id": "grown"}, {"$set": {"n": 1}})
    database.orders.update_one({"_id": 0}, {"$set": {"n": 1}})
    seen: list[tuple[list[Any], Any]] = []
    for piece in adaptor.follow(cursor, ALL, lambda: False):
        if piece.messages:
            seen.append(([one.data["_id"] for one in piece.messages], piece.position))
        if sum(len(ids) for ids, _ in seen) >= 5:
            break
    assert [one for ids, _ in seen for one in ids] == [0, 1, 2, "grown", 0]
    assert max(len(ids) for ids, _ in seen) == 2
    rest, _ = followed(adaptor, seen[0][1], count(5 - len(seen[0][0])))
    assert [one.data["_id"] for one in rest] == [one for ids, _ in seen[1:] for one in ids]


def test_what_was_updated_and_deleted_since_is_only_deleted(mongodb: str, database: Database[dict[str, Any]]) -> None:
    adaptor = at(mongodb, database.name, tail=True)
    database.orders.insert_one({"_id": 1})
    cursor = adaptor.plan(ALL, 1).cursor
    database.orders.update_one({"_id": 1}, {"$set": {"n": 1}})
    database.orders.delete_one({"_id": 1})
    seen, _ = followed(adaptor, cursor, count(1))
    assert [(one.op, one.data) for one in seen] == [(Op.DELETE, {"_id": 1})]


def test_a_filter_holds_for_changes_as_well(mongodb: str, database: Database[dict[str, Any]]) -> None:
    adaptor = at(mongodb, database.name, tail=True, collection_filters={"orders": {"open": True}})
    database.orders.insert_one({"_id": 1, "open": True})
    cursor = adaptor.plan(ALL, 1).cursor
    database.orders.insert_many([{"_id": 2, "open": False}, {"_id": 3, "open": True}])
    database.orders.update_one({"_id": 1}, {"$set": {"open": False}})
    seen, _ = followed(adaptor, cursor, count(3))
    assert [(one.op, one.data) for one in seen] == [
        (Op.DELETE, {"_id": 2}),
        (Op.INSERT, {"_id": 3, "open": True}),
        (Op.DELETE, {"_id": 1}),
    ]


def test_following_says_something_while_nothing_changes_and_ends_when_asked(mongodb: str, database: Database[dict[str, Any]]) -> None:
    adaptor = at(mongodb, database.name, tail=True)
    database.orders.insert_one({"_id": 1})
    cursor = adaptor.plan(ALL, 1).cursor
    asked: list[bool] = []
    pieces = list(adaptor.follow(cursor, ALL, lambda: len(asked) >= 2 or asked.append(True)))  # type: ignore[func-returns-value]
    assert [list(piece.messages) for piece in pieces] == [[], []]


def test_an_oplog_that_has_moved_on_is_told(mongodb: str, database: Database[dict[str, Any]]) -> None:
    adaptor = at(mongodb, database.name, tail=True)
    with pytest.raises(OffsetGone, match="no longer has the entry"):
        next(iter(adaptor.follow({"t": 1_000_000_000, "i": 1}, ALL, lambda: False)))


def test_copy_and_changes_together_leave_an_equal_collection(mongodb: str, database: Database[dict[str, Any]]) -> None:
    source, sink = at(mongodb, database.name, tail=True), at(mongodb, f"{database.name}b")
    database.orders.insert_many([{"_id": n, "n": n} for n in range(30)])
    plan = source.plan(ALL, 3)
    log: list[Message] = []
    for number, one in enumerate(plan.slices):  # things change between the slices, in what was read and in what was not
        log += [Message("orders", values.decode(text)) for piece in source.read(one, None) for text in piece.values]
        database.orders.update_many({"_id": {"$in": [1, 12, 25]}}, {"$inc": {"n": 100}})
        database.orders.delete_many({"_id": {"$in": [number, 10 + number, 20 + number]}})
        database.orders.insert_one({"_id": 1000 - number, "n": Int64(1)})
    database.orders.insert_one({"_id": "last"})
    changes, _ = followed(source, plan.cursor, lambda seen: any(one.data.get("_id") == "last" for one in seen))
    for offset, one in enumerate([*log, *changes]):
        one.offset = offset
    write(sink, *log, *changes)
    with MongoClient[dict[str, Any]](mongodb) as client:
        assert raw(client[f"{database.name}b"], "orders") == raw(database, "orders")
        client.drop_database(f"{database.name}b")


# -- a server that dies -------------------------------------------------------------------------------------


def test_a_server_that_was_killed_goes_on_where_it_was(private_servers: PrivateServers) -> None:
    running = private_servers.up("mongodb")
    uri = running.mongodb
    source = mongodb(f"{uri}/shop?serverSelectionTimeoutMS=200", tail=True, batch=10)
    sink = mongodb(f"{uri}/copy?serverSelectionTimeoutMS=200")
    with MongoClient[dict[str, Any]](uri) as client:
        client.shop.orders.insert_many([{"_id": n, "n": n} for n in range(100)])
        plan = source.plan(ALL, 1)
        client.shop.orders.insert_one({"_id": 100, "n": 100})
        settle(client)
    copying = source.read(plan.slices[0], None)
    first = next(copying)
    writer = sink.writer(part())
    writer.write(Batch(start=0, end=10, messages=numbered(10)))
    running.kill("mongodb-1")
    with pytest.raises(Unreachable):
        list(copying)
    with pytest.raises(Unreachable):
        writer.write(Batch(start=10, end=20, messages=numbered(10, start=10)))
    writer.close()
    with pytest.raises(Unreachable):
        next(source.follow(plan.cursor, ALL, lambda: False))
    running.restart("mongodb-1")
    assert source.same(plan, ALL)
    rest = [values.decode(text)["_id"] for piece in source.read(plan.slices[0], first.position) for text in piece.values]
    assert rest == list(range(10, 101))
    seen, _ = followed(source, plan.cursor, count(1))
    assert [one.data["_id"] for one in seen] == [100]
    write(sink, *numbered(20))
    assert held(sink) == {n: n for n in range(20)}


def settle(client: MongoClient[dict[str, Any]]) -> None:
    """The server writes to its file in the background, a moment after it answered: have it answer a few more times."""
    for number in range(20):
        client.settle.things.insert_one({"_id": number, "text": "x" * 1000})
        client.settle.things.find_one({"_id": bson.ObjectId()})
