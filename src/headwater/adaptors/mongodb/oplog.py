"""Following changes by the oplog of a replica set, which is polled for the entries behind the last one.

A cursor is the timestamp of an entry, with `within` for an entry of which so many changes were returned: a transaction is one entry, and
its documents may be larger than any piece. `dropped` are the followed collections that were dropped, and when: the oplog has no deletes of
their documents. Each query also asks for the cursor's entry: where it is gone, the oplog has dropped it and changes are lost.
"""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from dataclasses import dataclass, field
from typing import TYPE_CHECKING, Any

from bson import Timestamp, encode

from headwater.adaptors.mongodb.connection import MongoConnection, is_kept_out
from headwater.adaptors.mongodb.source import PIECE
from headwater.adaptors.mongodb.types import NO_TEXT, to_json
from headwater.adaptors.pieces import PieceBuffer
from headwater.core.errors import BadInput, Differs, OffsetGone, Timeout, Unsupported
from headwater.pipeline import values
from headwater.pipeline.message import Message, Mode, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import Piece

if TYPE_CHECKING:
    from collections.abc import Mapping

REST = 0.5  # seconds between two queries when nothing has changed
FIRST, MOST = 8, 128  # documents of changes that are looked up at once: each may have 16 MiB
PATIENCE = 30.0  # seconds for the newest entry to become readable
REMEMBERED = 100  # dropped collections: a cursor is written with every piece
_ANEW = "Read everything anew: `headwater pipeline run FILE --again`."


