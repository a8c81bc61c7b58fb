"""The position to which a sink can be moved back: a part that holds messages on both sides of it is written again from its start."""

from __future__ import annotations

from headwater.core.errors import BadBounds
from headwater.log import Log
from headwater.pipeline.definition import Sink
from headwater.pipeline.offsets.compaction import has_holes
from headwater.pipeline.offsets.control import Control


def nearest_position(log: Log, control: Control, sink: Sink, identity: str, position: int) -> int:
    """The position itself, or that before the part in whose middle it lies.

    Errors: `BadBounds` where the log no longer has the beginning of that part: it could not be written again.
    """
    part = sink.adaptor.part_around(identity, sink.name, position)
    if part is None:
        return position
    start, end = part
    if log.bounds(control.messages, 0).start > start or has_holes(log, control.messages, start, position):
        raise BadBounds(
            f"{position} lies in the middle of the messages {start} to {end - 1}, which {sink.name} holds in one part. The part would have "
            f"to be written again from its beginning, and the log no longer has all of it.",
            hint=f"Move the sink to its end with `headwater pipeline offset {control.pipeline} mark {sink.name} {end - 1} --why ...`, "
            f"and send single messages with `headwater pipeline replay {control.pipeline} {sink.name} X..Y --why ...`.",
        )
    return start - 1
