"""Writing to MongoDB: whole documents put in place by `_id`, in order, so that the first one refused is known exactly."""

from __future__ import annotations

from collections.abc import Sequence
from typing import TYPE_CHECKING, Any

import bson
from bson.errors import BSONError
from bson.raw_bson import RawBSONDocument

from headwater.core.errors import BadInput, Denied, DiskFull, Rejected, Timeout, Unreachable
from headwater.pipeline import values
from headwater.pipeline.adaptor import Batch, Part, SinkWriter
from headwater.pipeline.message import Message, Op
from headwater.pipeline.systems.mongodb.link import Link
from headwater.pipeline.systems.mongodb.types import from_json

if TYPE_CHECKING:
    from pymongo import DeleteOne, ReplaceOne

    Action = ReplaceOne[dict[str, Any]] | DeleteOne

LARGEST = 16 << 20  # bytes of a document, a limit of the server
FULL = (14031,)
PASSING = (6, 7, 50, 64, 89, 91, 112, 189, 262, 9001, 10107, 11600, 11602, 13435, 13436)  # the server's state, not the document's
DUPLICATE = 11000


class MongoWriter(SinkWriter):
    """Each collection's messages go as one ordered request: what was refused stops those behind it, and only those."""

    def __init__(self, part: Part, link: Link) -> None:
        self._part, self._link = part, link

    def write(self, batch: Batch) -> None:
        by_collection: dict[str, list[Message]] = {}
        for message in batch.messages:
            by_collection.setdefault(message.namespace, []).append(message)
        # All collections are written, up to their own first refusal: then everything before the least of these is there.
        refused = [no for name, messages in by_collection.items() if (no := self._collection(name, messages)) is not None]
        if refused:
            raise min(refused, key=lambda no: no.offset)

    def close(self) -> None:
        self._link.close()

    def _collection(self, name: str, messages: Sequence[Message]) -> Rejected | None:
        from pymongo.errors import InvalidName
        from pymongo.write_concern import WriteConcern

        actions: list[Action] = []
        wrong: Rejected | None = None
        for message in messages:
            try:
                actions.append(self._action(message))
            except BadInput as error:
                wrong = Rejected(error.message, offset=message.offset, before_taken=True, hint=error.hint)
                break
        if not actions:
            return wrong
        try:
            # Acknowledged means on the disks of a majority, unless the address says otherwise.
            concern = self._link.database.write_concern
            target = self._link.database.get_collection(
                name, write_concern=concern if concern.document else WriteConcern(w="majority", j=True)
            )
        except InvalidName as error:
            return Rejected(f"No collection can be named {name!r}: {error}.", offset=messages[0].offset, before_taken=True)
        for attempt in (1, 2):
            failed = self._send(target, actions)
            if failed is None:
                return wrong
            index, code, text = failed
            if attempt == 1 and code == DUPLICATE and "_id_" in text:
                continue  # another writer put the same document there between looking and inserting: now it is found
            return Rejected(f"MongoDB refuses it: {text}.", offset=messages[index].offset, before_taken=True, hint="Correct it with edit.")
        raise AssertionError("unreachable: the second attempt returns")

    def _send(self, target: Any, actions: list[Action]) -> tuple[int, int, str] | None:
        """Which action was refused, with the code and the reason; None when all are done."""
        from pymongo.errors import BulkWriteError

        seconds = self._part.timeout
        try:
            with self._link.asking(seconds):
                try:
                    target.bulk_write(actions, ordered=True)
                except BulkWriteError as error:
                    details = dict(error.details or {})
                else:
                    return None
        except Timeout as error:
            raise Timeout(
                f"MongoDB at {self._link.where} has not taken a batch within {seconds:g} s.",
                hint="Give the sink a longer timeout or a smaller batch.",
            ) from error
        except Denied as error:  # of the whole request: no message is to blame
            raise Unreachable(error.message, hint=error.hint) from error
        for one in sorted(details.get("writeErrors", ()), key=lambda one: int(one["index"])):
            code, text = int(one.get("code") or 0), str(one.get("errmsg", "no reason was given"))
            if code in FULL:
                raise DiskFull(f"MongoDB at {self._link.where} has no space left: {text}.", hint="Make space there.")
            if code in PASSING:
                raise Unreachable(f"MongoDB at {self._link.where} cannot write now: {text}.", hint="See its log.")
            return int(one["index"]), code, text
        text = "; ".join(str(one.get("errmsg")) for one in details.get("writeConcernErrors", ()))
        raise Unreachable(f"MongoDB at {self._link.where} could not make the batch durable: {text}.", hint="See whether all members run.")

    def _action(self, message: Message) -> Action:
        """Errors: `BadInput` for a message that can be no document."""
        from pymongo import DeleteOne, ReplaceOne

        if message.op not in (Op.INSERT, Op.UPDATE, Op.DELETE):
            raise BadInput(f"MongoDB is given no commands: {values.encode(message.data).decode()[:200]}.", hint="Skip it with ack.")
        found = message.id
        named = "_id" in message.data and message.id_fields == ("_id",)  # null is an id in MongoDB
        if found is None and not named:
            if message.op is not Op.INSERT:
                raise BadInput(
                    f"The {message.op.name.lower()} names no document: it has no {', '.join(message.id_fields)}.",
                    hint="Correct it with edit.",
                )
            found = f"{self._part.pipeline}-{message.offset}"  # the same when the message is sent again
        identity = from_json(
            dict(zip(message.id_fields, found, strict=True)) if len(message.id_fields) > 1 and found is not None else found
        )
        if message.id_fields != ("_id",) and message.data.get("_id", found) != found:
            raise BadInput(f"It has an _id besides its id ({', '.join(message.id_fields)}).", hint="Leave one of them out, or rename it.")
        if message.op is Op.DELETE:
            return DeleteOne({"_id": identity})
        # `_id` comes first, as the server itself puts it: a document that began with `$set` would be taken for an order.
        document = {"_id": identity} | {name: from_json(value) for name, value in message.data.items() if name != "_id"}
        try:
            data = bson.encode(document)
        except (BSONError, OverflowError, ValueError) as error:
            raise BadInput(f"It cannot be written as BSON: {error}.", hint="Correct it with edit.") from error
        if len(data) > LARGEST:
            raise BadInput(f"It has {len(data)} bytes; MongoDB takes documents of up to {LARGEST}.", hint="Leave fields out of it.")
        return ReplaceOne({"_id": identity}, RawBSONDocument(data), upsert=True)
