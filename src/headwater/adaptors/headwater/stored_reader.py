"""Reads a pipeline's stored plan, to decode its log as a source."""

from __future__ import annotations

from headwater.adaptors.headwater.connection import HeadwaterConnection
from headwater.pipeline.offsets.control import offsets_topic
from headwater.pipeline.offsets.state import ReaderState, State, from_record

_RECORDS = 2000  # records of the offset log that are read at once


def stored_reader(connection: HeadwaterConnection, pipeline: str) -> ReaderState | None:
    """The last state of the reader in a pipeline's offset log. Errors: `UnknownTopic`."""
    topic, state = offsets_topic(pipeline), State()
    bounds = connection.bounds(topic, 0)
    at = bounds.start
    while at < bounds.end and (records := connection.read(topic, 0, at, _RECORDS)):
        for record in records:
            change = from_record(record) if record.key in (b"reader", b"reading") else None
            if change is not None:
                state.apply(*change)
        at = (records[-1].offset or 0) + 1
    return state.reader
