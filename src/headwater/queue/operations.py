"""The operations on queues: the table from which routes, checks, OpenAPI, remote calls and references are made."""

from __future__ import annotations

from headwater.core.errors import (
    Conflict,
    DiskFull,
    KeyReused,
    NotFound,
    NotOwner,
    Paused,
    StaleClaim,
    TooLarge,
    Unavailable,
    UnknownQueue,
)
from headwater.queue import answers, requests
from headwater.queue.bodies import send_claim, send_done, send_rows_of, send_settings
from headwater.queue.dead_operations import DEAD, DEAD_DROP, DEAD_DROP_ALL, DEAD_RETRY, DEAD_RETRY_ALL, DEAD_SHOW
from headwater.queue.dead_operations import OWNS as _OWNS
from headwater.queue.dead_operations import WRITES as _WRITES
from headwater.queue.effective_settings import QUEUE_SECTION
from headwater.queue.follow_request import FollowQueue
from headwater.queue.region_hints import NAMESPACE
from headwater.queue.row_schema import ROWS_CONTENT
from headwater.queue.settings_form import schema
from headwater.wire.operation import Operation, Paging, Role
from headwater.wire.part import PartDefinition

# -- the table --------------------------------------------------------------------------------------------------

_QUEUE = "/queues/{queue}"
_ROWS, _CLAIMS = f"{_QUEUE}/rows", f"{_QUEUE}/claims"
_ROW, _CLAIM = f"{_ROWS}/{{key}}", f"{_CLAIMS}/{{token}}"

