"""Copying collections in ranges of `_id`, each read in the order of `_id` and resumed behind the last one.

MongoDB compares only values of one type: `{$gt: 5}` finds no text. So every slice has ids of one type, and no id is left out.
"""

from __future__ import annotations

import math
from collections.abc import Callable, Container, Iterator, Mapping
from datetime import datetime
from itertools import pairwise
from typing import TYPE_CHECKING, Any

from bson import DatetimeMS, DBRef, Decimal128, Int64, MaxKey, MinKey, ObjectId, Timestamp

from headwater.adaptors.mongodb.adaptor import MongoDB
from headwater.adaptors.mongodb.connection import MongoConnection
from headwater.adaptors.mongodb.types import NO_TEXT, from_json, to_json
from headwater.adaptors.pieces import PieceBuffer
from headwater.core.errors import BadInput, Differs
from headwater.pipeline import values
from headwater.pipeline.location import Location
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.source_adaptor import CopyPlan, Piece, Slice, SourceAdaptor
from headwater.pipeline.source_progress import CopySize

if TYPE_CHECKING:
    from pymongo.collection import Collection

PIECE = 8 << 20
# The types of ids that MongoDB compares with each other, in its order: their names, and the types of Python.
_TYPES: tuple[tuple[tuple[str, ...], tuple[type, ...]], ...] = (
    (("minKey",), (MinKey,)),
    (("null",), (type(None),)),
    (("double", "int", "long", "decimal"), (float, Int64, Decimal128)),
    (("string",), (str,)),
    (("object",), (dict, DBRef)),
    (("binData",), (bytes,)),
    (("objectId",), (ObjectId,)),
    (("bool",), (bool,)),
    (("date",), (datetime, DatetimeMS)),
    (("timestamp",), (Timestamp,)),
    (("maxKey",), (MaxKey,)),
)
KINDS = tuple(names for names, _ in _TYPES)


class MongoSource(SourceAdaptor[MongoDB]):
    """The collections of one database."""

    def check(self, chosen: Namespaces) -> list[str]:
        from headwater.adaptors.mongodb.oplog import Oplog

        with self.adaptor.connect() as connection:
            collections, filters = connection.collections(chosen), self.adaptor.filters()
            lines = [f"MongoDB {connection.version()} at {connection.where}"]
            lines += [f"{name}: has a filter, but there is no such collection" for name in filters if name not in collections]
            with connection.asking():
                lines += [f"{name}: {connection.database[name].count_documents(filters.get(name, {}))} documents" for name in collections]
            if self.adaptor.tail:
                newest = Oplog(connection).newest()
                lines.append(f"oplog: can be followed, newest entry {newest['t']}.{newest['i']}")
            return lines

    def locations(self, chosen: Namespaces) -> list[Location]:
        """Collections that are made later are followed, too."""
        with self.adaptor.connect() as connection:
            systems, names = connection.identities(), connection.collections(chosen)
        locations = [Location(system, name) for system in systems for name in names]
        return [*locations, *(Location(system, chosen=chosen) for system in systems if self.adaptor.tail)]

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        from headwater.adaptors.mongodb.oplog import Oplog

        with self.adaptor.connect() as connection:
            cursor = Oplog(connection).newest() if self.adaptor.tail else None  # before the copy: later changes are read again
            return _planned(connection, connection.collections(chosen), slices, cursor, filtered=self.adaptor.filters())

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        """Whether no collection of the plan was dropped or created anew. New collections do not matter: they are not in the plan."""
        with self.adaptor.connect() as connection:
            current, planned = connection.collections(Namespaces()), plan.identity["collections"]
            return plan.identity["database"] == connection.database.name and all(
                name in current and current[name] == uuid for name, uuid in planned.items()
            )

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        chosen = self.adaptor.filters().get(part.namespace)
        with self.adaptor.connect() as connection:
            yield from _read(connection, part, position, chosen=chosen, batch=self.adaptor.batch)

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        from headwater.adaptors.mongodb.oplog import Oplog

        filters = self.adaptor.filters()
        with self.adaptor.connect() as connection:
            yield from Oplog(connection).follow(cursor, chosen, stopped, filters=filters, batch=self.adaptor.batch)


