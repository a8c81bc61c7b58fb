"""A pipeline that reads what it writes would never end. It is seen where the log that is written to also holds the pipeline's own."""

from __future__ import annotations

from headwater.adaptors.headwater.connection import HeadwaterConnection
from headwater.core.errors import BadConfig, UnknownTopic
from headwater.log.record import Topic
from headwater.pipeline.offsets.control import log_topic, offsets_topic
from headwater.pipeline.offsets.state import ReaderState, from_record

_RECORDS = 2000  # of the offset log that are read at once


def refuse_loop(connection: HeadwaterConnection, pipeline: str, topic: Topic) -> None:
    """Compares the topic with what the pipeline's stored plan reads, by what each was made as: no two names of it deceive.

    Errors: `BadConfig`.
    """
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
    """What a pipeline's offset log says last of its source. Errors: `UnknownTopic`."""
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
