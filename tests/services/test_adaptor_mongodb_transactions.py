"""Transactions and commands in the oplog, against a real server that speaks MongoDB's protocol.

That server has no transactions: the entries are written by hand, as a replica set writes them, into a collection that is read as the oplog.
The documents are the server's.
"""

from __future__ import annotations

from collections.abc import Iterator, Sequence
from pathlib import Path
from typing import Any

import msgspec
import pytest
from bson import Timestamp
from mongodb_ground import ALL, a_database, at
from pymongo.database import Database

from headwater.adaptors.mongodb.adaptor import MongoDB
from headwater.adaptors.mongodb.connection import MongoConnection
from headwater.core.errors import Differs, OffsetGone
from headwater.log.embedded.log import EmbeddedLog
from headwater.log.record import Mode
from headwater.pipeline.message import Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.running.pieces import FOLLOWING, append
from headwater.pipeline.running.work import CopyProgress
from headwater.pipeline.source_adaptor import Piece

FIRST = {"t": 100, "i": 1}


@pytest.fixture
def database(mongodb: str, monkeypatch: pytest.MonkeyPatch) -> Iterator[Database[dict[str, Any]]]:
    monkeypatch.setattr("headwater.adaptors.mongodb.oplog.REST", 0.01)
    with a_database(mongodb) as made:
        connect = MongoDB.connect

        def connected(self: MongoDB) -> MongoConnection:
            connection = connect(self)
            connection.oplog = connection.database["oplog.rs"]
            return connection

        monkeypatch.setattr(MongoDB, "connect", connected)
        made["oplog.rs"].insert_one({"ts": Timestamp(100, 1), "op": "n", "o": {}})
        yield made


def updates(database: Database[dict[str, Any]], ids: Sequence[Any], collection: str = "orders") -> list[dict[str, Any]]:
    ns = f"{database.name}.{collection}"
    return [{"op": "u", "ns": ns, "o": {"$v": 2, "diff": {"u": {"n": 1}}}, "o2": {"_id": one}} for one in ids]


def entry(database: Database[dict[str, Any]], number: int, o: dict[str, Any], before: int = 0) -> None:
    told = {"ts": Timestamp(100, before) if before else Timestamp(0, 0), "t": 1 if before else -1}
    database["oplog.rs"].insert_one({"ts": Timestamp(100, number), "op": "c", "ns": "admin.$cmd", "o": o, "prevOpTime": told})


def pieces_behind(adaptor: MongoDB, cursor: Any, count: int) -> list[Piece]:
    """The pieces with messages behind a cursor, until there are so many messages."""
    found: list[Piece] = []
    for number, piece in enumerate(adaptor.follow(cursor, Namespaces("^orders$"), lambda: False)):
        found += [piece] if piece.messages else []
        if sum(len(one.messages) for one in found) >= count:
            return found
        assert number < 200, f"only {found}"
    raise AssertionError("following has ended")


def ids(pieces: Sequence[Piece]) -> list[Any]:
    return [one.data["_id"] for piece in pieces for one in piece.messages]


def test_a_transaction_comes_in_pieces_and_each_of_them_can_be_gone_on_from(
    mongodb: str, database: Database[dict[str, Any]], monkeypatch: pytest.MonkeyPatch
) -> None:
    monkeypatch.setattr("headwater.adaptors.mongodb.oplog.PIECE", 8 << 10)
    monkeypatch.setattr("headwater.adaptors.mongodb.oplog.FIRST", 4)
    adaptor = at(mongodb, database.name, tail=True)
    database.orders.insert_many([{"_id": n, "text": "x" * (3 << 10)} for n in range(21)])
    others = updates(database, ["a", "b"], "other")
    entry(database, 2, {"applyOps": [*others, *updates(database, range(10)), *others, *updates(database, range(10, 20)), *others]})
    entry(database, 3, {"applyOps": [*updates(database, [20]), {"op": "d", "ns": f"{database.name}.orders", "o": {"_id": 7}}]})
    whole = pieces_behind(adaptor, FIRST, 22)
    assert ids(whole) == [*range(21), 7]
    assert max(len(piece.messages) for piece in whole) <= 3
    assert any("within" in piece.position for piece in whole)
    for number, piece in enumerate(whole[:-1]):
        rest = [*range(21), 7][len(ids(whole[: number + 1])) :]
        assert ids(pieces_behind(adaptor, msgspec.json.decode(msgspec.json.encode(piece.position)), len(rest))) == rest


