"""Indices of OpenSearch for tests of their own, and short ways to read and write them."""

from __future__ import annotations

import uuid
from collections.abc import Iterator
from contextlib import contextmanager
from itertools import count
from typing import Any

import msgspec

from headwater.adaptors.opensearch.adaptor import OpenSearch, opensearch
from headwater.pipeline.message import Message, Op
from headwater.pipeline.sink_adaptor import Batch, Part


@contextmanager
def own_prefixes(uri: str) -> Iterator[Iterator[str]]:
    """For each test one of its own. All their indices go at once: to remove those of a single test takes nearly as long."""
    ours = f"t{uuid.uuid4().hex[:6]}"
    yield (f"{ours}{number:04d}" for number in count())
    with opensearch_at(uri).connect() as client:
        client.ask("DELETE", f"/{ours}*")


def opensearch_at(uri: str, **options: Any) -> OpenSearch:
    return opensearch(uri, **options)


def part(**changes: Any) -> Part:
    return msgspec.structs.replace(Part(pipeline="p", sink="s", start=0, end=1000), **changes)


def message(offset: int, *, op: Op = Op.INSERT, namespace: str = "orders", **data: Any) -> Message:
    return Message(namespace, data, op, offset=offset)


def write(adaptor: OpenSearch, *messages: Message, where: Part | None = None) -> None:
    writer = adaptor.writer(where or part())
    try:
        writer.write(Batch(start=messages[0].offset, end=messages[-1].offset + 1, messages=messages))
    finally:
        writer.close()


def held(adaptor: OpenSearch, namespace: str = "orders") -> dict[str, dict[str, Any]]:
    return {row.pop("_id"): row for row in adaptor.rows(namespace)}


def numbered(count: int, *, start: int = 0) -> list[Message]:
    return [message(offset, _id=f"o{offset}", n=offset) for offset in range(start, start + count)]
