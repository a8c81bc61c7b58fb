"""Whether the documents of a copy may be written side by side by one sink, in consecutive slices of the log."""

from __future__ import annotations

from headwater.core.errors import BadInput
from headwater.pipeline.definition import Sink
from headwater.pipeline.message import DEFAULT_ID, Message
from headwater.pipeline.offsets.state import ReaderState
from headwater.pipeline.running.work import Ids
from headwater.pipeline.transform import chain
from headwater.pipeline.transforms.remap import Remap


class CopyOrder:
    """The order that one sink needs: two messages of one row of the sink are not written side by side, or the older one might come last."""

    def __init__(self, sink: Sink) -> None:
        self._sink = sink
        self._kept: tuple[Ids, bool] | None = None  # what `keeps_ids` said of which ids
        self._merged: tuple[str, bool] | None = None  # what `_merges` said of which copy

    def keeps_ids(self, ids: Ids) -> bool:
        """Whether tasks may share messages by the ids in the log: not where a transform may give two documents one id."""
        if self._kept is None or self._kept[0] is not ids:  # asked for each part, of which each may be one message
            fields = {name for names in ids.values() for name in names} | {*DEFAULT_ID}
            self._kept = ids, all(transform.keeps(sorted(fields)) for transform in self._sink.transforms)
        return self._kept[1]

    def repeats(self, reader: ReaderState | None, ids: Ids) -> bool:
        """Whether a row of the sink may have several messages in one copy: of one id, of ids that a transform makes equal, or of namespaces
        that go to one place."""
        if reader is None:
            return False
        return bool(reader.plan.get("repeats")) or not self.keeps_ids(ids) or self._merges(reader)

    def _merges(self, reader: ReaderState) -> bool:
        if self._merged is None or self._merged[0] != reader.run:
            slices = reader.plan.get("slices", ())
            names = dict.fromkeys(str(part["namespace"]) for part in slices if part["namespace"] in self._sink.namespaces)
            renamed = chain([transform for transform in self._sink.transforms if isinstance(transform, Remap)])(
                [Message(name, {}) for name in names]
            )
            places = [self._place(message.namespace) for message in renamed if message is not None]
            self._merged = reader.run, len(set(places)) < len(places)
        return self._merged[1]

    def _place(self, namespace: str) -> str:
        """The place of a namespace; one that the sink can have no place for is refused when its messages come."""
        try:
            return self._sink.adaptor.place(namespace)
        except BadInput:
            return f"refused {namespace}"
