"""MongoDB and what speaks its protocol: collections of one database as source, with their changes, and as sink."""

from __future__ import annotations

from collections.abc import Callable, Iterator, Mapping
from typing import TYPE_CHECKING, Any, ClassVar, Literal

import msgspec

from headwater.core.errors import BadConfig, BadInput
from headwater.pipeline import values
from headwater.pipeline.adaptor import About, CanCopy, CanTail, CanWrite, CopyPlan, Delivery, Part, Piece, SinkWriter, Slice
from headwater.pipeline.env import Env
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.strict import strict

if TYPE_CHECKING:
    from headwater.adaptors.mongodb.connection import MongoConnection


class MongoDB(CanCopy, CanTail, CanWrite, frozen=True, kw_only=True):
    """A database. `collection_filters`: by collection, the query that chooses its documents, in extended JSON."""

    uri: str | Env
    tail: bool = False
    collection_filters: dict[str, Any] = msgspec.field(default_factory=dict)
    batch: int = 1000

    kind: ClassVar[str] = "mongodb"
    delivery: ClassVar[Delivery] = "at least once"
    about: ClassVar[About] = About(
        summary="MongoDB, and servers that speak its protocol.",
        namespace="a collection of the database that the address names; system.* and views are left out.",
        source="ranges of _id, in the order of _id and resumed behind the last one. With tail=True the oplog of a replica set is "
        "followed from where it was before the copy, and the primary is asked whatever the address prefers: updates are read again as "
        "whole documents, deletes carry the _id. Commands such as dropping a collection are not passed on. Filters hold for copies and "
        "changes alike: what leaves the choice is a delete.",
        sink="whole documents are put in place by _id (replaced or inserted), deletes by _id, in order; durable on a majority unless "
        "the address says otherwise. BSON types come out as they went in. A message without an id gets one made of the pipeline and "
        "its offset.",
        sample='mongodb("${MONGODB_URI}", tail=True, collection_filters={"orders": {"open": True}})',
    )

    def connect(self) -> MongoConnection:
        # Here and below pymongo is needed; it is an extra, so nothing of ours that imports it is imported before.
        from headwater.adaptors.mongodb.connection import MongoConnection

        # Of two secondaries, one may not yet have what the other's oplog tells: a document would be read as it was before its change, or
        # not at all, and nothing would come after it.
        return MongoConnection(str(self.resolved().uri), given=self.uri, primary=self.tail)

    def filters(self) -> dict[str, Any]:
        from headwater.adaptors.mongodb.types import from_json

        return {name: from_json(query) for name, query in self.collection_filters.items()}

    def check(self, role: Literal["source", "sink"], chosen: Namespaces) -> list[str]:
        with self.connect() as link:
            lines = [f"MongoDB {link.version()} at {link.where}"]
            if role == "source":
                collections = link.collections(chosen)
                filters = self.filters()
                lines += [f"{name}: has a filter, but there is no such collection" for name in filters if name not in collections]
                with link.asking():
                    lines += [f"{name}: {link.database[name].count_documents(filters.get(name, {}))} documents" for name in collections]
                if self.tail:
                    from headwater.adaptors.mongodb.oplog import Oplog

                    newest = Oplog(link).newest()
                    lines.append(f"oplog: can be followed, newest entry {newest['t']}.{newest['i']}")
            return lines

    def plan(self, chosen: Namespaces, slices: int) -> CopyPlan:
        with self.connect() as link:
            from headwater.adaptors.mongodb.oplog import Oplog
            from headwater.adaptors.mongodb.source import plan

            cursor = Oplog(link).newest() if self.tail else None  # before anything is read: what changes meanwhile is seen again
            return plan(link, link.collections(chosen), slices, cursor)

    def same(self, plan: CopyPlan, chosen: Namespaces) -> bool:
        with self.connect() as link:
            from headwater.adaptors.mongodb.source import same

            return same(link, plan, link.collections(Namespaces()))

    def read(self, part: Slice, position: Any) -> Iterator[Piece]:
        with self.connect() as link:
            from headwater.adaptors.mongodb.source import read

            yield from read(link, part, position, chosen=self.filters().get(part.namespace), batch=self.batch)

    def follow(self, cursor: Any, chosen: Namespaces, stopped: Callable[[], bool]) -> Iterator[Piece]:
        with self.connect() as link:
            from headwater.adaptors.mongodb.oplog import Oplog

            yield from Oplog(link).follow(cursor, chosen, stopped, filters=self.filters(), batch=self.batch)

    def writer(self, part: Part) -> SinkWriter:
        link = self.connect()
        try:
            from headwater.adaptors.mongodb.sink import MongoWriter

            with link.asking():
                link.database.command("ping")  # a wrong address or password is told here, not as some message's fault
            return MongoWriter(part, link)
        except BaseException:
            link.close()
            raise

    def stored(self, data: dict[str, Any]) -> dict[str, Any]:
        from headwater.adaptors.mongodb.types import as_read, row

        return row(as_read(data))

    def rows(self, namespace: str) -> Iterator[dict[str, Any]]:
        """The collection's documents, as extended JSON: without `_id` where it is made of other fields of theirs."""
        with self.connect() as link:
            from headwater.adaptors.mongodb.types import row, to_json

            with link.asking():
                for document in link.database[namespace].find().sort("_id", 1):
                    yield row(to_json(document))


@strict
def mongodb(
    uri: str | Env,
    *,
    tail: bool = False,
    collection_filters: Mapping[str, Any] | str | None = None,
    batch: int = 1000,
) -> MongoDB:
    """The database at `uri`: mongodb://[user:password@]host:port/DATABASE, with the client's own options behind a question mark.

    `tail`: follow the changes after the copy. `collection_filters`: by collection, a query (an object, or JSON text as a whole). `batch`:
    documents or changes read at once.
    """
    if not isinstance(tail, bool):
        raise BadConfig(f"tail cannot be {tail!r}.", hint="Give True or False.")
    if not isinstance(batch, int) or isinstance(batch, bool) or not 1 <= batch <= 100_000:
        raise BadConfig(f"batch cannot be {batch!r} for mongodb.", hint="Give a whole number from 1 to 100000.")
    return MongoDB(uri=uri, tail=tail, collection_filters=_filters(collection_filters), batch=batch)


def _filters(given: Mapping[str, Any] | str | None) -> dict[str, Any]:
    if isinstance(given, str):
        try:
            given = values.decode(given.encode())
        except BadInput as error:
            raise BadConfig(f"collection_filters is no JSON object: {error.message}", hint='Give {"orders": {"open": true}}.') from error
    if not isinstance(given, Mapping | None):
        raise BadConfig(f"collection_filters cannot be {given!r}.", hint='Give {"orders": {"open": true}}.')
    found = dict(given or {})
    for name, query in found.items():
        if not isinstance(query, dict):
            raise BadConfig(f"The filter of {name} is no query.", hint='Give {"orders": {"open": true}}.')
    return found
