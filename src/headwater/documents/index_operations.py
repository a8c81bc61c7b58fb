"""The operations on indexes of collections, and on views: a part of the table in `headwater.documents.operations`."""

from __future__ import annotations

from headwater.core.document_errors import BadFilter, BadPath, DocumentNotFound, UnknownIndex
from headwater.core.errors import AlreadyExists, Busy, Damaged, DiskFull, Fenced, NotOwner, OutcomeUnknown, Unavailable
from headwater.documents import answers, index_requests
from headwater.documents.bodies import INDEX_BODY, VIEW_BODY, send_index, send_view
from headwater.wire.operation import Operation, Paging, Role

_INDEXES = "/hyper-storage/indexes/{path}"
_INDEX = f"{_INDEXES}/{{index}}"
_VIEW = "/hyper-storage/views/{path}"
_READS = (BadPath, Damaged, Unavailable)
_WRITES = (*_READS, BadFilter, Busy, DiskFull, Fenced, NotOwner, OutcomeUnknown)

INDEX_LIST = Operation(
    part="documents",
    name="index_list",
    method="GET",
    path=_INDEXES,
    request=index_requests.CollectionRequest,
    answer=list[answers.HyperStorageIndex],
    role=Role.READER,
    says="The indexes of a collection, and how far they are built.",
    paging=Paging(by=("index_id",), usual=100, most=1000),
    errors=_READS,
    commands={"index list {path}": ""},
)
INDEX_POST = Operation(
    part="documents",
    name="index_post",
    method="POST",
    path=_INDEXES,
    request=index_requests.HyperStorageIndexPost,
    answer=answers.HyperStorageIndexCreated,
    role=Role.OPERATOR,
    changes=True,
    says="Make an index of a collection. It is built in the background, and used once it is ready.",
    statuses={201: "It is being built; Location leads to it.", 200: "What would be done."},
    content=INDEX_BODY,
    sends=send_index,
    errors=(*_WRITES, AlreadyExists),
)
INDEX_GET = Operation(
    part="documents",
    name="index_get",
    method="GET",
    path=_INDEX,
    request=index_requests.IndexRequest,
    answer=answers.HyperStorageIndex,
    role=Role.READER,
    says="An index, and how far it is built.",
    errors=(*_READS, UnknownIndex),
    commands={"index show {path} {index}": ""},
)
INDEX_PUT = Operation(
    part="documents",
    name="index_put",
    method="PUT",
    path=_INDEX,
    request=index_requests.HyperStorageIndexPut,
    answer=answers.HyperStorageIndexCreated,
    role=Role.OPERATOR,
    changes=True,
    says="Make an index of a collection under this id. One that is there and the same stays as it is.",
    statuses={201: "It is being built.", 200: "It was there, or what would be done."},
    content=INDEX_BODY,
    sends=send_index,
    errors=(*_WRITES, AlreadyExists),
    commands={"index create {path} {index}": ""},
)
INDEX_DELETE: Operation[index_requests.HyperStorageIndexDelete, None] = Operation(
    part="documents",
    name="index_delete",
    method="DELETE",
    path=_INDEX,
    request=index_requests.HyperStorageIndexDelete,
    answer=None,
    role=Role.OPERATOR,
    changes=True,
    says="Drop an index. No query uses it from now on; its rows are removed in the background.",
    errors=(*_WRITES, UnknownIndex),
    commands={"index drop {path} {index}": ""},
)
VIEW_LIST = Operation(
    part="documents",
    name="view_list",
    method="GET",
    path="/hyper-storage/views",
    request=index_requests.ListViews,
    answer=list[answers.ShownView],
    role=Role.READER,
    says="Every view, by path.",
    paging=Paging(by=("path",), usual=100, most=1000),
    errors=_READS,
    commands={"view list": ""},
)
VIEW_GET = Operation(
    part="documents",
    name="view_get",
    method="GET",
    path=_VIEW,
    request=index_requests.ViewRequest,
    answer=answers.ShownView,
    role=Role.READER,
    says="A view: what it mirrors.",
    errors=(*_READS, DocumentNotFound),
    commands={"view show {path}": ""},
)
VIEW_PUT = Operation(
    part="documents",
    name="view_put",
    method="PUT",
    path=_VIEW,
    request=index_requests.PutView,
    answer=answers.ShownView,
    role=Role.OPERATOR,
    changes=True,
    says="Make a view: a collection that mirrors the documents and items of a template that fulfil a filter.",
    statuses={201: "It is being filled.", 200: "It was there."},
    content=VIEW_BODY,
    sends=send_view,
    errors=(*_WRITES, AlreadyExists),
    commands={"view put {path}": ""},
)
VIEW_DELETE: Operation[index_requests.DeleteView, None] = Operation(
    part="documents",
    name="view_delete",
    method="DELETE",
    path=_VIEW,
    request=index_requests.DeleteView,
    answer=None,
    role=Role.OPERATOR,
    changes=True,
    says="End a view, and delete its items.",
    errors=(*_WRITES, DocumentNotFound),
    commands={"view delete {path}": ""},
)
INDEXING = (INDEX_LIST, INDEX_POST, INDEX_GET, INDEX_PUT, INDEX_DELETE)
VIEWS = (VIEW_LIST, VIEW_GET, VIEW_PUT, VIEW_DELETE)
