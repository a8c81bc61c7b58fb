"""The operations on projections: look at them, make them anew, and decide about their dead events."""

from __future__ import annotations

from collections.abc import Sequence

from headwater.core.errors import (
    BadConfig,
    Damaged,
    Differs,
    DiskFull,
    NotFound,
    Unavailable,
    Undecryptable,
    UnknownJournal,
    UnreadableRecord,
    Unsupported,
)
from headwater.journal import projection_requests as asked
from headwater.journal.requests import JournalsRequest
from headwater.wire.operation import Operation, Role

_TOPIC = "/projections/{topic}"
_PROJECTION = f"{_TOPIC}/{{name}}"
_DEAD = f"{_PROJECTION}/dead"
_EVENT = f"{_DEAD}/{{partition}}/{{offset}}/{{number}}"
_KNOWN = (UnknownJournal, Damaged, Unavailable)
_CHANGES = (*_KNOWN, NotFound, DiskFull)

PROJECTIONS: Operation[JournalsRequest, Sequence[asked.ShownProjection]] = Operation(
    part="journal",
    name="projections",
    method="GET",
    path=_TOPIC,
    request=JournalsRequest,
    answer=list[asked.ShownProjection],
    role=Role.READER,
    says="The projections of a topic that somebody has run: how far they lag, their dead events.",
    errors=_KNOWN,
    commands={"projection list {topic}": ""},
)
PROJECTION = Operation(
    part="journal",
    name="projection",
    method="GET",
    path=_PROJECTION,
    request=asked.ProjectionRequest,
    answer=asked.ShownProjection,
    role=Role.READER,
    says="A projection and its partitions, as its runs have told.",
    errors=(*_KNOWN, NotFound),
    commands={"projection status {topic} {name}": ""},
)
PROJECTION_RESET = Operation(
    part="journal",
    name="projection_reset",
    method="POST",
    path=f"{_PROJECTION}/reset",
    request=asked.ResetProjection,
    answer=asked.ProjectionResets,
    role=Role.OPERATOR,
    changes=True,
    says="Let a projection begin anew, from the first event on. Whoever runs it does so.",
    errors=_CHANGES,
    commands={"projection reset {topic} {name}": ""},
)
PROJECTION_DEAD: Operation[asked.ProjectionRequest, Sequence[asked.ShownDeadEvent]] = Operation(
    part="journal",
    name="projection_dead",
    method="GET",
    path=_DEAD,
    request=asked.ProjectionRequest,
    answer=list[asked.ShownDeadEvent],
    role=Role.READER,
    says="The events that the handler of a projection could not take, and those of their journals that wait.",
    errors=(*_KNOWN, NotFound),
    commands={"projection dead {topic} {name} list": ""},
)
PROJECTION_DEAD_SHOW = Operation(
    part="journal",
    name="projection_dead_show",
    method="GET",
    path=_EVENT,
    request=asked.DeadEventPlace,
    answer=asked.DeadEventContent,
    role=Role.READER,
    says="A dead event with what it holds, and why the handler failed.",
    errors=(*_KNOWN, NotFound, UnreadableRecord, Undecryptable, BadConfig, Differs, Unsupported),
    commands={"projection dead {topic} {name} show {partition} {offset} {number}": ""},
)
PROJECTION_DEAD_RETRY = Operation(
    part="journal",
    name="projection_dead_retry",
    method="POST",
    path=f"{_EVENT}/retry",
    request=asked.RetryDeadEvent,
    answer=asked.DeadEventDecided,
    role=Role.OPERATOR,
    changes=True,
    says="Let the handler have a dead event again, from the first dead one of its journal on.",
    errors=_CHANGES,
    commands={"projection dead {topic} {name} retry {partition} {offset} {number}": ""},
)
PROJECTION_DEAD_DROP = Operation(
    part="journal",
    name="projection_dead_drop",
    method="POST",
    path=f"{_EVENT}/drop",
    request=asked.DropDeadEvent,
    answer=asked.DeadEventDecided,
    role=Role.OPERATOR,
    changes=True,
    says="Drop a dead event: the handler never gets it. Those of its journal that wait for it go on.",
    errors=_CHANGES,
    commands={"projection dead {topic} {name} drop {partition} {offset} {number}": ""},
)
PROJECTION_OPERATIONS = (
    PROJECTIONS,
    PROJECTION,
    PROJECTION_RESET,
    PROJECTION_DEAD,
    PROJECTION_DEAD_SHOW,
    PROJECTION_DEAD_RETRY,
    PROJECTION_DEAD_DROP,
)