def test_a_transaction_larger_than_a_batch_of_the_log_is_read_to_its_end(
    mongodb: str, database: Database[dict[str, Any]], tmp_path: Path
) -> None:
    """80 updates of a few bytes each, of a document of 1 MiB."""
    adaptor = at(mongodb, database.name, tail=True)
    database.orders.insert_one({"_id": 0, "text": "x" * (1 << 20)})
    entry(database, 2, {"applyOps": updates(database, [0] * 80)})
    with EmbeddedLog(tmp_path) as log:
        log.create_topic("t")
        writer, cursor, read = log.claim("t", 0), dict(FIRST), 0
        while read < 80:  # each piece by a run of its own
            piece = next(one for one in adaptor.follow(cursor, ALL, lambda: False) if one.messages)
            cursor = piece.position
            read += append(writer, piece, "", CopyProgress("c", FOLLOWING, cursor, 0), ids={}, mode=Mode.SYNC)[0]
        assert (read, cursor) == (80, {"t": 100, "i": 2})


def test_what_a_prepared_transaction_does_counts_from_its_commit_on(mongodb: str, database: Database[dict[str, Any]]) -> None:
    """Its entries before tell what it will do, and a document looked up then is as it was before."""
    adaptor = at(mongodb, database.name, tail=True)
    database.orders.insert_many([{"_id": n, "n": 0} for n in range(4)])
    entry(database, 2, {"applyOps": updates(database, [0, 1]), "partialTxn": True})
    entry(database, 3, {"applyOps": updates(database, [2]), "prepare": True}, before=2)
    entry(database, 4, {"applyOps": updates(database, [3])})
    before = pieces_behind(adaptor, FIRST, 3)
    assert ids(before)[-1] == 3
    assert 2 not in ids(before)
    database.orders.update_many({"_id": {"$lt": 3}}, {"$set": {"n": 1}})
    entry(database, 5, {"commitTransaction": 1, "commitTimestamp": Timestamp(100, 4)}, before=3)
    behind = pieces_behind(adaptor, before[-1].position, 3)
    assert [(one.op, one.data) for piece in behind for one in piece.messages] == [(Op.UPDATE, {"_id": n, "n": 1}) for n in range(3)]
    entry(database, 6, {"abortTransaction": 1}, before=3)
    assert not next(iter(adaptor.follow(behind[-1].position, ALL, lambda: False))).messages
    database["oplog.rs"].delete_one({"ts": Timestamp(100, 2)})
    with pytest.raises(OffsetGone):
        pieces_behind(adaptor, before[-1].position, 1)


@pytest.mark.parametrize(("old", "new"), [("tmp.agg_out.1", "orders"), ("orders", "archive")])
def test_a_followed_collection_that_is_renamed_or_replaced_is_told(
    mongodb: str, database: Database[dict[str, Any]], old: str, new: str
) -> None:
    """As `$out` does it: the documents of a collection are others, and no entry is about one of them."""
    adaptor = at(mongodb, database.name, tail=True)
    database.orders.insert_one({"_id": 1, "n": 0})
    entry(database, 2, {"applyOps": updates(database, [1])})
    entry(database, 3, {"renameCollection": f"{database.name}.other", "to": f"{database.name}.another"})
    entry(database, 4, {"renameCollection": f"{database.name}.{old}", "to": f"{database.name}.{new}", "dropTarget": True})
    entry(database, 5, {"applyOps": updates(database, [1])})
    pieces = adaptor.follow(FIRST, Namespaces("^orders$"), lambda: False)
    assert ids([next(pieces)]) == [1]
    with pytest.raises(Differs, match=f"{old} was renamed to"):
        next(pieces)


def test_a_followed_collection_that_is_dropped_and_filled_anew_is_told(mongodb: str, database: Database[dict[str, Any]]) -> None:
    """As `mongorestore --drop` does it: documents that are not there any more have no delete. What comes before the drop is passed on."""
    adaptor = at(mongodb, database.name, tail=True)
    dropped = {"op": "c", "ns": f"{database.name}.$cmd", "o": {"drop": "orders"}}
    inserted = {"op": "i", "ns": f"{database.name}.orders"}
    for number, n in ((2, 1), (3, 2)):
        database["oplog.rs"].insert_one({"ts": Timestamp(100, number), **inserted, "o": {"_id": n}})
    database["oplog.rs"].insert_one({"ts": Timestamp(100, 4), **dropped})
    database["oplog.rs"].insert_one({"ts": Timestamp(100, 5), **dropped, "o": {"create": "orders"}})
    small = msgspec.structs.replace(adaptor, batch=1)
    before = pieces_behind(small, FIRST, 2)
    assert ids(before) == [1, 2]
    assert ids(pieces_behind(adaptor, before[0].position, 1)) == [2]
    behind = next(piece for piece in adaptor.follow(before[-1].position, ALL, lambda: False) if piece.position["i"] == 5)
    database["oplog.rs"].insert_one({"ts": Timestamp(100, 7), **inserted, "ns": f"{database.name}.other", "o": {"_id": 3}})
    database["oplog.rs"].insert_one({"ts": Timestamp(100, 8), **inserted, "o": {"_id": 4}})
    for cursor in (FIRST, before[0].position, behind.position):
        with pytest.raises(Differs, match="orders was dropped, and has new documents"):
            pieces_behind(adaptor, cursor, 9)
