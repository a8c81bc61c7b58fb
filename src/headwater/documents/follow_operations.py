"""The operations on changes of documents (feeds, history, transactions), and on the part as a whole: a part of the table in
`headwater.documents.operations`."""

from __future__ import annotations

from typing import get_args

from headwater.core.document_errors import BadFilter, BadPath, DocumentNotFound, NotMatched, QueryLimited, UnfitBody
from headwater.core.errors import (
    Busy,
    Damaged,
    Differs,
    DiskFull,
    Fenced,
    LogGap,
    NotFound,
    NotOwner,
    OffsetGone,
    OutcomeUnknown,
    Unavailable,
    UnknownPartition,
)
from headwater.documents import answers, care_answers, follow_requests
from headwater.documents.bodies import LINES
from headwater.wire.operation import Operation, Role

_FEED = "/hyper-storage/feed/{path}"
_HISTORY = "/hyper-storage/history/{path}"
_TRANSACTIONS = "/hyper-storage/transactions"
_READS = (BadPath, Damaged, Unavailable, OffsetGone)

FEED_LINES = Operation(
    part="documents",
    name="feed_lines",
    method="GET",
    path=_FEED,
    request=follow_requests.PollContent,
    answer=bytes,
    role=Role.READER,
    says="Changes behind a position, one a line; with Prefer: wait=SECONDS the answer waits for one. With Accept: text/event-stream, "
    "all that come.",
    statuses={200: "A change a line; the last one's `position` is the next `after`."},
    media=LINES,
    errors=(*_READS, BadFilter, QueryLimited),
)
FEED = Operation(
    part="documents",
    name="feed",
    method="GET",
    path=_FEED,
    request=follow_requests.PollContent,
    answer=answers.ShownDocumentChange,
    kind="stream",
    role=Role.READER,
    says="The changes of a document, a collection, an item or everything below a path: those behind a position, and then those that come.",
    media="text/event-stream",
    events=get_args(answers.ChangeName),
    errors=(*_READS, BadFilter, QueryLimited),
)
HISTORY = Operation(
    part="documents",
    name="history",
    method="GET",
    path=_HISTORY,
    request=follow_requests.ReadHistory,
    answer=answers.ContentHistory,
    role=Role.READER,
    says="The changes of a document, a collection or an item that the log keeps, by revision.",
    continues="after",
    errors=(*_READS, DocumentNotFound),
)
RESTORE = Operation(
    part="documents",
    name="restore",
    method="POST",
    path=_HISTORY,
    request=follow_requests.RestoreContent,
    answer=answers.HyperStorageTransactionCreated,
    role=Role.WRITER,
    changes=True,
    says="Give a document or an item the state again that it had at a revision. That is a new revision.",
    statuses={200: "It was changed.", 201: "It was created anew."},
    errors=(*_READS, DocumentNotFound, NotMatched, UnfitBody, Busy, DiskFull, Fenced, NotOwner, OutcomeUnknown),
)
TRANSACTIONS_LIST = Operation(
    part="documents",
    name="transactions",
    method="GET",
    path=_TRANSACTIONS,
    request=follow_requests.ListTransactions,
    answer=answers.TransactionListing,
    role=Role.READER,
    says="Transactions, the newest first: those that only the log has, and those that the store has, too.",
    errors=_READS,
)
TRANSACTION = Operation(
    part="documents",
    name="transaction",
    method="GET",
    path=f"{_TRANSACTIONS}/{{transaction}}",
    request=follow_requests.FindTransaction,
    answer=answers.HyperStorageTransaction,
    role=Role.READER,
    says="How far a write is: accepted, or published, once the store and its indexes have it. With Prefer: wait the answer waits for that.",
    errors=(*_READS, NotFound),
)
STATUS = Operation(
    part="documents",
    name="status",
    method="GET",
    path="/hyper-storage/status",
    request=follow_requests.ListDocumentPartitions,
    answer=care_answers.DocumentsStatus,
    role=Role.READER,
    says="The partitions of documents: who owns them, how far the store is, what waits.",
    errors=(Damaged, Unavailable),
)
TRAIL = Operation(
    part="documents",
    name="trail",
    method="GET",
    path="/hyper-storage/trail/{path}",
    request=follow_requests.DocumentTrailRequest,
    answer=care_answers.DocumentTrail,
    role=Role.READER,
    says="A document on its way: its newest records in the log, its rows in the store, and how far the store lags behind.",
    errors=_READS,
)
VERIFY = Operation(
    part="documents",
    name="verify",
    method="POST",
    path="/hyper-storage/verify",
    request=follow_requests.VerifyDocuments,
    answer=care_answers.VerifiedDocuments,
    kind="job",
    role=Role.OPERATOR,
    patience=None,
    says="Compare the store with what the log says.",
    errors=(Differs, LogGap, Damaged, Unavailable),
)
REBUILD = Operation(
    part="documents",
    name="rebuild",
    method="POST",
    path="/hyper-storage/rebuild",
    request=follow_requests.RebuildDocuments,
    answer=care_answers.RebuiltDocuments,
    kind="job",
    role=Role.OPERATOR,
    patience=None,
    changes=True,
    says="Make the store anew from the log: the partitions of this server, and those that nobody owns. The answer names the others.",
    errors=(UnknownPartition, LogGap, Damaged, Unavailable),
)
FOLLOWING = (FEED_LINES, FEED, HISTORY, RESTORE, TRANSACTIONS_LIST, TRANSACTION)
CARE = (STATUS, TRAIL, VERIFY, REBUILD)
