"""A database of MongoDB for a test of its own, and short ways to read and write it."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from typing import Any

import msgspec
from bson.codec_options import CodecOptions
from bson.raw_bson import RawBSONDocument
from pymongo import MongoClient
from pymongo.database import Database

from headwater.adaptors.mongodb.adaptor import MongoDB, mongodb
from headwater.pipeline import values
from headwater.pipeline.message import Message, Op
from headwater.pipeline.namespaces import Namespaces
from headwater.pipeline.sink_adaptor import Batch, Part
from headwater.pipeline.source_adaptor import CopyPlan

ALL = Namespaces()


@contextmanager
def a_database(uri: str) -> Iterator[Database[dict[str, Any]]]:
    with MongoClient[dict[str, Any]](uri) as client:
        name = f"t{uuid.uuid4().hex[:10]}"
        yield client[name]
        client.drop_database(name)


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
