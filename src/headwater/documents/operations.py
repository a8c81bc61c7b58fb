"""The operations on documents: the table from which routes, checks, OpenAPI, remote calls and references are made."""

from __future__ import annotations

from headwater.core.document_errors import (
    BadFilter,
    BadPath,
    CollectionPut,
    DocumentNotFound,
    NotMatched,
    QueryLimited,
    UnfitBody,
)
from headwater.core.errors import (
    BadMethod,
    Busy,
    Damaged,
    DiskFull,
    Fenced,
    KeyReused,
    NotOwner,
    OffsetGone,
    OutcomeUnknown,
    TooLarge,
    Unavailable,
)
from headwater.documents import answers, requests
from headwater.documents.bodies import (
    BATCH_BODY,
    CONTENT_BODY,
    LINES,
    PATCH_BODY,
    read_content,
    send_batch,
    send_content,
    send_patch,
)
from headwater.documents.follow_operations import CARE, FOLLOWING
from headwater.documents.index_operations import INDEXING, VIEW_DELETE, VIEW_PUT, VIEWS
from headwater.documents.paging_query import filter_of_paging
from headwater.documents.schema_operations import SCHEMA_DELETE, SCHEMA_PUT, SCHEMAS
from headwater.documents.settings import DOCUMENTS_SECTION
from headwater.documents.template_operations import TEMPLATE_DELETE, TEMPLATE_PUT, TEMPLATING
from headwater.wire.operation import Operation, Role
from headwater.wire.part import PartDefinition

_CONTENT = "/hyper-storage/content/{path}"
_READS = (BadPath, DocumentNotFound, Damaged, Unavailable)
_WRITES = (
    *_READS, BadMethod, NotMatched, KeyReused, NotOwner, Fenced, DiskFull, OutcomeUnknown, Busy, TooLarge,
)  # fmt: skip
_WRITTEN = {201: "It was created.", 200: "It was changed."}

CONTENT_LIST = Operation(
    part="documents",
    name="content_list",
    method="GET",
    path="/hyper-storage/content",
    request=requests.ListContent,
    answer=answers.ContentListing,
    role=Role.READER,
    says="The documents and collections whose paths begin so, by path.",
    continues="after",
    errors=(Damaged, Unavailable),
    commands={"list": ""},
)
CONTENT_EXPORT = Operation(
    part="documents",
    name="content_export",
    method="GET",
    path="/hyper-storage/export",
    request=requests.ExportContent,
    answer=answers.ContentExport,
    role=Role.READER,
    says="The documents and items of documents and collections whose paths begin so, with their bodies; items of views are left out.",
    continues="after",
    errors=(BadPath, Damaged, Unavailable),
    commands={"export {prefix}": ""},
)
CONTENT_GET = Operation(
    part="documents",
    name="content_get",
    method="GET",
    path=_CONTENT,
    request=requests.HyperStorageContentGet,
    answer=answers.StoredContent,
    role=Role.READER,
    says="A document or an item as it is stored, or a page of a collection as HAL: its items are in _embedded.els.",
    statuses={200: "Its body; the headers Hyperbus-Revision and ETag name its revision.", 304: "It is as If-None-Match says."},
    reads=read_content,
    rewrites=filter_of_paging,
    errors=(*_READS, BadFilter, NotMatched, QueryLimited, OffsetGone),
    commands={"get {path}": "", "query {path}": "", "explain {path}": "explain=true"},
)
CONTENT_PUT = Operation(
    part="documents",
    name="content_put",
    method="PUT",
    path=_CONTENT,
    request=requests.HyperStorageContentPut,
    answer=answers.HyperStorageTransactionCreated,
    role=Role.WRITER,
    changes=True,
    says="Create or replace a document or an item. Fields that are null are left out.",
    statuses=_WRITTEN,
    content=CONTENT_BODY,
    sends=send_content,
    errors=(*_WRITES, CollectionPut, UnfitBody),
    commands={"put {path}": ""},
)
CONTENT_PATCH = Operation(
    part="documents",
    name="content_patch",
    method="PATCH",
    path=_CONTENT,
    request=requests.HyperStorageContentPatch,
    answer=answers.HyperStorageTransactionCreated,
    role=Role.WRITER,
    changes=True,
    says="Change fields of a document or an item: a merge patch, a JSON patch, or numbers to add.",
    statuses={200: "It was changed."},
    content=PATCH_BODY,
    sends=send_patch,
    errors=(*_WRITES, UnfitBody),
    commands={"patch {path}": ""},
)
CONTENT_POST = Operation(
    part="documents",
    name="content_post",
    method="POST",
    path=_CONTENT,
    request=requests.HyperStorageContentPost,
    answer=answers.HyperStorageTransactionCreated,
    role=Role.WRITER,
    changes=True,
    says="Add an item to a collection, under an id that is greater than every one before it.",
    statuses={201: "It was created; Location leads to it."},
    content=CONTENT_BODY,
    sends=send_content,
    errors=(*_WRITES, UnfitBody),
    commands={"post {path}": ""},
)
CONTENT_DELETE = Operation(
    part="documents",
    name="content_delete",
    method="DELETE",
    path=_CONTENT,
    request=requests.HyperStorageContentDelete,
    answer=answers.HyperStorageTransactionCreated,
    role=Role.WRITER,
    changes=True,
    says="Delete a document, an item, or a collection with its items and indexes. Its revisions go on.",
    statuses={200: "It was deleted."},
    errors=_WRITES,
    commands={"delete {path}": ""},
)
BATCH = Operation(
    part="documents",
    name="batch",
    method="POST",
    path="/hyper-storage/batch",
    request=requests.WriteBatch,
    answer=bytes,
    role=Role.WRITER,
    changes=True,
    patience=None,
    says="Many writes, a line each; each has its own line of the answer, a transaction or a problem.",
    statuses={200: "A line for each line."},
    content=BATCH_BODY,
    sends=send_batch,
    by_line=True,
    media=LINES,
    errors=(*_WRITES, CollectionPut, UnfitBody),
)
CONTENT = (CONTENT_LIST, CONTENT_EXPORT, CONTENT_GET, CONTENT_PUT, CONTENT_PATCH, CONTENT_POST, CONTENT_DELETE, BATCH)

DOCUMENTS = PartDefinition(
    name="documents",
    door="documents",
    operations=(*CONTENT, *INDEXING, *TEMPLATING, *VIEWS, *SCHEMAS, *FOLLOWING, *CARE),
    performs="headwater.client.documents_performer:DocumentsPerformer",
    offers="headwater.client.documents:Documents",
    handlers="headwater.server.document_handlers:DocumentHandlers",
    measures="headwater.client.documents_performer:measure",
    opens="headwater.client.documents_performer:opens",
    closes="headwater.client.documents_performer:closes",
    owned=False,
    shares="headwater.client.document_workers:shares",
    homed=(*INDEXING, TEMPLATE_PUT, TEMPLATE_DELETE, VIEW_PUT, VIEW_DELETE, SCHEMA_PUT, SCHEMA_DELETE),
    home="headwater.client.document_workers:home",
    hops=True,
    forgets="headwater.client.documents_performer:forget_owner",
    commands="headwater.cli.doc:group",
    chapter="headwater.server.tour.document_chapter:document_chapter",
    tables={"collection": "headwater.documents.table:collection_table", "feed": "headwater.documents.table:feed_table"},
    command="doc",
    owns=("hyper-storage",),
    sections=(DOCUMENTS_SECTION,),
    instead="headwater.documents.topic_hints:instead",
)