def _planned(
    connection: MongoConnection, collections: Mapping[str, str | None], slices: int, cursor: Any, *, filtered: Container[str]
) -> CopyPlan:
    cut: list[Slice] = []
    documents: int | None = None
    with connection.asking():
        if not any(name in filtered for name in collections):  # only a scan could count what a filter matches
            documents = sum(connection.database[name].estimated_document_count() for name in collections)
        for name, identity in collections.items():
            mark = {} if identity is None else {"uuid": identity}
            cut += [Slice(name, mark | spec) for spec in _cut(connection.database[name], slices)]
    return CopyPlan(
        identity={"database": connection.database.name, "collections": dict(collections)},
        slices=tuple(cut),
        ids=dict.fromkeys(collections, ("_id",)),
        cursor=cursor,
        size=CopySize.about(documents),
    )


def _cut(collection: Collection[Any], slices: int) -> list[dict[str, Any]]:
    """The slices of one collection: about as many as asked for where its ids are of one type, else one for each type."""
    ends = [document["_id"] for way in (1, -1) for document in collection.find({}, {"_id": 1}).sort("_id", way).limit(1)]
    if len(ends) != 2:
        return [{}]
    if kind_of(ends[0]) != kind_of(ends[1]):
        kinds = [kind for kind in KINDS if collection.find_one({"_id": {"$type": list(kind)}}, {"_id": 1})]
        rest = {"not": [name for kind in KINDS for name in kind]}  # ids of deprecated types
        return [{"types": list(kind)} for kind in kinds] + ([rest] if collection.find_one(range_of(rest, None), {"_id": 1}) else [])
    count = collection.estimated_document_count()
    slices = min(slices, count)
    bounds: list[Any] = []
    for number in range(1, slices):
        documents = list(collection.find({}, {"_id": 1}).sort("_id", 1).skip(count * number // slices).limit(1))
        bounds += [place for document in documents if _usable(document["_id"]) and (place := _place(document["_id"])) not in bounds]
    if not bounds:
        return [{}]
    inner = [{"from": low, "before": high} for low, high in pairwise(bounds)]
    return [{"before": bounds[0]}, *inner, {"from": bounds[-1]}]


def kind_of(value: Any) -> int:
    """Which of `KINDS` an id belongs to."""
    if type(value) is int:
        return KINDS.index(("double", "int", "long", "decimal"))
    for number, (_, types) in enumerate(_TYPES):
        if isinstance(value, types):
            return number
    raise BadInput(f"Ids of type {type(value).__name__} are not known.", hint="Leave the document out with a collection filter.")


def _usable(value: Any) -> bool:
    return not (isinstance(value, float) and math.isnan(value))


def _read(connection: MongoConnection, part: Slice, position: Any, *, chosen: Any, batch: int) -> Iterator[Piece]:
    if "uuid" in part.spec and connection.collections(Namespaces()).get(part.namespace) != part.spec["uuid"]:
        raise Differs(f"The collection {part.namespace} was created anew since the copy began.", hint="Start the copy anew.")
    query = range_of(part.spec, position)
    if chosen:
        query = {"$and": [chosen, query]} if query else chosen
    gathered = PieceBuffer(PIECE)
    with connection.asking():
        for document in connection.database[part.namespace].find(query).sort("_id", 1).batch_size(batch):
            place = _place(document["_id"])
            text, wrong = _text(document, place)
            if gathered.exceeded_by(len(text)) or len(gathered) >= batch:
                yield gathered.piece(position)
            gathered.add(text, wrong)
            position = {"after": place}  # in an object, because null is an id as well
    if gathered:
        yield gathered.piece(position)


def _place(identity: Any) -> Any:
    """An id as a position has it, in which JSON keeps every type."""
    return values.tagged(to_json(identity), every=True)


def range_of(spec: dict[str, Any], position: Any) -> dict[str, Any]:
    """The query for the documents of a slice behind a position."""
    wanted: dict[str, Any] = {}
    if "types" in spec:
        wanted["$type"] = spec["types"]
    if "not" in spec:
        wanted["$not"] = {"$type": spec["not"]}
    if position is not None:
        after = from_json(position["after"])
        if isinstance(after, MinKey | MaxKey):  # MongoDB finds the very same one with `$gt`, and it would be copied again
            wanted["$ne"] = after
        else:
            # NaN sorts before all other numbers, but no number is greater than NaN: `$gt` would end the copy there.
            wanted |= {"$gt": after} if _usable(after) else {"$gte": -math.inf}
    elif "from" in spec:
        wanted["$gte"] = from_json(spec["from"])
    if "before" in spec:
        wanted["$lt"] = from_json(spec["before"])
    return {"_id": wanted} if wanted else {}


def _text(document: dict[str, Any], identity: Any) -> tuple[bytes, str]:
    try:
        return values.store(to_json(document)), ""
    except BadInput as error:
        return values.store({"_id": identity}), error.message
    except UnicodeEncodeError:
        return values.store({"_id": identity}), NO_TEXT