class Oplog:
    """The oplog of one replica set. One database of it is followed."""

    def __init__(
        self, connection: MongoConnection, *, clock: Callable[[], float] = time.monotonic, wait: Callable[[float], None] = time.sleep
    ) -> None:
        self._connection, self._clock, self._wait = connection, clock, wait
        self._database = connection.database.name
        self._dropped: dict[str, Timestamp] = {}
        self._at_once, self._weight = FIRST, 0  # documents looked up together, and the bytes of the last ones
        with connection.asking():
            collections = list(connection.oplog.database.list_collections(filter={"name": connection.oplog.name}))
        if not collections:
            raise Unsupported(
                f"MongoDB at {connection.where} keeps no oplog to follow.", hint="Make it a replica set (of one), or say tail=False."
            )
        # A capped collection keeps the order of its entries, and the server seeks a timestamp in it; any other must be sorted.
        # Servers before 4.4 seek only where they are told to: else each query reads the oplog from its beginning. Later ones ignore it.
        self._seeks = bool(collections[0].get("options", {}).get("capped"))
        self._order = "$natural" if self._seeks else "ts"

    def newest(self) -> dict[str, int]:
        """The cursor of the newest entry. Errors: `Timeout` while an older write in flight hides it."""
        deadline = self._clock() + PATIENCE
        while True:
            with self._connection.asking():
                last = next(iter(self._connection.oplog.find({}, {"ts": 1}).sort(self._order, -1).limit(1)), None)
                if last is None:
                    return {"t": 0, "i": 0}
                # A forward read returns an entry only when all before it are there: a write with a smaller timestamp may be in flight.
                if self._connection.oplog.find_one({"ts": last["ts"]}, {"ts": 1}, oplog_replay=self._seeks):
                    return _cursor(last["ts"])
            if self._clock() >= deadline:
                raise Timeout(
                    f"The newest entry of the oplog at {self._connection.where} cannot be read yet.", hint="See what is being written."
                )
            self._wait(REST)

    def follow(
        self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool], *, filters: Mapping[str, Any], batch: int
    ) -> Iterator[Piece]:
        position, begun = Timestamp(cursor["t"], cursor["i"]), cursor.get("within", 0)
        self._dropped = {name: Timestamp(*at) for name, at in cursor.get("dropped", {}).items()}
        while not stopped():
            entries, more = self._entries(position, batch)
            if position != Timestamp(0, 0):
                if not entries or entries[0]["ts"] != position:
                    raise self._gone(position)
                entries = entries if begun else entries[1:]
            problem, changes = None, list[OplogChange]()
            for number, entry in enumerate(entries):
                own = [change for change in self._changes(entry) if change.collection in chosen]
                if problem := self._renamed(entry, chosen) or self._filled_anew(entry, own, chosen):
                    entries = entries[:number]
                    break
                changes += own
            if begun:
                changes = [change for change in changes if change.stamp != position or change.number >= begun]
            if entries:
                position, begun = entries[-1]["ts"], 0
            for some, end in self._groups(changes):
                self._look_up_all(some, filters)
                yield from self._pieces(some, end, filters)
            if problem is not None:
                raise problem
            if not more:  # an empty piece says that there is nothing new
                yield Piece(position=self._cursor(position))
                if not entries:
                    self._wait(REST)

    def _renamed(self, entry: dict[str, Any], chosen: Namespaces) -> Differs | None:
        """An error for a followed collection that gets another name, or all documents of another one, as by `$out`: none is told of."""
        value = entry.get("o") or {}
        if entry["op"] != "c" or "renameCollection" not in value:
            return None
        names = [str(value[end]).partition(".")[::2] for end in ("renameCollection", "to")]
        if not any(database == self._database and collection in chosen for database, collection in names):
            return None
        return Differs(
            f"The collection {value['renameCollection']} was renamed to {value['to']}: its documents are in no change.",
            hint=_ANEW,
        )

    def _filled_anew(self, entry: dict[str, Any], changes: Sequence[OplogChange], chosen: Namespaces) -> Differs | None:
        """An error for a followed collection that has new documents after it was dropped: none of the old ones was deleted one by one."""
        value, stamp = entry.get("o") or {}, entry["ts"]
        ours = entry["op"] == "c" and str(entry.get("ns", "")).partition(".")[0] == self._database
        if ours and "drop" in value and (name := str(value["drop"])) in chosen:
            self._dropped = dict([*self._dropped.items(), (name, stamp)][-REMEMBERED:])
        for change in changes:
            if change.op is Op.INSERT and self._dropped.get(change.collection, stamp) < stamp:
                return Differs(
                    f"The collection {change.collection} was dropped, and has new documents: those from before are in no change.",
                    hint=_ANEW,
                )
        return None

    def _gone(self, position: Timestamp) -> OffsetGone:
        return OffsetGone(
            f"The oplog at {self._connection.where} no longer has the entry of {position.as_datetime():%Y-%m-%d %H:%M:%S} UTC.",
            hint="Changes since then were dropped there: give the server a larger oplog, and start the copy anew: "
            "`headwater pipeline run FILE --again`.",
        )

    def _entries(self, position: Timestamp, batch: int) -> tuple[list[dict[str, Any]], bool]:
        """The entry at a position and those behind it, as many as fit into a piece; and whether there are more."""
        entries: list[dict[str, Any]] = []
        weight = 0
        query = self._connection.oplog.find({"ts": {"$gte": position}}, oplog_replay=self._seeks).sort(self._order, 1).limit(batch + 1)
        with self._connection.asking(), query:
            for entry in query:
                entries.append(entry)
                weight += len(encode(entry))
                if len(entries) > batch or (weight > PIECE and len(entries) > 1):  # a server that seeks may know no limit
                    return entries, True
        return entries, False

    def _changes(self, entry: dict[str, Any]) -> Iterator[OplogChange]:
        """The changes of an entry that are about this database, numbered: a transaction is one entry, or several in a chain."""
        for number, operation in enumerate(self._operations(entry)):
            change = self._change(operation, entry["ts"], number)
            if change is not None:
                yield change

    def _operations(self, entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The operations on documents that an entry tells of."""
        op, value = entry["op"], entry.get("o") or {}
        if op == "c" and "commitTransaction" in value:
            # What a transaction does that was prepared counts from its commit on; the entries before have the operations.
            for before in self._chain(entry):
                yield from self._operations({**before, "o": {"applyOps": before["o"].get("applyOps", ())}})
        elif op == "c" and "applyOps" in value:
            for inner in () if value.get("prepare") else value["applyOps"]:
                for operation in self._operations(inner):
                    yield {**operation, "inner": True}
        else:
            yield entry

    def _chain(self, entry: dict[str, Any]) -> Iterator[dict[str, Any]]:
        """The entries of a transaction before this one, in their order. Errors: `OffsetGone`."""
        stamps: list[Timestamp] = []
        stamp = _before(entry)
        while stamp is not None:
            stamps.append(stamp)
            stamp = _before(self._entry(stamp, {"ts": 1, "prevOpTime": 1}))
        for stamp in reversed(stamps):
            yield self._entry(stamp)

    def _entry(self, stamp: Timestamp, fields: dict[str, int] | None = None) -> dict[str, Any]:
        with self._connection.asking():
            entry = self._connection.oplog.find_one({"ts": stamp}, fields, oplog_replay=self._seeks)
        if entry is None:
            raise self._gone(stamp)
        return entry

    def _change(self, entry: dict[str, Any], stamp: Timestamp, number: int) -> OplogChange | None:
        op, value = entry["op"], entry.get("o") or {}
        database, _, collection = str(entry.get("ns", "")).partition(".")
        if database != self._database or op not in ("i", "u", "d") or not collection or is_kept_out(collection):
            return None
        if op == "u":
            return OplogChange(collection, Op.UPDATE, entry["o2"]["_id"], stamp, number=number)
        if op == "d":
            return OplogChange(collection, Op.DELETE, value["_id"], stamp, number=number)
        # Those of a transaction are looked up instead: the collection has what was committed.
        return OplogChange(collection, Op.INSERT, value["_id"], stamp, None if entry.get("inner") else value, number)

    def _groups(self, changes: Sequence[OplogChange]) -> Iterator[tuple[Sequence[OplogChange], Any]]:
        """Changes whose documents are looked up at once, and the cursor behind them. Fewer after large documents: entries are small, and
        the documents that they change may be large."""
        start = 0
        while start < len(changes):
            end = min(len(changes), start + self._at_once)
            self._weight = 0
            yield changes[start:end], self._behind(changes, end - 1)
            self._at_once = max(1, min(MOST, self._at_once * PIECE // max(self._weight, PIECE // 2)))
            start = end

    def _pieces(self, changes: Sequence[OplogChange], end: Any, filters: Mapping[str, Any]) -> Iterator[Piece]:
        """The messages of changes. `end`: the cursor behind the last one."""
        gathered = PieceBuffer(PIECE)
        for number, change in enumerate(changes):
            message, wrong, size = _message(change, filters)
            if message is not None:
                gathered.add(message, wrong, size=size)
                self._weight += size
            last = number + 1 == len(changes)
            if gathered and (last or gathered.full):
                yield gathered.piece(end if last else self._behind(changes, number))

    def _cursor(self, stamp: Timestamp) -> dict[str, Any]:
        dropped = {name: [at.time, at.inc] for name, at in self._dropped.items()}
        return _cursor(stamp) | ({"dropped": dropped} if dropped else {})

    def _behind(self, changes: Sequence[OplogChange], number: int) -> dict[str, Any]:
        """The cursor behind a change: of its entry, or inside of the entry where more of its changes follow."""
        change = changes[number]
        inside = number + 1 < len(changes) and changes[number + 1].stamp == change.stamp
        return self._cursor(change.stamp) | ({"within": change.number + 1} if inside else {})

    def _look_up_all(self, changes: Sequence[OplogChange], filters: Mapping[str, Any]) -> None:
        for collection in {change.collection for change in changes}:
            wanted = [change for change in changes if change.collection == collection and change.wanted(filters)]
            self._look_up(wanted, collection, filters.get(collection))

    def _look_up(self, changes: Sequence[OplogChange], collection: str, chosen: Any) -> None:
        """Read the documents that were changed, whole and as they are now."""
        if not changes:
            return
        query: dict[str, Any] = {"_id": {"$in": list({_key(change.id): change.id for change in changes}.values())}}
        with self._connection.asking():
            documents = {
                _key(document["_id"]): document
                for document in self._connection.database[collection].find({"$and": [chosen, query]} if chosen else query)
            }
        for change in changes:
            change.document = documents.get(_key(change.id))


@dataclass(slots=True)
class OplogChange:
    """One change of one document. Without `document` it is to be looked up, or deleted."""

    collection: str
    op: Op
    id: Any
    stamp: Timestamp  # of its entry
    document: dict[str, Any] | None = field(default=None)
    number: int = 0  # of the entry's operations

    def wanted(self, filters: Mapping[str, Any]) -> bool:
        """Whether the document is to be looked up: also where there is a filter, which only the server can evaluate."""
        return self.op is not Op.DELETE and (self.document is None or self.collection in filters)


def _message(change: OplogChange, filters: Mapping[str, Any]) -> tuple[Message | None, str, int]:
    """The message of a change, its error (may be empty) and its size. No message where the document is deleted: the delete follows."""
    op, wrong = change.op, ""
    if op is not Op.DELETE and change.document is None:
        if change.collection not in filters:
            return None, "", 0
        op = Op.DELETE  # deleted, or no longer matched by the filter
    try:
        data = {"_id": to_json(change.id)} if op is Op.DELETE else to_json(change.document)
        size = len(values.store(data))
    except (BadInput, UnicodeEncodeError) as error:
        data, wrong, size = {}, error.message if isinstance(error, BadInput) else NO_TEXT, 2
    return Message(change.collection, data, op, change.stamp.time * 1000, Mode.SYNC), wrong, size


def _cursor(stamp: Timestamp) -> dict[str, int]:
    return {"t": stamp.time, "i": stamp.inc}


def _before(entry: Mapping[str, Any]) -> Timestamp | None:
    """The timestamp of the entry before, in the chain of a transaction; None for its first one."""
    stamp = (entry.get("prevOpTime") or {}).get("ts")
    return stamp if isinstance(stamp, Timestamp) and stamp != Timestamp(0, 0) else None


def _key(value: Any) -> bytes:
    """A hashable key of any id."""
    return encode({"": value})
