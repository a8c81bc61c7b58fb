"""Writing to MongoDB: whole documents replaced by `_id`, in order, so that the first refused one is known exactly."""

from __future__ import annotations

import time
from collections.abc import Callable, Iterator, Sequence
from typing import Any, NamedTuple

import bson
from bson import Regex
from bson.errors import BSONError
from bson.raw_bson import DEFAULT_RAW_BSON_OPTIONS, RawBSONDocument
from pymongo import DeleteOne, ReplaceOne
from pymongo.errors import BulkWriteError, InvalidName, WriteError
from pymongo.write_concern import WriteConcern

from headwater.adaptors.converting_writer import ConvertingWriter, blaming_no_message, identity_of, made_id
from headwater.adaptors.mongodb.adaptor import MongoDB
from headwater.adaptors.mongodb.connection import MongoConnection
from headwater.adaptors.mongodb.owner import MongoOwnerNote
from headwater.adaptors.mongodb.types import CODEC, as_read, from_json, row, to_json
from headwater.adaptors.owner_note import NAME
from headwater.core.errors import BadInput, Denied, DiskFull, Rejected, Timeout, Unreachable
from headwater.pipeline import values
from headwater.pipeline.claim import SinkClaim
from headwater.pipeline.location import Location
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Part, SinkAdaptor, SinkWriter

LARGEST = 16 << 20  # bytes of a document, a limit of the server
FULL = (14031,)
PASSING = frozenset(  # the server's state, not the document's
    {6, 7, 24, 50, 64, 89, 91, 112, 133, 134, 189, 202, 237, 262, 317, 9001, 10058, 10107, 11600, 11601, 11602, 13435, 13436}
)
DUPLICATE = 11000
# The client decodes a document to see whether it is empty: a date beyond Python's range would end the batch there.
_RAW = DEFAULT_RAW_BSON_OPTIONS.with_options(datetime_conversion=CODEC.datetime_conversion)


class MongoAction(NamedTuple):
    """The write of a message: replaces the document with its id, or deletes it."""

    offset: int
    collection: str
    match: dict[str, Any]
    document: RawBSONDocument | None


class MongoRefusal(NamedTuple):
    """Which action of a request the server refuses, and why."""

    number: int
    code: int
    text: str


class MongoSink(SinkAdaptor[MongoDB]):
    """The collections of one database."""

    def check(self, chosen: Namespaces) -> list[str]:
        with self.adaptor.connect() as connection:
            return [f"MongoDB {connection.version()} at {connection.where}"]

    def writer(self, part: Part) -> SinkWriter:
        connection = self.adaptor.connect()
        try:
            MongoOwnerNote(connection, part.pipeline, part.sink).check(part.epoch)  # reports a wrong URI, too, before the first message
        except BaseException:
            connection.close()
            raise
        return MongoWriter(part, connection)

    def owner(self, pipeline: str, sink: str) -> SinkClaim | None:
        with self.adaptor.connect() as connection:
            return MongoOwnerNote(connection, pipeline, sink).owner()

    def claim(self, mine: SinkClaim, former: SinkClaim | None = None) -> bool:
        with self.adaptor.connect() as connection:
            MongoOwnerNote(connection, mine.pipeline, mine.sink).claim(mine, former)
        return True

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        return row(as_read(data))

    def identified(self, message: Message, pipeline: str) -> tuple[Any, dict[str, Any]]:
        if message.id is None and not has_id(message):
            identity = made_id(pipeline, message)
            return [identity], {"_id": identity} | message.data
        message_id = message.id  # null, too, is the id of one document; and the order of an id's fields tells documents apart
        return [[values.store({"_id": message_id}).decode()] if isinstance(message_id, dict | list) else message_id], message.data

    def overlaps(self, reads: Sequence[Location]) -> list[Location]:
        with self.adaptor.connect() as connection:
            systems = connection.identities()
        return [place for place in reads if place.system in systems]

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        """The collection's documents as extended JSON, without an `_id` that repeats other fields."""
        with self.adaptor.connect() as connection, connection.asking():
            for document in connection.database[namespace].find().sort("_id", 1):
                yield row(to_json(document))


