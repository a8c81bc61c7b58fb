"""The MongoDB adaptor against a real server that speaks its protocol: copying and writing."""

from __future__ import annotations

from collections.abc import Iterator
from contextlib import suppress
from datetime import UTC, datetime
from decimal import Decimal
from typing import Any

import msgspec
import pytest
from bson import Binary, Code, DatetimeMS, Decimal128, Int64, MaxKey, MinKey, ObjectId, Regex, Timestamp
from mongodb_ground import ALL, a_database, at, documents, held, message, numbered, part, raw, write
from pymongo.database import Database

from headwater.adaptors.mongodb.adaptor import MongoDB, mongodb
from headwater.adaptors.mongodb.sink import MongoWriter
from headwater.core.errors import BadInput, NotFound, Rejected, Timeout, Unreachable
from headwater.pipeline import values
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch
from headwater.pipeline.source_progress import CopySize
from headwater.testing.adaptor_contract import CopyContract, SinkContract


@pytest.fixture
def database(mongodb: str) -> Iterator[Database[dict[str, Any]]]:
    with a_database(mongodb) as made:
        yield made


@pytest.fixture
def adaptor(mongodb: str, database: Database[dict[str, Any]]) -> MongoDB:
    return at(mongodb, database.name)


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


def test_the_size_of_a_copy_is_the_server_s_count_and_unknown_behind_a_filter(
    mongodb: str, adaptor: MongoDB, database: Database[dict[str, Any]]
) -> None:
    database.orders.insert_many([{"n": n} for n in range(60)])
    database.clients.insert_many([{"n": n} for n in range(5)])
    assert adaptor.plan(ALL, 3).size == CopySize(total=65, unit="documents", estimate=True)
    chosen = at(mongodb, database.name, collection_filters={"orders": {"n": {"$gt": 5}}})
    assert chosen.plan(ALL, 3).size is None
    assert chosen.plan(Namespaces("clients"), 3).size == CopySize(total=5, unit="documents", estimate=True)


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
                "dates beyond Python's": [DatetimeMS(253402300800000), DatetimeMS(-62135596800001)],
                "code": Code("f()"),
                "ends": [MinKey(), MaxKey()],
                "nothing": None,
                "nested": {"z": [1, {"a": Int64(1)}, []], "a": {}, "true": True},
            },
            {"_id": {"b": Int64(1), "a": 2}},
            {"_id": Binary(bytes(16), 4)},
            {"_id": DatetimeMS(253402300800000)},
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
        (message(3, namespace="headwater_owners", _id="p/s", claim=""), "notes of who writes"),
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


def test_a_refusal_counts_nothing_as_taken_where_the_batch_is_not_durable(adaptor: MongoDB) -> None:
    """A server of one member has no majority to lose: the answer that a larger one gives is read."""
    writer = adaptor.writer(part())
    assert isinstance(writer, MongoWriter)
    refused = {"index": 1, "code": 121, "errmsg": "no"}
    try:
        with pytest.raises(Unreachable, match="durable: waiting"):
            writer._refused({"writeErrors": [refused], "writeConcernErrors": [{"code": 64, "errmsg": "waiting timed out"}]})
        assert writer._refused({"writeErrors": [refused], "writeConcernErrors": []}).number == 1
    finally:
        writer.close()


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
