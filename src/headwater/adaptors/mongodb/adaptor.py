"""MongoDB, and servers that speak its protocol: collections of one database as source, with their changes, and as sink."""

from __future__ import annotations

from typing import TYPE_CHECKING, Annotated, Any, ClassVar, Self

import msgspec

from headwater.core.errors import BadConfig, BadInput
from headwater.pipeline import values
from headwater.pipeline.adaptor import About
from headwater.pipeline.env import Env
from headwater.pipeline.options import Means, factory
from headwater.pipeline.sink_adaptor import CanWrite, Delivery
from headwater.pipeline.source_adaptor import CanCopy, CanTail

if TYPE_CHECKING:
    from headwater.adaptors.mongodb.connection import MongoConnection


class MongoDB(CanCopy, CanTail, CanWrite, frozen=True, kw_only=True):
    """A database. `collection_filters`: by collection, the query that chooses its documents, in extended JSON."""

    kind: ClassVar[str] = "mongodb"
    delivery: ClassVar[Delivery] = "at least once"
    about: ClassVar[About] = About(
        summary="MongoDB, and servers that speak its protocol.",
        namespace="a collection of the database that the address names; system.* and views are left out.",
        source="ranges of _id, in the order of _id and resumed behind the last one. With tail=True the oplog of a replica set is "
        "followed from where it was before the copy, and the primary is asked whatever the address prefers: updates are read again as "
        "whole documents, deletes carry the _id. Transactions come in pieces, prepared ones when they are committed. Commands such as "
        "dropping a collection are not passed on, nor what a capped collection discards: the documents stay at the sink. A followed "
        "collection that was dropped and has new documents, as after mongorestore --drop, ends the run with `Differs`; so does a command "
        "that renames one, or another one to its name as $out does. Filters hold for copies and "
        "changes alike: what leaves the choice is a delete.",
        sink="whole documents are put in place by _id (replaced or inserted), deletes by _id, in order; durable on a majority unless "
        "the address says otherwise. BSON types come out as they went in. A message without an id gets one made of the pipeline and "
        "its offset. The collection headwater_owners of the database says which log's run writes to it; a run of another log is refused. "
        "The user needs find, insert and update on that collection, too.",
        sample='mongodb("${MONGODB_URI}", tail=True, collection_filters={"orders": {"open": True}})',
    )

    extra: ClassVar[str] = "mongodb"
    stores: ClassVar[tuple[str, ...]] = ("mongodb",)
    source_class: ClassVar[str] = "headwater.adaptors.mongodb.source:MongoSource"
    sink_class: ClassVar[str] = "headwater.adaptors.mongodb.sink:MongoSink"

    uri: Annotated[
        str | Env,
        Means(
            "`mongodb://[user:password@]host:port/DATABASE`, with the client's own options behind a question mark.",
            files=("tlsCAFile", "tlsCertificateKeyFile", "tlsCRLFile"),
        ),
    ]
    tail: Annotated[bool, Means("Follow the changes after the copy.")] = False
    collection_filters: Annotated[
        dict[str, Any] | str | None, Means("By collection, a query in extended JSON that chooses its documents; or all of it as JSON text.")
    ] = None
    batch: Annotated[int, Means("Documents or changes read at once.", 1, 100_000)] = 1000

    def checked(self) -> Self:
        hint, filters = 'Give {"orders": {"open": true}}.', self.collection_filters
        if isinstance(filters, str):
            try:
                filters = values.decode(filters.encode())
            except BadInput as error:
                raise BadConfig(f"collection_filters is no JSON object: {error.message}", hint=hint) from error
        for name, query in (filters or {}).items():
            if not isinstance(query, dict):
                raise BadConfig(f"The filter of {name} is no query.", hint=hint)
        return msgspec.structs.replace(self, collection_filters=filters)

    def connect(self) -> MongoConnection:
        # pymongo is an extra: modules that import it are imported here, not at the top.
        from headwater.adaptors.mongodb.connection import MongoConnection

        # Of two secondaries, one may lack what the other's oplog has: a changed document would be read as it was before, or not at all,
        # and no later change would correct it.
        return MongoConnection(str(self.resolved().uri), given=self.uri, primary=self.tail)

    def filters(self) -> dict[str, Any]:
        from headwater.adaptors.mongodb.types import from_json

        assert not isinstance(self.collection_filters, str), "checked() has read it"
        return {name: from_json(query) for name, query in (self.collection_filters or {}).items()}


mongodb = factory(MongoDB)