class MongoWriter(ConvertingWriter[MongoAction]):
    """Writes each collection with one ordered request: a refused message stops those behind it in its collection."""

    def __init__(self, part: Part, connection: MongoConnection, *, clock: Callable[[], float] = time.monotonic) -> None:
        super().__init__(part, f"MongoDB at {connection.where}", clock=clock)
        self._connection = connection

    def send(self, converted: Sequence[MongoAction]) -> None:
        by_collection: dict[str, list[MongoAction]] = {}
        for action in converted:
            by_collection.setdefault(action.collection, []).append(action)
        # Every collection is written up to its first refusal, so everything before the least of these offsets is there.
        refused = [no for name, actions in by_collection.items() if (no := self._collection(name, actions)) is not None]
        if refused:
            raise min(refused, key=lambda no: no.offset)

    def close(self) -> None:
        self._connection.close()

    def _collection(self, name: str, actions: list[MongoAction]) -> Rejected | None:
        """Write one collection's documents. Returns the first one that is refused; all before it are written."""
        try:
            # Acknowledged means on the disks of a majority, unless the URI says otherwise.
            concern = self._connection.database.write_concern
            target = self._connection.database.get_collection(
                name, write_concern=concern if concern.document else WriteConcern(w="majority", j=True)
            )
        except InvalidName as error:
            return Rejected(
                f"No collection can be named {name!r}: {error}.",
                offset=actions[0].offset,
                before_taken=True,
                hint="Change the namespace with remap.",
            )
        failed = self._send(target, actions)
        if failed is not None and failed.code == DUPLICATE and "_id_" in failed.text:
            failed = self._send(target, actions)  # another writer inserted the document between the lookup and the insert
        if failed is None:
            return None
        return Rejected(
            f"MongoDB refuses it: {failed.text}.", offset=actions[failed.number].offset, before_taken=True, hint="Correct it with edit."
        )

    def _send(self, target: Any, actions: list[MongoAction]) -> MongoRefusal | None:
        """All of them in order, up to the first that is refused; None when all are done. Errors: `Unreachable`, `Timeout`, `DiskFull`."""
        left = self.left()
        self.fence()
        try:
            with blaming_no_message(Denied), self._connection.asking(left):
                try:
                    target.bulk_write(
                        [
                            DeleteOne(action.match) if action.document is None else ReplaceOne(action.match, action.document, True)
                            for action in actions
                        ],
                        ordered=True,
                    )
                    return None
                except BulkWriteError as error:
                    return self._refused(dict(error.details or {}))
                except KeyError as error:
                    if error.args != ("code",):
                        raise
                    # Some servers send refusals without a code. pymongo reads such a response of a single write only.
                    return self._one_by_one(target, actions)
        except Timeout as error:
            raise self.late() from error

    def _one_by_one(self, target: Any, actions: list[MongoAction]) -> MongoRefusal | None:
        for number, action in enumerate(actions):
            self.fence()
            try:
                if action.document is None:
                    target.delete_one(action.match)
                else:
                    target.replace_one(action.match, action.document, upsert=True)
            except WriteError as error:
                return self._refused({"writeErrors": [{**(error.details or {}), "index": number}]})
        return None

    def _refused(self, details: dict[str, Any]) -> MongoRefusal:
        """The refused write of a response. Errors: `DiskFull`, `Unreachable` where the server is to blame."""
        where = self._where
        lost = "; ".join(str(concern.get("errmsg")) for concern in details.get("writeConcernErrors", ()))
        if lost:  # the writes may be rolled back, so nothing counts as taken
            raise Unreachable(f"{where} could not make the batch durable: {lost}.", hint="See whether all members run.")
        for refusal in sorted(details.get("writeErrors", ()), key=lambda entry: int(entry["index"])):
            code, text = int(refusal.get("code") or 0), str(refusal.get("errmsg", "no reason was given")).rstrip(".")
            if code in FULL:
                raise DiskFull(f"{where} has no space left: {text}.", hint="Make space there.")
            if code in PASSING:
                raise Unreachable(f"{where} cannot write now: {text}.", hint="See its log.")
            return MongoRefusal(int(refusal["index"]), code, text)
        raise Unreachable(f"{where} did not say which write it has refused.", hint="See its log.")

    def convert(self, message: Message) -> MongoAction:
        if message.namespace == NAME:
            raise BadInput(f"The collection {NAME} has the notes of who writes to the database.", hint="Change the namespace with remap.")
        named = has_id(message)
        message_id = identity_of(message, "MongoDB", needed=() if named else (Op.UPDATE, Op.DELETE))
        if message_id is None and not named:
            message_id = made_id(self._part.pipeline, message)
        identity = from_json(
            dict(zip(message.id_fields, message_id, strict=True)) if len(message.id_fields) > 1 and message_id is not None else message_id
        )
        if message.id_fields != ("_id",) and message.data.get("_id", message_id) != message_id:
            raise BadInput(
                f"The document has an _id besides its id ({', '.join(message.id_fields)}).", hint="Leave one of them out, or rename it."
            )
        # An object or a regular expression would be a condition, and could match another document: {"$gt": ""} matches any.
        match = {"_id": {"$eq": identity} if isinstance(identity, dict | Regex) else identity}
        if message.op is Op.DELETE:
            return MongoAction(message.offset, message.namespace, match, None)
        # `_id` comes first, as in the server: a document that begins with `$set` would be an update operator.
        document = {"_id": identity} | {name: from_json(value) for name, value in message.data.items() if name != "_id"}
        try:
            data = bson.encode(document)
        except (BSONError, OverflowError, ValueError) as error:
            raise BadInput(f"The document cannot be written as BSON: {error}.", hint="Correct it with edit.") from error
        if len(data) > LARGEST:
            raise BadInput(f"The document has {len(data)} bytes; MongoDB takes at most {LARGEST}.", hint="Leave fields out of it.")
        return MongoAction(message.offset, message.namespace, match, RawBSONDocument(data, _RAW))


def has_id(message: Message) -> bool:
    """Whether the document has an `_id`, by which it is identified: null is an id in MongoDB."""
    return "_id" in message.data and message.id_fields == ("_id",)
