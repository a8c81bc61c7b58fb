"""The MongoDB adaptor against a real server that speaks its protocol: following changes."""

from __future__ import annotations

import threading
import time
from collections.abc import Callable, Iterator, Mapping, Sequence
from typing import Any

import bson
import msgspec
import pytest
from bson import Int64
from mongodb_ground import ALL, a_database, at, documents, held, numbered, part, raw, write
from pymongo import MongoClient
from pymongo.database import Database
from tools.services.private import PrivateServers

from headwater.adaptors.mongodb.adaptor import MongoDB, mongodb
from headwater.adaptors.mongodb.oplog import Oplog, OplogChange
from headwater.core.errors import OffsetGone, Unreachable
from headwater.pipeline import values
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch
from headwater.pipeline.source_adaptor import Piece

SECONDS = 120.0


@pytest.fixture(autouse=True)
def _restless(monkeypatch: pytest.MonkeyPatch) -> None:
    """Between two questions nothing is to be waited for here."""
    monkeypatch.setattr("headwater.adaptors.mongodb.oplog.REST", 0.01)


@pytest.fixture
def database(mongodb: str) -> Iterator[Database[dict[str, Any]]]:
    with a_database(mongodb) as made:
        yield made


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
        (Op.INSERT, {"_id": 3, "n": 3}),
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
    monkeypatch.setattr("headwater.adaptors.mongodb.oplog.PIECE", 8 << 10)
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


def test_documents_are_looked_up_few_at_once_where_they_are_large(
    mongodb: str, database: Database[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    """An entry of a few bytes can tell of a document of megabytes: those of a whole batch would not fit into memory."""
    monkeypatch.setattr("headwater.adaptors.mongodb.oplog.PIECE", 10_000)
    monkeypatch.setattr("headwater.adaptors.mongodb.oplog.FIRST", 8)
    groups: list[int] = []
    look_up = Oplog._look_up_all

    def counted(self: Oplog, changes: Sequence[OplogChange], filters: Mapping[str, Any]) -> None:
        groups.append(len(changes))
        look_up(self, changes, filters)

    monkeypatch.setattr(Oplog, "_look_up_all", counted)
    adaptor = at(mongodb, database.name, tail=True)
    database.orders.insert_many([{"_id": n, "text": "x" * 5000} for n in range(40)])
    cursor = adaptor.plan(ALL, 1).cursor
    for n in range(40):
        database.orders.update_one({"_id": n}, {"$set": {"n": n}})
    changes, _ = followed(adaptor, cursor, count(40))
    assert [one.data["n"] for one in changes] == list(range(40))
    assert all(number <= 8 for number in groups)
    assert sum(groups[1:]) / len(groups[1:]) < 4


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


def test_what_others_write_while_a_copy_begins_is_in_the_copy_or_in_the_changes(mongodb: str, database: Database[dict[str, Any]]) -> None:
    source, ended = at(mongodb, database.name, tail=True), threading.Event()
    database.orders.insert_many([{"_id": n, "n": 0} for n in range(50)])

    def write_on(worker: int) -> None:
        number = 0
        while not ended.is_set():
            number += 1
            database.orders.update_one({"_id": (worker + number * 4) % 50}, {"$inc": {"n": 1}})
            database.orders.insert_one({"_id": f"{worker}-{number}", "n": number})

    writers = [threading.Thread(target=write_on, args=(worker,)) for worker in range(4)]
    for writer in writers:
        writer.start()
    try:
        plan = source.plan(ALL, 3)
        state = {str(one["_id"]): one for one in documents(source, plan)}
    finally:
        ended.set()
        for writer in writers:
            writer.join()
    database.orders.insert_one({"_id": "last"})
    changes, _ = followed(source, plan.cursor, lambda seen: any(one.data.get("_id") == "last" for one in seen))
    state |= {str(one.data["_id"]): one.data for one in changes}
    assert state == {str(one["_id"]): one for one in database.orders.find()}


# -- a server that dies -------------------------------------------------------------------------------------


def test_a_server_that_was_killed_goes_on_where_it_was(private_servers: PrivateServers) -> None:
    running = private_servers.up("mongodb")
    uri = running.mongodb
    source = mongodb(f"{uri}/shop?serverSelectionTimeoutMS=1000", tail=True, batch=10)
    sink = mongodb(f"{uri}/copy?serverSelectionTimeoutMS=1000")
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
