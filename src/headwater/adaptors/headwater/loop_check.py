"""Refuses a pipeline that reads the topic it writes to. Possible where that log also holds the pipeline's own log."""

from __future__ import annotations

from headwater.adaptors.headwater.connection import HeadwaterConnection
from headwater.core.errors import BadConfig, UnknownTopic
from headwater.log.record import Topic
from headwater.pipeline.offsets.control import log_topic, offsets_topic
from headwater.pipeline.offsets.state import ReaderState, from_record

_RECORDS = 2000  # records of the offset log that are read at once


def refuse_loop(connection: HeadwaterConnection, pipeline: str, topic: Topic) -> None:
    """Compare the topic's generation with that of the source in the pipeline's stored plan. Errors: `BadConfig` where they are equal."""
    name, _, generation = pipeline.rpartition("#")
    try:
        if connection.find(log_topic(name)).generation[:12] != generation:
            return  # another pipeline of that name
        found = stored_reader(connection, name)
    except UnknownTopic:
        return
    if found is not None and found.plan.get("identity", {}).get("generation") == topic.generation:
        raise BadConfig(
            f"The topic {topic.name} at {connection.where} is the one that pipeline {name} reads: writing there would never end.",
            hint="Name another topic.",
        )


def stored_reader(connection: HeadwaterConnection, pipeline: str) -> ReaderState | None:
    """The last state of the reader in a pipeline's offset log. Errors: `UnknownTopic`."""
    topic, found = offsets_topic(pipeline), None
    bounds = connection.bounds(topic, 0)
    at = bounds.start
    while at < bounds.end and (records := connection.read(topic, 0, at, _RECORDS)):
        for record in records:
            change = from_record(record) if record.key == b"reader" else None
            if change is not None and isinstance(change[1], ReaderState):
                found = change[1]
        at = (records[-1].offset or 0) + 1
    return found
