"""The operations on the dead list of a queue, as a part of the table in `operations`; and the errors that operations on queues share."""

from __future__ import annotations

from headwater.core.errors import Damaged, DiskFull, Fenced, NotFound, NotOwner, OutcomeUnknown, Unavailable, UnknownQueue
from headwater.queue import answers, requests
from headwater.wire.operation import Operation, Role

OWNS = (UnknownQueue, NotOwner, Fenced, Damaged, Unavailable)
"""Errors of an operation that opens its queue."""
WRITES = (*OWNS, DiskFull, OutcomeUnknown)
"""Errors of one that changes it."""
_DEAD = "/queues/{queue}/dead"

DEAD = Operation(
    part="queue",
    name="dead",
    method="GET",
    path=_DEAD,
    request=requests.ListDeadRows,
    answer=answers.DeadPage,
    role=Role.READER,
    says="Dead rows by id: those that the queue has given up.",
    continues="after",
    errors=OWNS,
)
DEAD_SHOW = Operation(
    part="queue",
    name="dead_show",
    method="GET",
    path=f"{_DEAD}/{{id}}",
    request=requests.DeadRequest,
    answer=answers.ShownDeadRow,
    role=Role.READER,
    says="A dead row.",
    errors=(*OWNS, NotFound),
    commands={"dead {queue} show {id}": ""},
)
DEAD_RETRY = Operation(
    part="queue",
    name="dead_retry",
    method="POST",
    path=f"{_DEAD}/{{id}}/retry",
    request=requests.ChangeDead,
    answer=answers.DeadRetried,
    role=Role.OPERATOR,
    changes=True,
    says="Put a dead row again; it may merge with a waiting row of its key.",
    errors=(*WRITES, NotFound),
    commands={"dead {queue} retry {id}": ""},
)
DEAD_RETRY_ALL = Operation(
    part="queue",
    name="dead_retry_all",
    method="POST",
    path=f"{_DEAD}/retry",
    request=requests.ChangeAllDead,
    answer=answers.DeadRetried,
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Put every dead row again, or those that a filter finds.",
    errors=WRITES,
)
DEAD_DROP = Operation(
    part="queue",
    name="dead_drop",
    method="DELETE",
    path=f"{_DEAD}/{{id}}",
    request=requests.ChangeDead,
    answer=answers.DeadDropped,
    role=Role.OPERATOR,
    changes=True,
    says="Forget a dead row, for good.",
    errors=(*WRITES, NotFound),
    commands={"dead {queue} drop {id}": ""},
)
DEAD_DROP_ALL = Operation(
    part="queue",
    name="dead_drop_all",
    method="DELETE",
    path=_DEAD,
    request=requests.ChangeAllDead,
    answer=answers.DeadDropped,
    role=Role.OPERATOR,
    changes=True,
    patience=None,
    says="Forget every dead row, or those that a filter finds, for good.",
    errors=WRITES,
)