LIST = Operation(
    part="queue",
    name="list",
    method="GET",
    path="/queues",
    request=requests.ListQueues,
    answer=list[answers.QueueSummary],
    role=Role.READER,
    says="Every queue with its settings, sorted by name.",
    paging=Paging(by=("queue",), usual=100, most=1000),
    errors=(NotOwner, Unavailable),
)
CREATE = Operation(
    part="queue",
    name="create",
    method="PUT",
    path=_QUEUE,
    request=requests.CreateQueue,
    answer=answers.QueueSummary,
    role=Role.OPERATOR,
    changes=True,
    says="Create a queue, or change the settings of one that is there. Settings that are left out stay as they are.",
    statuses={201: "Created.", 200: "It was there."},
    content={"application/json": schema()},
    content_required=False,
    sends=send_settings,
    errors=(Conflict, NotOwner, DiskFull, Unavailable),
)
SHOW = Operation(
    part="queue",
    name="show",
    method="GET",
    path=_QUEUE,
    request=requests.QueueRequest,
    answer=answers.QueueSummary,
    role=Role.READER,
    says="A queue, its settings, and the declaration of its columns.",
    errors=_OWNS,
)
DELETE = Operation(
    part="queue",
    name="delete",
    method="DELETE",
    path=_QUEUE,
    request=requests.ChangeQueue,
    answer=answers.QueueDeleted,
    role=Role.OPERATOR,
    changes=True,
    says="Delete a queue with all of its rows, for good.",
    errors=(*_WRITES, Conflict),
)
PUT = Operation(
    part="queue",
    name="put",
    method="POST",
    path=_ROWS,
    request=requests.PutRows,
    answer=answers.RowsPut,
    role=Role.WRITER,
    changes=True,
    patience=None,
    says="Put a row, a list of rows, or rows as lines. A row whose key waits already is merged into that one.",
    statuses={201: "What became of the rows; they are durable."},
    content=ROWS_CONTENT,
    sends=send_rows_of,
    errors=(*_WRITES, Conflict, KeyReused, TooLarge),
)
ROWS = Operation(
    part="queue",
    name="rows",
    method="GET",
    path=_ROWS,
    request=requests.ListRows,
    answer=answers.RowsPage,
    role=Role.READER,
    says="Rows by id, of one state or of keys that begin alike.",
    continues="after",
    errors=_OWNS,
)
GET = Operation(
    part="queue",
    name="get",
    method="GET",
    path=_ROW,
    request=requests.FindRow,
    answer=answers.ShownRow,
    role=Role.READER,
    says="The row of a key, or of an id (by=id).",
    errors=(*_OWNS, NotFound),
)
CANCEL = Operation(
    part="queue",
    name="cancel",
    method="DELETE",
    path=_ROW,
    request=requests.RowRequest,
    answer=answers.ShownRow,
    role=Role.WRITER,
    changes=True,
    says="Remove the waiting row of a key, and answer with it. One that is being processed is a conflict.",
    errors=(*_WRITES, NotFound, Conflict),
)
RUN = Operation(
    part="queue",
    name="run_now",
    method="POST",
    path=f"{_ROW}/run",
    request=requests.RowRequest,
    answer=answers.ShownRow,
    role=Role.WRITER,
    changes=True,
    says="Let the waiting row of a key be due now, whatever its date; its schedule stays. One that is being processed is a conflict.",
    errors=(*_WRITES, NotFound, Conflict),
)
HISTORY = Operation(
    part="queue",
    name="history",
    method="GET",
    path=f"{_ROW}/history",
    request=requests.RowRequest,
    answer=list[answers.ShownChange],
    role=Role.READER,
    patience=None,
    says="What the log still holds of a key, the oldest first.",
    errors=_OWNS,
)
SCHEDULES = Operation(
    part="queue",
    name="schedules",
    method="GET",
    path=f"{_QUEUE}/schedules",
    request=requests.QueueRequest,
    answer=list[answers.ShownSchedule],
    role=Role.READER,
    says="The rows that come again, by key: their schedules, and when they run next.",
    errors=_OWNS,
)
CLAIM = Operation(
    part="queue",
    name="claim",
    method="POST",
    path=_CLAIMS,
    request=requests.ClaimRows,
    answer=answers.RowsClaimed,
    role=Role.WRITER,
    changes=True,
    says="Claim rows for a while; before that, say what became of others. A stale token never spoils the rest.",
    statuses={200: "The claimed rows, and the stale ones of the given tokens.", 204: "No row, and no stale token."},
    content={"application/json": {"$struct": requests.ClaimBody}},
    content_required=False,
    sends=send_claim,
    errors=(*_WRITES, Paused, TooLarge),
)
LEAVE: Operation[requests.LeaveClaims, None] = Operation(
    part="queue",
    name="leave",
    method="DELETE",
    path=_CLAIMS,
    request=requests.LeaveClaims,
    answer=None,
    role=Role.WRITER,
    changes=True,
    says="End the claims of a worker that wait for rows; they answer at once.",
    errors=(UnknownQueue,),
)
DONE: Operation[requests.DoneClaim, None] = Operation(
    part="queue",
    name="done",
    method="POST",
    path=f"{_CLAIM}/done",
    request=requests.DoneClaim,
    answer=None,
    role=Role.WRITER,
    changes=True,
    says="The row is processed: remove it, and keep its result for a while.",
    content={"application/json": {"$struct": requests.DoneBody}},
    content_required=False,
    sends=send_done,
    errors=(*_WRITES, StaleClaim, TooLarge),
)
RESULT = Operation(
    part="queue",
    name="result",
    method="GET",
    path=f"{_QUEUE}/results/{{id}}",
    request=requests.FindResult,
    answer=answers.ShownResult,
    role=Role.READER,
    says="The result of a row that is done. It can be waited for.",
    statuses={200: "The result.", 202: "The row is not done yet."},
    errors=(*_OWNS, NotFound, Conflict),
)
FAIL: Operation[requests.FailClaim, None] = Operation(
    part="queue",
    name="fail",
    method="POST",
    path=f"{_CLAIM}/fail",
    request=requests.FailClaim,
    answer=None,
    role=Role.WRITER,
    changes=True,
    says="The row could not be processed: try it again, or give it up.",
    errors=(*_WRITES, StaleClaim),
)
EXTEND: Operation[requests.ExtendClaim, None] = Operation(
    part="queue",
    name="extend",
    method="POST",
    path=f"{_CLAIM}/extend",
    request=requests.ExtendClaim,
    answer=None,
    role=Role.WRITER,
    changes=True,
    says="Let the lease begin anew.",
    errors=(*_WRITES, StaleClaim),
)
RELEASE: Operation[requests.ReleaseClaim, None] = Operation(
    part="queue",
    name="release",
    method="POST",
    path=f"{_CLAIM}/release",
    request=requests.ReleaseClaim,
    answer=None,
    role=Role.WRITER,
    changes=True,
    says="Give the row back unprocessed.",
    errors=(*_WRITES, StaleClaim),
)
COUNT = Operation(
    part="queue",
    name="count",
    method="GET",
    path=f"{_QUEUE}/count",
    request=requests.QueueRequest,
    answer=answers.RowCounts,
    role=Role.READER,
    says="How many rows are in each state.",
    errors=_OWNS,
)
STATISTICS = Operation(
    part="queue",
    name="statistics",
    method="GET",
    path=f"{_QUEUE}/stats",
    request=requests.QueueRequest,
    answer=answers.ShownStatistics,
    role=Role.READER,
    says="What a queue holds, and what has happened since it was opened.",
    errors=_OWNS,
    commands={"stats {queue}": ""},
)
PAUSE = Operation(
    part="queue",
    name="pause",
    method="PUT",
    path=f"{_QUEUE}/paused",
    request=requests.PauseQueue,
    answer=answers.QueuePaused,
    role=Role.OPERATOR,
    changes=True,
    says="Give out no rows, or give them out again. Puts, and what becomes of claimed rows, go on.",
    errors=_WRITES,
    commands={"pause {queue}": "", "resume {queue}": ""},
)
LISTEN = Operation(
    part="queue",
    name="listen",
    method="GET",
    path=f"{_QUEUE}/events",
    request=FollowQueue,
    answer=answers.ShownEvent,
    kind="stream",
    role=Role.READER,
    says="Rows that become due, rows that die, and how many rows there are, from now on, as events: due, dead, counts and reset.",
    media="text/event-stream",
    events=("due", "dead", "counts", "reset"),
    named="kind",
    errors=_OWNS,
)

QUEUE = PartDefinition(
    name="queue",
    door="queue",
    operations=(
        LIST, CREATE, SHOW, DELETE, PUT, ROWS, GET, CANCEL, RUN, HISTORY, SCHEDULES, CLAIM, LEAVE, DONE, RESULT, FAIL, EXTEND, RELEASE,
        COUNT, STATISTICS, PAUSE, DEAD, DEAD_SHOW, DEAD_RETRY, DEAD_RETRY_ALL, DEAD_DROP, DEAD_DROP_ALL, LISTEN,
    ),
    performs="headwater.client.queue_performer:QueuePerformer",
    uses=("wal",),
    offers="headwater.client.queue:Queues",
    handlers="headwater.server.queue_handlers:QueueHandlers",
    measures="headwater.client.queue_performer:measure",
    opens="headwater.client.queue_performer:opens",
    closes="headwater.client.queue_performer:closes",
    commands="headwater.cli.queue:group",
    tables={"queue": "headwater.queue.spark_tables:queue_table"},
    sections=(QUEUE_SECTION,),
    chapter="headwater.server.tour.queue_chapter:queue_chapter",
    regions=(NAMESPACE,),
    instead="headwater.queue.region_hints:instead",
)  # fmt: skip
