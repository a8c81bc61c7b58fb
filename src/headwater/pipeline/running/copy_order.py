"""Which messages one sink may get side by side: consecutive slices of a copy, and shares by the documents' ids."""

from __future__ import annotations

from collections.abc import Iterable

import msgspec
import pyarrow as pa
import pyarrow.compute as pc

from headwater.core.errors import BadInput
from headwater.log import Log
from headwater.log.layout import decode_headers
from headwater.pipeline.definition import Sink
from headwater.pipeline.message import DEFAULT_ID, Message
from headwater.pipeline.offsets.state import ReaderState
from headwater.pipeline.running.work import IDS, Ids
from headwater.pipeline.transform import chain
from headwater.pipeline.transforms.remap import Remap

_ids = msgspec.json.Decoder(tuple[str, ...])


class CopyOrder:
    """The order that one sink needs: two messages of one row of the sink are not written side by side, or the older one might come last."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._renames = chain([transform for transform in sink.transforms if isinstance(transform, Remap)])
        self._kept: tuple[Ids, bool] | None = None  # what `keeps_ids` said of which ids
        self._merged: tuple[str, bool] | None = None  # what `_merges` said of which copy
        self._keys: dict[str, tuple[str, ...]] = {}  # of tables, by place

    def keeps_ids(self, ids: Ids) -> bool:
        """Whether tasks may share messages by the ids in the log: not where a transform may give two documents one id."""
        if self._kept is None or self._kept[0] is not ids:  # asked for each part, of which each may be one message
            fields = {name for names in ids.values() for name in names} | {*DEFAULT_ID}
            self._kept = ids, all(transform.keeps(sorted(fields)) for transform in self._sink.transforms)
        return self._kept[1]

    def repeats(self, reader: ReaderState | None, ids: Ids, *, tables: bool = False) -> bool:
        """Whether a row of the sink may have several messages in one copy: of one id, of ids that a transform makes equal, or of namespaces
        that go to one place; with `tables`, which asks the sink, also where the key of a table is not the id. Errors: as `other_keys`."""
        if reader is None:
            return False
        if reader.plan.get("repeats") or not self.keeps_ids(ids) or self._merges(reader):
            return True
        return tables and bool(self.other_keys({name: ids.get(name, DEFAULT_ID) for name in self._copied(reader)}))

    def other_keys(self, ids: Ids) -> dict[str, tuple[str, ...]]:
        """The tables, each with its key, in which documents with different ids may be one row, of the namespaces with these ids.

        Errors: `Unavailable`.
        """
        if not self._sink.adaptor.has_keys():
            return {}
        places = self._places(ids)
        if unknown := {place for _, place in places} - self._keys.keys():
            keys = self._sink.adaptor.keys_of(unknown)
            self._keys |= {place: keys.get(place, ()) for place in unknown}
        return {place: key for name, place in places if (key := self._keys[place]) and not set(ids[name]) <= set(key)}

    def forget_tables(self) -> None:
        """Ask for the keys of tables again: somebody may have made a table that was missing."""
        self._keys.clear()

    def _merges(self, reader: ReaderState) -> bool:
        if self._merged is None or self._merged[0] != reader.run:
            places = [place for _, place in self._places(self._copied(reader))]
            self._merged = reader.run, len(set(places)) < len(places)
        return self._merged[1]

    def _copied(self, reader: ReaderState) -> list[str]:
        """The namespaces of a copy that the sink gets."""
        slices = reader.plan.get("slices", ())
        return list(dict.fromkeys(str(part["namespace"]) for part in slices if part["namespace"] in self._sink.namespaces))

    def _places(self, namespaces: Iterable[str]) -> list[tuple[str, str]]:
        """Each namespace that is not dropped, and the place of its documents."""
        names = list(namespaces)
        renamed = self._renames([Message(name, {}) for name in names])
        return [(name, self._place(message.namespace)) for name, message in zip(names, renamed, strict=True) if message is not None]

    def _place(self, namespace: str) -> str:
        """The place of a namespace; one that the sink can have no place for is refused when its messages come."""
        try:
            return self._sink.adaptor.place(namespace)
        except BadInput:
            return f"refused {namespace}"


def ids_within(log: Log, topic: str, start: int, end: int, known: Ids) -> Ids:
    """By namespace of the messages in [start, end), the fields that tell its documents apart: those `known`, or of its first message."""
    ids: Ids = {}
    for chunk in log.scan(topic, 0, start, end):
        if not len(chunk):
            continue
        keys = chunk.column("key").cast(pa.binary())
        for key in pc.unique(keys).to_pylist():
            if key is not None and (name := key.decode()) not in ids:
                ids[name] = known.get(name) or _marked(chunk, pc.index(keys, key).as_py())
    return ids


def _marked(chunk: pa.RecordBatch, index: int) -> tuple[str, ...]:
    block = chunk.column("headers")[index].as_py()
    marked = dict(decode_headers(block)) if block else {}
    return _ids.decode(marked[IDS] or b"[]") if IDS in marked else DEFAULT_ID
